"""Arrays on disk hold what they were given, through being let go, given back and taken again."""

from __future__ import annotations

import numpy as np
import pytest

from turnwise.stats import spill
from turnwise.text import counts as tables


def test_small_arrays_stay_and_large_ones_go() -> None:
    small, large = np.arange(8), np.arange(10_000)
    assert spill.to_disk(small) is small
    away = spill.to_disk(large)
    assert away is not large
    assert not away.flags.owndata
    assert np.array_equal(away, large)


def test_content_survives_resting_and_pieces_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "MOST_TOUCHED", 1)
    rng = np.random.default_rng(0)
    kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    files = len(spill._files)
    for step in range(3_000):
        values = rng.integers(0, 2**60, size=int(rng.integers(1_024, 8_192)))
        kept[step % 50] = (values, spill.to_disk(values))
    assert all(np.array_equal(values, away) for values, away in kept.values())
    # 3,000 arrays of 36 kB each are 100 MB; 50 of them at a time fit into one file.
    assert len(spill._files) <= files + 1


def test_without_room_on_disk_arrays_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spill, "_new_file", full)
    monkeypatch.setattr(spill, "_last_block", {})
    monkeypatch.setattr(spill, "_free", {})
    away = spill.to_disk(np.arange(10_000))
    assert away.flags.owndata
    assert np.array_equal(away, np.arange(10_000))


def test_a_view_keeps_its_piece() -> None:
    view = spill.to_disk(np.full(4_096, 7))[10:20]
    others = [spill.to_disk(np.zeros(4_096, dtype=np.int64)) for _ in range(20)]
    assert len(others) == 20
    assert (view == 7).all()


def test_merging_by_ranges_is_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "RANGE", 100)
    rng = np.random.default_rng(1)
    things = [[f"thing {number}" for number in rng.integers(0, 3_000, size=1_500)] for _ in range(4)]
    counted = [tables.Hashed.of({name: many.count(name) for name in many}) for many in things]
    found = tables.merged(counted)
    everything = [name for many in things for name in many]
    expected = tables.Hashed.of({name: everything.count(name) for name in set(everything)})
    assert isinstance(found, tables.Hashed)
    assert np.array_equal(found.keys, expected.keys)
    assert np.array_equal(found.counts, expected.counts)
