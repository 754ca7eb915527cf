"""Small helpers that every other file here builds on: complete rows and cluster labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
Labels = Sequence[Hashable] | NDArray[Any]


def floats(values: ArrayLike) -> FloatArray:
    """Numbers as a float array; `None` becomes NaN."""
    return np.asarray(values, dtype=np.float64)


def complete_rows(*columns: FloatArray) -> BoolArray:
    """Which rows have a value in every column."""
    missing = np.zeros(len(columns[0]), dtype=np.bool_)
    for column in columns:
        missing |= np.isnan(column)
    return ~missing


def is_constant(values: FloatArray) -> bool:
    """Return whether all values are the same; an empty array is not constant."""
    return bool(len(values) and values.min() == values.max())


def cluster_codes(clusters: Labels | None, rows: int) -> tuple[IntArray, int]:
    """Number the clusters from 0; the code of every row, and how many clusters there are.

    A row labelled `None` is known to belong with no other, so it is a cluster by itself.

    >>> cluster_codes(["a", "b", "a", None], 4)
    (array([0, 1, 0, 2]), 3)
    """
    if clusters is None:
        return np.arange(rows, dtype=np.intp), rows
    if len(clusters) != rows:
        raise ValueError(f"{len(clusters)} cluster labels for {rows} rows")
    if isinstance(clusters, np.ndarray) and clusters.dtype.kind in "biuUS":
        names, codes = np.unique(clusters, return_inverse=True)
        return codes.reshape(-1).astype(np.intp), len(names)
    numbers: dict[Hashable, int] = {}
    # A fresh object equals nothing else, so each None gets a number of its own.
    found = [numbers.setdefault(object() if label is None else label, len(numbers)) for label in clusters]
    return np.array(found, dtype=np.intp), len(numbers)


def sum_by_cluster(columns: FloatArray, codes: IntArray, count: int) -> FloatArray:
    """Column sums within each cluster: (rows, columns) to (clusters, columns)."""
    if count == len(columns):
        # Every cluster is one row; summing would only put the rows in the clusters' order.
        return columns[np.argsort(codes)]
    return np.column_stack([np.bincount(codes, weights=column, minlength=count) for column in columns.T])
