"""k-means, seeded: Lloyd's algorithm, and the mini-batch form that published numbers were made with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from turnwise.stats.arrays import FloatArray, IntArray
from turnwise.stats.kmeans_starts import Points, spread_starts, squared

Flavour = Literal["lloyd", "mini-batch"]

MOST_ROUNDS = 100
# Mini-batches: rows in each, and how many in a row may pass without a better fit.
BATCH = 1024
PATIENCE = 10
# Centres have come to rest when they move less than this share of the data's variance.
REST = 1e-4


def kmeans(
    rows: FloatArray, clusters: int, seed: int = 0, flavour: Flavour = "lloyd", restarts: int = 1
) -> tuple[IntArray, float]:
    """The cluster of every row, and the sum of squared distances to its centre; the best of several starts.

    >>> labels, inertia = kmeans(np.array([[0.0], [1.0], [9.0], [10.0]]), clusters=2)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3]), inertia
    (True, 1.0)
    """
    return kmeans_runs(rows, clusters, [seed], flavour, restarts)[0]


def kmeans_runs(
    rows: FloatArray, clusters: int, seeds: Sequence[int], flavour: Flavour = "lloyd", restarts: int = 1
) -> list[tuple[IntArray, float]]:
    """What `kmeans` gives for each seed; rows are held against one another once for all of them."""
    if len(rows) < clusters:
        raise ValueError(f"{len(rows)} vectors cannot be put into {clusters} clusters")
    points = Points(rows)
    generators = [np.random.default_rng(seed) for seed in seeds]
    starts, fits = spread_starts(points, clusters, restarts, generators)
    if flavour == "mini-batch":
        # As in the usual implementation, restarts compete at the start and one of them is carried on.
        best = starts[np.arange(len(seeds)), fits.argmin(axis=1)]
        return [
            _fit(points, [_mini_batches(points, rows[chosen], rng)])
            for chosen, rng in zip(best, generators, strict=True)
        ]
    return [_fit(points, [_lloyd(points, rows[chosen]) for chosen in some]) for some in starts]


def _fit(points: Points, candidates: Sequence[FloatArray]) -> tuple[IntArray, float]:
    """The best of some centres: the cluster of every row, and the sum of squared distances."""
    found = [_assign(points.rows, points.lengths, centres) for centres in candidates]
    labels, distances = min(found, key=lambda fit: float(fit[1].sum()))
    return labels, float(distances.sum())


def _lloyd(points: Points, centres: FloatArray) -> FloatArray:
    rows, lengths = points.rows, points.lengths
    rest = REST * float(rows.var(axis=0).mean())
    for _ in range(MOST_ROUNDS):
        labels, distances = _assign(rows, lengths, centres)
        sizes = np.bincount(labels, minlength=len(centres))
        moved = _sums(rows, labels, len(centres)) / np.maximum(sizes, 1)[:, None]
        # An empty cluster starts anew at the row that is worst served.
        for place, row in zip(np.flatnonzero(sizes == 0), np.argsort(-distances), strict=False):
            moved[place] = rows[row]
        shift = float(((moved - centres) ** 2).sum())
        centres = moved
        if shift <= rest:
            break
    return centres


def _mini_batches(points: Points, centres: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Each batch pulls the centres by the share of rows that they have just won."""
    rows, lengths = points.rows, points.lengths
    size = min(BATCH, len(rows))
    won = np.zeros(len(centres))
    memory = min(1.0, 2 * size / (len(rows) + 1))
    average, best, since = None, np.inf, 0
    for _ in range(MOST_ROUNDS * len(rows) // size):
        batch = rng.integers(len(rows), size=size)
        some = rows[batch]
        labels, distances = _assign(some, lengths[batch], centres)
        sizes = np.bincount(labels, minlength=len(centres)).astype(np.float64)
        before, won = won, won + sizes
        moving = sizes > 0
        pulled = (centres * before[:, None] + _sums(some, labels, len(centres))) / np.maximum(won, 1)[:, None]
        centres = np.where(moving[:, None], pulled, centres)
        inertia = float(distances.mean())
        average = inertia if average is None else average * (1 - memory) + inertia * memory
        best, since = (average, 0) if average < best else (best, since + 1)
        if since >= PATIENCE:
            break
    return centres


def _assign(rows: FloatArray, lengths: FloatArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """The nearest centre of every row, and the squared distance to it."""
    distances = squared(rows, lengths, centres)
    labels: IntArray = distances.argmin(axis=1)
    return labels, distances[np.arange(len(rows)), labels]


def _sums(rows: FloatArray, labels: IntArray, count: int) -> FloatArray:
    one_hot = np.zeros((count, len(rows)))
    one_hot[labels, np.arange(len(rows))] = 1.0
    return one_hot @ rows
