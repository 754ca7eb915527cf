"""The report: one HTML page that opens anywhere, and the same charts as files."""
