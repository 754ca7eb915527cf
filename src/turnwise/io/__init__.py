"""Files and Python objects in, a lazy stream of rows out; `read` is the entrance, `write` the way back."""
