"""MAUDE's system means against the Bayesian-calibrated ratings of See et al. 2019, over 29 systems."""

from __future__ import annotations

import pytest

from turnwise.stats.correlation import spearman

# System: MAUDE's mean, calibrated fluency, calibrated inquisitiveness.
SYSTEMS = {
    "baseline": (0.9333, 3.0914, 2.4152),
    "greedy": (0.8137, 3.0281, 1.9487),
    "human": (0.8537, 3.3618, 2.4354),
    "inq00": (0.9026, 3.5140, 2.3637),
    "inq01": (0.9137, 3.4175, 2.4651),
    "inq04": (0.9008, 3.4668, 2.5328),
    "inq07": (0.9319, 3.5384, 2.6636),
    "inq10": (0.9415, 3.5227, 2.6338),
    "inq10b": (0.9574, 3.4208, 2.7863),
    "nb04": (0.9213, 3.4464, 2.5573),
    "nb06": (0.9151, 3.3425, 2.5260),
    "nb08": (0.7446, 2.5359, 2.0020),
    "nb-04": (0.8864, 3.3714, 2.4624),
    "nb-10": (0.7813, 3.1889, 2.2805),
    "nc0": (0.8786, 3.4431, 2.5631),
    "nc2": (0.9330, 3.3893, 2.5649),
    "nc4": (0.8982, 3.4366, 2.5133),
    "nc7": (0.8995, 3.4267, 2.4927),
    "nc9": (0.9128, 3.4121, 2.2768),
    "rep05": (0.9351, 3.3511, 2.6332),
    "rep12": (0.9322, 3.4030, 2.5449),
    "rep35": (0.9041, 3.5625, 2.4707),
    "rep35inf": (0.9029, 3.5320, 2.6237),
    "repinf": (0.9094, 3.4903, 2.5559),
    "resp00": (0.8989, 3.5513, 2.4773),
    "resp05": (0.9145, 3.3486, 2.5066),
    "resp10": (0.8505, 2.9317, 2.1957),
    "resp13": (0.7619, 2.3977, 2.0722),
    "resp-10": (0.8430, 3.2559, 2.3129),
}


@pytest.mark.parametrize(("column", "expected"), [(1, 0.370), (2, 0.728)])
def test_correlation_with_calibrated_ratings(column: int, expected: float) -> None:
    found = spearman([row[0] for row in SYSTEMS.values()], [row[column] for row in SYSTEMS.values()])
    assert found.n == 29
    assert found.value == pytest.approx(expected, abs=5e-4)


def test_people_rank_below_most_models() -> None:
    below = sum(row[0] > SYSTEMS["human"][0] for row in SYSTEMS.values())
    assert below == 22
