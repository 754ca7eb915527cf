"""Diversity: the specification's entropies, and groups from rows to systems."""

from __future__ import annotations

import doctest
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

import turnwise as tw
from turnwise.errors import TurnwiseError
from turnwise.metrics.holistic import Diversity
from turnwise.metrics.registry import load_metric


def diversity(request: str) -> Diversity:
    metric = load_metric(request)
    assert isinstance(metric, Diversity)
    return metric


CTG = ["Yes . I have a bad traffic jam on my date .", "Certainly , but ...", "Sure .", "Sure .", "Sure ."]


@pytest.mark.parametrize(
    ("n", "replies", "expected"),
    [
        (1, ["Sure .", "Sure .", "OK ."], 1.011404),
        (2, ["Sure .", "Sure .", "OK ."], 0.636514),
        (1, CTG, 2.575450),
        (2, CTG, 2.639341),
        (3, CTG, 2.488328),
        (2, ["Sure ."] * 5, 0.0),
    ],
)
def test_oracles(n: int, replies: list[str], expected: float) -> None:
    assert diversity(f"diversity:released[n={n}]").of_group(replies) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("name", "first", "means"),
    [
        ("holistic_diversity_ws", (2.869333, 3.107972, 2.995732), (2.8893, 3.1457, 3.0675)),
        ("holistic_diversity_ctg", (2.575450, 2.639341, 2.488328), (3.0283, 3.2749, 3.1538)),
    ],
)
def test_released_groups(name: str, first: tuple[float, ...], means: tuple[float, ...], data_dir) -> None:
    requests = [f"diversity:released[n={n}]" for n in (1, 2, 3)]
    result = tw.evaluate(data_dir / "human" / f"{name}.jsonl", requests)
    groups = result.to_dict()["groups"]
    assert len(groups) == 100
    assert [groups[0]["scores"][request] for request in requests] == pytest.approx(first, abs=5e-7)
    values = {value.metric: value for value in result.system_values}
    assert [values[request].value for request in requests] == pytest.approx(means, abs=5e-5)
    assert all(values[request].n == 100 for request in requests)
    assert all(value.low < value.value < value.high for value in result.system_values)


WORDS = st.lists(st.sampled_from("a b c d".split()), min_size=1, max_size=8)


@given(st.lists(WORDS, min_size=2, max_size=6), st.integers(1, 3))
def test_entropy_is_scipys(replies: list[list[str]], n: int) -> None:
    texts = [" ".join(words) for words in replies]
    counts: dict[str, int] = {}
    for words, text in zip(replies, texts, strict=True):
        runs = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)] if len(words) > n else [text]
        for run in runs:
            counts[run] = counts.get(run, 0) + 1
    expected = float(entropy(list(counts.values())))
    for request in (f"diversity[n={n}]", f"diversity:released[n={n}]"):
        assert diversity(request).of_group(texts) == pytest.approx(expected, abs=1e-9)
    assert diversity(f"diversity[n={n},base=2]").of_group(texts) == pytest.approx(expected / math.log(2), abs=1e-9)


@given(st.lists(WORDS.map(" ".join), min_size=2, max_size=6), st.randoms())
def test_the_order_of_replies_does_not_matter(replies: list[str], rng) -> None:
    shuffled = list(replies)
    rng.shuffle(shuffled)
    assert diversity("diversity").of_group(shuffled) == pytest.approx(diversity("diversity").of_group(replies))


def test_case_and_punctuation() -> None:
    assert diversity("diversity[n=1]").of_group(["Tea!", "tea!"]) == pytest.approx(math.log(2))
    assert diversity("diversity:released[n=1]").of_group(["Tea!", "tea!"]) == pytest.approx(math.log(2))
    assert diversity("diversity").of_group(["Tea", "tea"]) == 0
    assert diversity("diversity:released").of_group(["a  b c", "a  b c"]) == pytest.approx(math.log(3))


def rows(**groups: list[str]) -> list[dict[str, object]]:
    return [
        {"id": f"{group}{i}", "response": reply, "group": group, "system": "bot"}
        for group, replies in groups.items()
        for i, reply in enumerate(replies)
    ]


def test_groups_and_the_mean_over_them() -> None:
    result = tw.evaluate(rows(a=["yes sir", "no sir"], b=["tea", "tea", "tea"]), "diversity,length")
    groups = {entry["group"]: entry["scores"] for entry in result.to_dict()["groups"]}
    assert groups["a"]["diversity"] == pytest.approx(math.log(2))
    assert groups["b"] == {"diversity": 0.0, "length": 1.0}
    (value,) = [value for value in result.system_values if value.metric == "diversity"]
    assert (value.value, value.n) == (pytest.approx(math.log(2) / 2), 2)
    assert "diversity" not in result.turns.columns


def test_what_has_no_group_says_so() -> None:
    mixed = [*rows(a=["yes", "no"]), {"id": "z", "response": "hm", "system": "bot"}]
    result = tw.evaluate(mixed, "diversity")
    assert "no group: no score from diversity for 1 of 3 rows" in str(result.problems[0])


def test_one_reply_is_no_group() -> None:
    result = tw.evaluate(rows(a=["yes sir"], b=["yes sir", "no"]), "diversity")
    assert [entry["scores"]["diversity"] for entry in result.to_dict()["groups"]] == [None, pytest.approx(math.log(2))]
    assert [value.n for value in result.system_values] == [1]
    alone = tw.evaluate(rows(a=["yes sir"]), "diversity").system_values[0]
    assert (alone.value, alone.note.code) == (None, "value.single_replies")


def test_wrong_options() -> None:
    for wrong in ("diversity[n=0]", "diversity[base=3]", "diversity:paper"):
        with pytest.raises(TurnwiseError):
            load_metric(wrong)


@pytest.mark.parametrize("page", ["diversity"])
def test_examples_of_the_page_run(page: str) -> None:
    file = Path(__file__).parents[2] / "docs" / "metrics" / f"{page}.md"
    result = doctest.testfile(str(file), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def bots(first: int, second: int) -> list[dict[str, object]]:
    """Two systems asked the same eight things: one always says the same, the other something new each time."""
    return [
        {"id": f"{system}{group}-{i}", "response": reply, "group": str(group), "system": system}
        for system, size in (("parrot", first), ("poet", second))
        for group in range(size)
        for i, reply in enumerate(
            ["so it goes"] * 3 if system == "parrot" else [f"a{group} b{i} c{i}" for i in range(3)]
        )
    ]


@pytest.mark.parametrize("sizes", [(8, 8), (8, 3)])
def test_systems_are_compared_by_their_groups(sizes: tuple[int, int]) -> None:
    comparison = tw.compare(bots(*sizes), metrics="diversity", baseline="parrot")
    (row,) = comparison.rows
    assert row.difference == pytest.approx(math.log(6) - math.log(2))
    # Groups that do not differ at all still leave an interval.
    assert row.low < row.difference < row.high
    assert row.verdict == ("better" if sizes == (8, 8) else row.verdict)
    assert comparison.unscored == {("parrot", "diversity"): 0.0, ("poet", "diversity"): 0.0}
