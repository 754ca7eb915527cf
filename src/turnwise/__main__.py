"""`python -m turnwise`."""

from turnwise.cli import main

main()
