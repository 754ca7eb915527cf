"""k-means, seeded: Lloyd's algorithm, and the mini-batch form that published numbers were made with."""

from __future__ import annotations

from typing import Literal

import numpy as np

from turnwise.stats.arrays import FloatArray, IntArray

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
    if len(rows) < clusters:
        raise ValueError(f"{len(rows)} vectors cannot be put into {clusters} clusters")
    rng = np.random.default_rng(seed)
    lengths = np.einsum("ij,ij->i", rows, rows)
    starts = [_spread_centres(rows, lengths, clusters, rng) for _ in range(restarts)]
    if flavour == "mini-batch":
        # As in the usual implementation, restarts compete at the start and one of them is carried on.
        best = min(starts, key=lambda centres: _assign(rows, lengths, centres)[1].sum())
        fits = [_mini_batches(rows, lengths, best, rng)]
    else:
        fits = [_lloyd(rows, lengths, centres) for centres in starts]
    found = [_assign(rows, lengths, centres) for centres in fits]
    labels, distances = min(found, key=lambda fit: float(fit[1].sum()))
    return labels, float(distances.sum())


def _spread_centres(rows: FloatArray, lengths: FloatArray, clusters: int, rng: np.random.Generator) -> FloatArray:
    """k-means++: each next centre is a row drawn by its squared distance to those before; the best of a few draws."""
    tries = 2 + int(np.log(clusters))
    chosen = [int(rng.integers(len(rows)))]
    nearest = _squared(rows, lengths, rows[chosen])[:, 0]
    while len(chosen) < clusters:
        total = nearest.sum()
        weights = nearest / total if total > 0 else np.full(len(rows), 1 / len(rows))
        candidates = rng.choice(len(rows), size=tries, p=weights)
        distances = np.minimum(nearest[:, None], _squared(rows, lengths, rows[candidates]))
        best = int(distances.sum(axis=0).argmin())
        chosen.append(int(candidates[best]))
        nearest = distances[:, best]
    return rows[chosen].copy()


def _lloyd(rows: FloatArray, lengths: FloatArray, centres: FloatArray) -> FloatArray:
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


def _mini_batches(rows: FloatArray, lengths: FloatArray, centres: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Each batch pulls the centres by the share of rows that they have just won."""
    size = min(BATCH, len(rows))
    centres, won = centres.copy(), np.zeros(len(centres))
    memory = min(1.0, 2 * size / (len(rows) + 1))
    average, best, since = None, np.inf, 0
    for _ in range(MOST_ROUNDS * len(rows) // size):
        batch = rng.integers(len(rows), size=size)
        labels, distances = _assign(rows[batch], lengths[batch], centres)
        sizes = np.bincount(labels, minlength=len(centres)).astype(np.float64)
        before, won = won, won + sizes
        moving = sizes > 0
        sums = _sums(rows[batch], labels, len(centres))
        centres[moving] = ((centres * before[:, None] + sums) / np.maximum(won, 1)[:, None])[moving]
        inertia = float(distances.mean())
        average = inertia if average is None else average * (1 - memory) + inertia * memory
        best, since = (average, 0) if average < best else (best, since + 1)
        if since >= PATIENCE:
            break
    return centres


def _assign(rows: FloatArray, lengths: FloatArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """The nearest centre of every row, and the squared distance to it."""
    distances = _squared(rows, lengths, centres)
    labels: IntArray = distances.argmin(axis=1)
    return labels, distances[np.arange(len(rows)), labels]


def _squared(rows: FloatArray, lengths: FloatArray, centres: FloatArray) -> FloatArray:
    """Squared distances (rows, centres), by one product of matrices."""
    products = rows @ centres.T
    products *= -2.0
    products += lengths[:, None]
    products += np.einsum("ij,ij->i", centres, centres)
    # Rounding may leave a trace below zero where a row is its own centre.
    return np.maximum(products, 0.0, out=products)


def _sums(rows: FloatArray, labels: IntArray, count: int) -> FloatArray:
    one_hot = np.zeros((count, len(rows)))
    one_hot[labels, np.arange(len(rows))] = 1.0
    return one_hot @ rows
