"""Sums of decimal numbers that come out the same to the last bit in whatever order, and on however many machines."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from turnwise.stats.arrays import FloatArray, IntArray

# Every number is cut into whole multiples of 2^(BITS * k). Whole numbers add up exactly, and 2^31 of these fit.
BITS = 32
LOWEST, HIGHEST = -1088 // BITS, 1024 // BITS


class ExactSums:
    """One sum at each of `places`; rounded once, when it is read."""

    def __init__(self, places: int = 0) -> None:
        self.places = places
        self.pieces: dict[int, NDArray[np.int64]] = {}
        # Infinities and what is not a number have no pieces; they are rare, and add up in any order as they are.
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
        """Add sums that were made elsewhere, each at its place here; those without a place are still zero."""
        for power, piece in other.pieces.items():
            np.add.at(self._piece(power), where, piece[: len(where)])
        if other.odd is not None:
            self.odd = np.zeros(self.places) if self.odd is None else self.odd
            np.add.at(self.odd, where, other.odd[: len(where)])

    def grow(self, places: int) -> None:
        """Make room; what is new is zero."""
        if places > self.places:
            more = (0, places - self.places)
            self.pieces = {power: np.pad(piece, more) for power, piece in self.pieces.items()}
            self.odd = None if self.odd is None else np.pad(self.odd, more)
            self.places = places

    def values(self) -> FloatArray:
        """The sums, each rounded to the nearest number."""
        total = self._rounded({power: piece.tolist() for power, piece in self.pieces.items()}, self.places)
        return total if self.odd is None else total + self.odd

    def total(self) -> float:
        """The sum over all places, rounded to the nearest number."""
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
