"""The exact oracles of the Fréchet distance and of precision and recall, and facts of the released data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from turnwise.stats.frechet import Moments, frechet, frechet_of_moments
from turnwise.stats.prd import SMOOTHING, prd_curve

CROSS = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])


def gaussian(mean: list[float], covariance: np.ndarray) -> Moments:
    return Moments(2.0, np.array(mean), covariance)


def test_one_dimension() -> None:
    found = frechet([[0.0], [2.0]], [[5.0], [9.0]])
    assert found.value() == pytest.approx(38)
    assert found.value(squared=False) == pytest.approx(8)


def test_two_dimensions() -> None:
    found = frechet(CROSS, 2 * CROSS + [3, 4])
    assert found.value() == pytest.approx(25 + 4 / 3)
    assert found.value(squared=False) == pytest.approx(5 + 4 / 3)


def test_gaussians() -> None:
    found = frechet_of_moments(gaussian([0, 0], np.eye(2)), gaussian([3, 4], 4 * np.eye(2)))
    assert found.value() == pytest.approx(27)
    assert found.value(squared=False) == pytest.approx(7)


def test_commuting_covariances() -> None:
    a, b = np.array([4.0, 0.25, 9.0]), np.array([1.0, 2.0, 0.0])
    first, second = (Moments(2.0, np.zeros(3), np.diag(values)) for values in (a, b))
    assert frechet_of_moments(first, second).value() == pytest.approx(((np.sqrt(a) - np.sqrt(b)) ** 2).sum())


# What was generated, what is real, and the score of the released code: 1001 angles, 1e-6 added to the divisor.
SCORES = [
    ((1, 0), (0, 1), 0.0, 1e-9),
    ((0.3, 0.7), (0.3, 0.7), 0.9999995, 1e-9),
    ((0.5, 0.5, 0), (0, 0.5, 0.5), 0.4999995, 1e-9),
    ((0.25, 0.75), (0.75, 0.25), 0.5, 1e-6),
    ((0.2, 0.3, 0.5), (0.5, 0.3, 0.2), 0.6999995, 1e-9),
    ((0.5, 0.5), (1, 0), 0.666374, 5e-7),
    ((1, 0), (0.5, 0.5), 0.666374, 5e-7),
]


@pytest.mark.parametrize(("generated", "real", "score", "within"), SCORES)
def test_released_scores(generated: tuple[float, ...], real: tuple[float, ...], score: float, within: float) -> None:
    assert prd_curve(generated, real, grid="released").score(smoothing=SMOOTHING) == pytest.approx(score, abs=within)


def test_half_of_the_mass_on_the_only_mode() -> None:
    assert prd_curve([0.5, 0.5], [1, 0]).score() == pytest.approx(0.666456, abs=5e-7)
    curve = prd_curve([0.5, 0.5], [1, 0], grid="released")
    assert curve.recall.max() == pytest.approx(1)
    assert curve.precision.max() == pytest.approx(0.5)
    assert curve.score(beta=8) == pytest.approx(0.9848, abs=5e-5)
    assert curve.score(beta=1 / 8) == pytest.approx(0.5039, abs=5e-5)


def test_one_of_two_modes_captured() -> None:
    curve = prd_curve([1, 0], [0.5, 0.5])
    assert curve.precision.max() == pytest.approx(1)
    assert curve.recall.max() == pytest.approx(0.5)


def test_the_released_files_are_two_draws_of_one_mixture(data_dir: Path) -> None:
    contexts: dict[str, set[str]] = {}
    for corpus in ("dailyh", "empathetic"):
        said: dict[str, dict[str, str]] = {}
        with (data_dir / "human" / f"fbd_{corpus}.jsonl").open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                said.setdefault(row["context_id"], {})[row["system"]] = row["response"]
                contexts.setdefault(corpus, set()).add(row["context"][0])
        assert len(said) == 150
        assert {len(set(by_system.values())) for by_system in said.values()} == {2}
        if corpus == "dailyh":
            first, *_ = systems = list(said["0"])
            from_first = [sum(of[system] == of[first] for of in said.values()) for system in systems]
            assert from_first == [150, 0, 12, 35, 45, 66, 73, 89, 119, 119, 137]
    assert contexts["dailyh"] == contexts["empathetic"]
