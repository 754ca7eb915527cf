"""How weighted qualities become one number: sums, of which some are hierarchies, and means. Of numbers or of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def linear(weights: Sequence[float], values: Sequence[ArrayLike]) -> list[Floats]:
    """The plain weighted sum.

    >>> [float(term) for term in linear([0.5, 2.0], [1.0, 3.0])]
    [0.5, 6.0]
    """
    pairs = zip(weights, values, strict=True)
    return [np.asarray(weight * np.asarray(value, dtype=np.float64)) for weight, value in pairs]


def hierarchy(weights: Sequence[float], values: Sequence[ArrayLike]) -> list[Floats]:
    """Every quality counts as far as all before it do: USL-H in full (Phy et al. 2020, Eq. 1).

    >>> [float(term) for term in hierarchy([1.0, 1.0, 1.0], [0.5, 1.0, 0.5])]
    [0.5, 0.5, 0.25]
    """
    return linear(weights, list(accumulate(values, np.multiply)))


def simplified(weights: Sequence[float], values: Sequence[ArrayLike]) -> list[Floats]:
    """The first quality counts for itself, the others are a hierarchy: simplified USL-H (Eq. 3).

    >>> [float(term) for term in simplified([1.0, 1.0, 1.0], [0.0, 1.0, 0.5])]
    [0.0, 1.0, 0.5]
    """
    return linear(weights[:1], values[:1]) + hierarchy(weights[1:], values[1:])


def geometric(weights: Sequence[float], values: Sequence[ArrayLike]) -> Floats:
    """The weighted geometric mean.

    >>> geometric([1.0, 1.0], [0.25, 1.0]).item()
    0.5
    """
    shares, qualities = _stacked(weights, values)
    return np.asarray(np.prod(qualities**shares, axis=-1))


def harmonic(weights: Sequence[float], values: Sequence[ArrayLike]) -> Floats:
    """The weighted harmonic mean; 0 where a quality that has a weight is 0.

    >>> round(harmonic([1.0, 1.0], [0.5, 1.0]).item(), 4), harmonic([1.0, 1.0], [0.0, 1.0]).item()
    (0.6667, 0.0)
    """
    shares, qualities = _stacked(weights, values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(1 / np.sum(np.where(shares > 0, shares / qualities, 0.0), axis=-1))


def _stacked(weights: Sequence[float], values: Sequence[ArrayLike]) -> tuple[Floats, Floats]:
    """The weights as shares of one, and the qualities side by side."""
    qualities = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in values))
    return np.asarray(weights, dtype=np.float64) / sum(weights), np.stack(qualities, axis=-1)


@dataclass(frozen=True, slots=True)
class Composition:
    """One of them: a sum, for which `added` says what each quality adds, or a `mean`, which is no such sum.

    A mean holds only for qualities from 0 up and weights of which none is negative.
    """

    added: Callable[[Sequence[float], Sequence[ArrayLike]], list[Floats]] | None = None
    mean: Callable[[Sequence[float], Sequence[ArrayLike]], Floats] | None = None

    def terms(self, weights: Sequence[float], values: Sequence[ArrayLike]) -> list[Floats]:
        """What each quality adds; nothing where there is no such thing."""
        return [] if self.added is None else self.added(weights, values)

    def __call__(self, weights: Sequence[float], values: Sequence[ArrayLike]) -> Floats:
        if self.mean is not None:
            return self.mean(weights, values)
        return np.asarray(sum(self.terms(weights, values)), dtype=np.float64)


COMPOSITIONS: Mapping[str, Composition] = {
    "linear": Composition(linear),
    "A": Composition(linear),
    "H": Composition(hierarchy),
    "HS": Composition(simplified),
    "geometric": Composition(mean=geometric),
    "harmonic": Composition(mean=harmonic),
}
