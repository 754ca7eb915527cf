"""Where the public corpora are, and how to fetch them."""
