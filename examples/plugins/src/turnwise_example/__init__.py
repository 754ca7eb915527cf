"""Extend turnwise from another package."""
