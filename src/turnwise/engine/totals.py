"""What turns add up to: by cluster for the intervals of systems, and by name for dialogues and groups.

Totals are whole numbers inside, so that parts of a run, made anywhere, merge into exactly what one run gives.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from turnwise.stats.arrays import ExactSums, FloatArray, IntArray
from turnwise.stats.decisions import Evidence, evidence_of_totals

# Beyond this many clusters those with equal hashes are taken together: blocks of clusters are no less independent
# than clusters, sixteen thousand of them tell a standard error within half a per cent, and memory stays flat.
MOST_CLUSTERS = 2**14
# Values are added up so many at a time.
BUFFER = 4096


class ClusterTotals:
    """Sums and numbers of one system's scores on one metric, by cluster."""

    def __init__(self) -> None:
        self.keys: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.sizes: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.sums = ExactSums()
        self.folded = False
        self._clusters, self._values = array("q"), array("d")

    def add(self, cluster: int, value: float) -> None:
        """Count one turn in."""
        self._clusters.append(cluster)
        self._values.append(value)
        if len(self._values) >= BUFFER:
            self.flush()

    def flush(self) -> None:
        """Add up what came in one by one."""
        if not self._values:
            return
        clusters, values = np.array(self._clusters), np.array(self._values)
        self._clusters, self._values = array("q"), array("d")
        where = self._places(clusters)
        self.sums.add(where, values)
        self.sizes += np.bincount(where, minlength=len(self.keys))

    def merge(self, other: ClusterTotals) -> None:
        """Add the turns of another part of the run."""
        self.flush()
        other.flush()
        if other.folded and not self.folded:
            self._fold()
        where = self._places(other.keys)
        self.sums.add_sums(other.sums, where)
        np.add.at(self.sizes, where, other.sizes)

    @property
    def n(self) -> int:
        """The number of turns."""
        self.flush()
        return int(self.sizes.sum())

    @property
    def mean(self) -> float:
        """The mean of all turns."""
        self.flush()
        return self.sums.total() / self.n

    def evidence(self, bounds: tuple[float, float] | None = None) -> Evidence | None:
        """Return the evidence on the mean, by cluster; `bounds` are the ends of its scale."""
        self.flush()
        return evidence_of_totals(self.sums.values(), self.sizes.astype(np.float64), self.keys, bounds)

    def _places(self, clusters: NDArray[np.int64]) -> IntArray:
        """Where each of the given clusters is counted; new ones are given a place."""
        if self.folded:
            clusters = clusters % MOST_CLUSTERS
        together = np.union1d(self.keys, clusters)
        if not self.folded and len(together) > MOST_CLUSTERS:
            self._fold()
            return self._places(clusters)
        self._move(together, np.searchsorted(together, self.keys))
        return np.searchsorted(together, clusters)

    def _fold(self) -> None:
        """From clusters to blocks of clusters."""
        self.folded = True
        blocks = self.keys % MOST_CLUSTERS
        together = np.unique(blocks)
        self._move(together, np.searchsorted(together, blocks))

    def _move(self, keys: NDArray[np.int64], where: IntArray) -> None:
        if len(keys) == len(self.keys) and np.array_equal(where, np.arange(len(keys))):
            self.keys = keys
            return
        sums, sizes = ExactSums(len(keys)), np.zeros(len(keys), dtype=np.int64)
        sums.add_sums(self.sums, where)
        np.add.at(sizes, where, self.sizes)
        self.keys, self.sums, self.sizes = keys, sums, sizes


class MeansByName:
    """Means of turn scores by dialogue or group and system, in the order in which these first occur."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, str], int] = {}
        self.first: array[int] = array("q")
        self.sums: dict[str, ExactSums] = {}
        self.sizes: dict[str, NDArray[np.int64]] = {}
        self._waiting: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, name: str, system: str, number: int, scores: Mapping[str, float | None]) -> None:
        """Count one turn in; `number` is its place in the run."""
        place = self._place((name, system), number)
        for metric, value in scores.items():
            places, values = self._waiting.setdefault(metric, (array("q"), array("d")))
            if value is not None:
                places.append(place)
                values.append(value)
                if len(values) >= BUFFER:
                    self._flush(metric)

    def merge(self, other: MeansByName) -> None:
        """Add the turns of another part of the run."""
        pairs = zip(other.places, other.first, strict=True)
        where = np.array([self._place(key, number) for key, number in pairs], dtype=np.intp)
        for metric in other._metrics():
            other._flush(metric)
            self._flush(metric)
            self.sums[metric].add_sums(other.sums[metric], where)
            np.add.at(self.sizes[metric], where, other.sizes[metric][: len(where)])

    def items(self) -> Iterator[tuple[tuple[str, str], dict[str, float | None]]]:
        """Every dialogue or group with its means; None where no turn has a score."""
        columns = {metric: self._means(metric) for metric in self._metrics()}
        names = list(self.places)
        for place in np.argsort(np.array(self.first), kind="stable"):
            means = {metric: float(column[place]) for metric, column in columns.items()}
            yield names[place], {metric: None if np.isnan(mean) else mean for metric, mean in means.items()}

    def flush(self) -> None:
        """Add up what came in one by one."""
        for metric in self._metrics():
            self._flush(metric)

    def _metrics(self) -> list[str]:
        return list(dict.fromkeys([*self.sums, *self._waiting]))

    def _place(self, key: tuple[str, str], number: int) -> int:
        place = self.places.setdefault(key, len(self.places))
        if place == len(self.first):
            self.first.append(number)
        elif number < self.first[place]:
            self.first[place] = number
        return place

    def _flush(self, metric: str) -> None:
        count = len(self.places)
        sums = self.sums.setdefault(metric, ExactSums())
        sizes = self.sizes.get(metric, np.empty(0, dtype=np.int64))
        if count > sums.places:
            # Room in advance, so that growing stays cheap.
            sums.grow(count + count // 4)
            sizes = np.pad(sizes, (0, sums.places - len(sizes)))
        self.sizes[metric] = sizes
        places, values = self._waiting.get(metric, ((), ()))
        if len(values):
            where = np.array(places, dtype=np.intp)
            sums.add(where, np.array(values))
            np.add.at(sizes, where, 1)
            self._waiting[metric] = (array("q"), array("d"))

    def _means(self, metric: str) -> FloatArray:
        self._flush(metric)
        sums, sizes = self.sums[metric].values(), self.sizes[metric]
        found: FloatArray = np.divide(sums, sizes, out=np.full(len(sums), np.nan), where=sizes > 0)
        return found
