"""Paraphrases of a query by WordNet: which words may change, into what, and in which form."""
