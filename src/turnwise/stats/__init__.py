"""Correlation, intervals, significance, agreement and regression: pure functions on arrays of numbers.

Nothing is re-exported here, so that importing the package costs nothing.
"""
