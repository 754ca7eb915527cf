"""The Fréchet distance: its trace against scipy's matrix root, and moments of a million vectors in flat memory.

Run `python -m benchmarks.frechet`. It uses one core, and fails if the two ways disagree, if ours is not as much
faster as it should be, or if memory grows with the number of vectors.
"""

from __future__ import annotations

import os

# Before numpy is imported, or its linear algebra would already have taken every core.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402

import numpy as np  # noqa: E402
from scipy.linalg import sqrtm  # noqa: E402

from turnwise.stats.frechet import (  # noqa: E402
    Moments,
    root_trace,
    root_trace_of_rows,
)

WIDTH = 768
# Vectors, and how many times faster than the matrix root the trace must be.
SIZES = ((300, 20.0), (10_000, 3.0))
REPEATS = 3
TOLERANCE = 1e-6
# Bytes by which the peak may differ between a tenth of the vectors and all of them.
SLACK = 32 * 2**20

STREAM = """
import resource, sys, time
import numpy as np
from turnwise.stats.frechet import Moments, merged
rows, width, batch = map(int, sys.argv[1:])
rng = np.random.default_rng(0)
began = time.process_time()
total = merged(Moments.of(rng.standard_normal((min(batch, rows - at), width), dtype=np.float32) + 1)
               for at in range(0, rows, batch))
apart = max(abs(total.mean - 1).max(), abs(total.covariance() - np.eye(width)).max())
print(total.n, time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, apart)
"""


def vectors(n: int, rng: np.random.Generator) -> np.ndarray:
    """Vectors with a spectrum that falls as those of encoders do, turned at random."""
    turn = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    return (rng.normal(size=(n, WIDTH)) * np.exp(-np.arange(WIDTH) / 150)) @ turn + rng.normal(size=WIDTH)


def best_of(work: Callable[[], float]) -> tuple[float, float]:
    """The result and the fastest of a few runs."""
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        value = work()
        seconds.append(time.perf_counter() - began)
    return value, min(seconds)


def compare(n: int, wanted: float) -> None:
    """Both ways on the same vectors, from moments or rows that are already centred."""
    rng = np.random.default_rng(n)
    x, y = vectors(n, rng), vectors(n, rng)
    first, second = Moments.of(x).covariance(), Moments.of(y).covariance()
    if n < WIDTH:
        a, b = ((rows - rows.mean(axis=0)) / np.sqrt(n - 1) for rows in (x, y))
        ours, our_seconds = best_of(lambda: root_trace_of_rows(a, b))
    else:
        ours, our_seconds = best_of(lambda: root_trace(first, second))
    theirs, their_seconds = best_of(lambda: float(np.trace(sqrtm(first @ second)).real))
    apart = abs(ours / theirs - 1)
    times = their_seconds / our_seconds
    print(
        f"N = {n:6,}, d = {WIDTH}: ours {our_seconds * 1e3:.1f} ms, scipy.linalg.sqrtm {their_seconds * 1e3:.1f} ms, "
        f"{times:.1f} times faster (at least {wanted:g}), apart by {apart:.0e}"
    )
    assert apart < TOLERANCE, f"N = {n}: the two ways differ by {apart}"
    assert times >= wanted, f"N = {n}: only {times:.1f} times faster"


def stream(rows: int) -> None:
    """Moments of vectors that come in batches, in a process of their own, for a tenth of the rows and for all."""
    peaks = []
    for count in (rows // 10, rows):
        arguments = [str(count), str(WIDTH), "8192"]
        done = subprocess.run(
            [sys.executable, "-c", STREAM, *arguments], check=True, capture_output=True, text=True
        ).stdout
        n, seconds, peak, apart = map(float, done.split())
        peaks.append(peak)
        print(
            f"moments of {n:9,.0f} vectors: {n / seconds:,.0f} a second, drawing them included, "
            f"{peak / 2**20:.0f} MiB at the peak, furthest from the truth {apart:.3f}"
        )
    assert peaks[1] - peaks[0] < SLACK, "memory grows with the number of vectors"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="vectors to stream")
    asked = parser.parse_args()
    for n, wanted in SIZES:
        compare(n, wanted)
    stream(asked.rows)


if __name__ == "__main__":
    main()
