"""Build arrays, find complete rows, number clusters, and add up exactly."""

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
    """Return numbers as a float array; `None` becomes NaN."""
    return np.asarray(values, dtype=np.float64)


def complete_rows(*columns: FloatArray) -> BoolArray:
    """Return a mask of the rows with a value in every column."""
    missing = np.zeros(len(columns[0]), dtype=np.bool_)
    for column in columns:
        missing |= np.isnan(column)
    return ~missing


def is_constant(values: FloatArray) -> bool:
    """Return whether all values are the same; an empty array is not constant."""
    return bool(len(values) and values.min() == values.max())


def cluster_codes(clusters: Labels | None, rows: int) -> tuple[IntArray, int]:
    """Number the clusters from 0, and return the code of every row and the number of clusters.

    A row labelled `None` is a cluster by itself.

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
    """Return the sum of each column within each cluster: (rows, columns) to (clusters, columns)."""
    if count == len(columns):
        # Every cluster is one row; summing would only put the rows in the clusters' order.
        return columns[np.argsort(codes)]
    return np.column_stack([np.bincount(codes, weights=column, minlength=count) for column in columns.T])


# Every number is cut into whole multiples of 2^(BITS * k). Whole numbers add up exactly, and 2^31 of these fit.
BITS = 32
LOWEST, HIGHEST = -1088 // BITS, 1024 // BITS


class ExactSums:
    """Keep one sum at each of `places`, the same to the last bit in any order. It is rounded when it is read."""

    def __init__(self, places: int = 0) -> None:
        self.places = places
        self.pieces: dict[int, NDArray[np.int64]] = {}
        # Infinities and NaN have no pieces. They are rare, and add up in any order.
        self.odd: FloatArray | None = None

    def add(self, where: IntArray, values: FloatArray) -> None:
        """Add a value at each of the given places, which may repeat."""
        finite = np.isfinite(values)
        if not finite.all():
            if self.odd is None:
                self.odd = np.zeros(self.places)
            np.add.at(self.odd, where[~finite], values[~finite])
            where, values = where[finite], values[finite]
        if not len(values):
            return
        left = values.astype(np.float64)
        highest = int(np.frexp(np.abs(left).max())[1]) // BITS
        for power in range(min(highest, HIGHEST), LOWEST - 1, -1):
            if not left.any():
                break
            whole = np.trunc(np.ldexp(left, -BITS * power))
            left = left - np.ldexp(whole, BITS * power)
            self._piece(power)
            np.add.at(self.pieces[power], where, whole.astype(np.int64))

    def add_sums(self, other: ExactSums, where: IntArray) -> None:
        """Add the sums of another instance, each at its place here; sums beyond `where` are zero."""
        for power, piece in other.pieces.items():
            np.add.at(self._piece(power), where, piece[: len(where)])
        if other.odd is not None:
            self.odd = np.zeros(self.places) if self.odd is None else self.odd
            np.add.at(self.odd, where, other.odd[: len(where)])

    def grow(self, places: int) -> None:
        """Extend to this number of places; new sums are zero."""
        if places > self.places:
            more = (0, places - self.places)
            self.pieces = {power: np.pad(piece, more) for power, piece in self.pieces.items()}
            self.odd = None if self.odd is None else np.pad(self.odd, more)
            self.places = places

    def values(self) -> FloatArray:
        """Return the sums, each rounded to the nearest float."""
        total = self._rounded({power: piece.tolist() for power, piece in self.pieces.items()}, self.places)
        return total if self.odd is None else total + self.odd

    def total(self) -> float:
        """Return the sum over all places, rounded to the nearest float."""
        total = self._rounded({power: [sum(piece.tolist())] for power, piece in self.pieces.items()}, 1)[0]
        return float(total if self.odd is None else total + self.odd.sum())

    def _piece(self, power: int) -> NDArray[np.int64]:
        return self.pieces.setdefault(power, np.zeros(self.places, dtype=np.int64))

    @staticmethod
    def _rounded(pieces: dict[int, list[int]], places: int) -> FloatArray:
        if not pieces:
            return np.zeros(places)
        lowest = min(0, min(pieces))
        below = 1 << (-BITS * lowest)
        shifts = [(BITS * (power - lowest), whole) for power, whole in pieces.items()]
        # The division of whole numbers is rounded correctly, however many digits they have.
        return np.array([sum(whole[i] << shift for shift, whole in shifts) / below for i in range(places)])
