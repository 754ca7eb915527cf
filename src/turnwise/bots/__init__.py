"""Systems under test that can be asked while one waits, and small ones to try things with."""
