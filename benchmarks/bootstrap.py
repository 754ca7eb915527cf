"""Bootstrap intervals of a correlation: weights over rows sorted once, against sorting every resample with scipy.

Run `python -m benchmarks.bootstrap`. It uses one core, and fails if the two ways disagree.
"""

from __future__ import annotations

import os

# Before numpy is imported, or its linear algebra would already have taken every core.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import time  # noqa: E402

import numpy as np  # noqa: E402
from scipy.stats import pearsonr, spearmanr  # noqa: E402

from turnwise.stats.bootstrap import cluster_weights, correlation_interval  # noqa: E402
from turnwise.stats.correlation import WeightedMethod, weighted_correlation  # noqa: E402

ROWS, CONTEXTS, RESAMPLES = 1_000, 200, 10_000
# The naive loop is timed on fewer resamples; its cost is the same for each.
NAIVE_RESAMPLES = 1_000
LIMIT_SECONDS = 1.0


def main() -> None:
    rng = np.random.default_rng(0)
    contexts = np.arange(ROWS) % CONTEXTS
    quality = rng.normal(size=ROWS) + rng.normal(size=CONTEXTS)[contexts]
    scores = quality + rng.normal(size=ROWS)
    # People rate on a short scale, so their means are full of ties.
    ratings = np.clip(np.round(3 * (quality + rng.normal(size=ROWS))) / 3, -2, 2)
    print(f"{ROWS} rows in {CONTEXTS} contexts, {RESAMPLES} resamples, one core")
    for method in ("pearson", "spearman"):
        compare(method, scores, ratings, contexts)


def compare(method: WeightedMethod, scores: np.ndarray, ratings: np.ndarray, contexts: np.ndarray) -> None:
    """Time both ways in the same run and check that they give the same values."""
    weights = cluster_weights(contexts, NAIVE_RESAMPLES, np.random.default_rng(1))
    reference = pearsonr if method == "pearson" else spearmanr
    started = time.perf_counter()
    naive = np.empty(NAIVE_RESAMPLES)
    for resample, counts in enumerate(weights.T.astype(int)):
        rows = np.repeat(np.arange(ROWS), counts)
        naive[resample] = reference(scores[rows], ratings[rows])[0]
    naive_seconds = (time.perf_counter() - started) * RESAMPLES / NAIVE_RESAMPLES

    apart = float(np.abs(naive - weighted_correlation(scores, ratings, weights, method)).max())
    assert apart < 1e-12, f"{method}: the two ways differ by {apart}"

    started = time.perf_counter()
    interval = correlation_interval(scores, ratings, contexts, method, RESAMPLES)
    seconds = time.perf_counter() - started
    assert interval is not None
    verdict = "within" if seconds < LIMIT_SECONDS else "OVER"
    print(
        f"{method:9} [{interval.low:.3f}, {interval.high:.3f}]  ours {seconds:.3f} s ({verdict} {LIMIT_SECONDS:g} s), "
        f"scipy loop {naive_seconds:.2f} s, {naive_seconds / seconds:.0f} times faster, "
        f"largest disagreement {apart:.0e}"
    )


if __name__ == "__main__":
    main()
