"""The sums behind the page on likelihood and ratings, and behind the choice of a scale, on numbers made for it."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import choose_scale
import explain_mlm
import mlm_evidence
import mlm_page

PEOPLE = mlm_evidence.PERSON


@pytest.mark.parametrize("module", [choose_scale, explain_mlm, mlm_evidence, mlm_page])
def test_what_the_scripts_say_of_themselves(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted
    assert not found.failed


def rated(rng: np.random.Generator) -> mlm_evidence.Rated:
    """Forty contexts, a person and two systems each; people are rated higher, and within a system all is chance."""
    systems = np.array([PEOPLE, "one", "two"] * 40)
    overall = np.where(systems == PEOPLE, 5.0, 2.0) + rng.normal(0, 0.5, 120)
    contexts = np.repeat(np.arange(40), 3)
    return mlm_evidence.Rated(overall, systems, contexts, rng.uniform(3, 30, 120), rng.normal(0, 1, 120))


def test_a_difference_between_systems_alone_is_located_there() -> None:
    rng = np.random.default_rng(0)
    corpus = rated(rng)
    against_people = np.where(corpus.systems == PEOPLE, -3.0, -2.0) + rng.normal(0, 0.1, 120)
    found = mlm_evidence.stands(against_people, corpus)
    assert found["Overall"] < -0.5
    assert abs(found["within systems"]) < 0.2
    place = mlm_evidence.located({"it": against_people}, corpus)
    assert place["pairs won"]["it"]["a person and a system"] < 0.1
    assert 0.3 < place["pairs won"]["it"]["two systems"] < 0.7
    assert place["variance between"]["it"]["systems"] > 0.9
    assert sum(of["n"] for name, of in place["subsets"].items() if name.endswith("words")) == 120


def test_a_page_is_made_of_it() -> None:
    corpus = rated(np.random.default_rng(1))
    columns = {
        name: np.random.default_rng(2).normal(size=120)
        for name in (explain_mlm.WORDS, explain_mlm.USED, explain_mlm.RELEASED, "causal, after the last turn")
    }
    text = mlm_page.page({"Made up": explain_mlm.explain(corpus, columns)})
    assert "## Made up, 120 responses" in text
    assert len({line.count("|") for line in text.splitlines() if line.startswith(f"| {PEOPLE}")}) == 1
    assert "nan" not in text


def test_a_long_tail_is_told_from_a_short_one() -> None:
    scores = {
        "vup": [*[0.99] * 40, 0.01],
        "nup": [*np.linspace(0.1, 0.9, 41)],
        "usr-dr-f": [*np.linspace(0.1, 0.9, 41)],
    }
    rows = [
        {
            "place": place,
            "kind": "person",
            "scores": {name: of[place] for name, of in scores.items()} | {"usr-mlm": -2.0 - place / 41},
        }
        for place in range(41)
    ]
    made = choose_scale.Scores(rows)
    assert choose_scale.kurtosis(made.z("vup", choose_scale.as_it_is)) > 30
    assert choose_scale.kurtosis(made.z("nup", choose_scale.as_it_is)) < 0


def test_a_missing_part_counts_as_average() -> None:
    rows = [
        {
            "place": 0,
            "kind": kind,
            "scores": {"vup": v, "nup": v, "usr-dr-f": None if kind == "bland" else v, "usr-mlm": -v},
        }
        for kind, v in (("person", 0.9), ("bland", 0.3), ("drawn", 0.5))
    ]
    made = choose_scale.Scores(rows)
    assert made.z("dr_f", choose_scale.as_it_is)[1] == 0
    assert choose_scale.wins(made.keys, np.array([1.0, 0.0, 0.0]))["bland"] == {0: 1.0}
