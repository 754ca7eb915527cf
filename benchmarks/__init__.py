"""Speed and scale, each file run by one command: `python -m benchmarks.NAME`."""
