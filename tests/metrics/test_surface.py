"""Length, distinct n-grams and entropy: published figures, closed forms, pooling."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from turnwise.dialogue import Example, mean_rating
from turnwise.metrics.registry import load_metric

NAMES = ("distinct-1", "distinct-2", "entropy-1", "entropy-2", "entropy-3")
RESPONSES = st.lists(st.lists(st.sampled_from("abc"), max_size=6).map(" ".join), min_size=1, max_size=6)


def value(request: str, text: str) -> float | None:
    return load_metric(request).score(response=text).value


def pooled(request: str, texts: list[str]) -> float | None:
    metric = load_metric(request)
    return metric.value(reduce(add, (metric.statistic(Example(response=text)) for text in texts)))


def test_length_counts_words_between_spaces() -> None:
    assert value("length", "Great, thanks.") == 2
    assert value("length", "  a \n b  ") == 2
    assert value("length", "") == 0
    assert load_metric("length").higher_is_better is None


def test_length_is_the_baseline_that_the_specification_verified(corpus) -> None:
    rows = [row for row in corpus("usr_topicalchat") if row.system != "Original Ground Truth"]
    lengths = [load_metric("length").judge(row).value for row in rows]
    overall = [mean_rating(row.ratings["Overall"]) for row in rows]
    assert pearsonr(lengths, overall).statistic == pytest.approx(0.337, abs=5e-4)
    assert spearmanr(lengths, overall).statistic == pytest.approx(0.275, abs=5e-4)
    rows = [row for row in corpus("usr_personachat") if row.system != "Original Ground Truth"]
    lengths = [load_metric("length").judge(row).value for row in rows]
    engaging = [mean_rating(row.ratings["Engaging"]) for row in rows]
    assert spearmanr(lengths, engaging).statistic == pytest.approx(0.424, abs=5e-4)


@pytest.mark.parametrize("mode", ["", ":released"])
def test_entropy_and_distinct_of_a_known_text(mode: str) -> None:
    assert value(f"entropy-1{mode}", "a b a b") == pytest.approx(math.log(2))
    assert value(f"entropy-2{mode}", "a b a b") == pytest.approx(0.636514, abs=1e-6)
    assert value(f"entropy-3{mode}", "a b a b") == pytest.approx(math.log(2))
    assert value(f"distinct-1{mode}", "a b a b") == 2 / 4
    assert value(f"distinct-2{mode}", "a b a b") == 2 / 3


def test_released_entropy_of_published_groups() -> None:
    group = ["Sure .", "Sure .", "OK ."]
    assert pooled("entropy-1:released", group) == pytest.approx(1.011404, abs=1e-6)
    assert pooled("entropy-2:released", group) == pytest.approx(0.636514, abs=1e-6)
    group = ["Yes . I have a bad traffic jam on my date .", "Certainly , but ...", "Sure .", "Sure .", "Sure ."]
    assert pooled("entropy-1:released", group) == pytest.approx(2.575450, abs=1e-6)
    assert pooled("entropy-2:released", group) == pytest.approx(2.639341, abs=1e-6)
    assert pooled("entropy-3:released", group) == pytest.approx(2.488328, abs=1e-6)
    assert pooled("entropy-2:released", ["OK ."] * 5) == 0


def test_released_entropy_skips_empty_lines_and_keeps_empty_tokens() -> None:
    assert pooled("entropy-1:released", ["a b", ""]) == pooled("entropy-1:released", ["a b"])
    # A double space makes a token of nothing: "a", "", "b".
    assert value("entropy-1:released", "a  b") == pytest.approx(math.log(3))
    assert value("entropy-1", "a  b") == pytest.approx(math.log(2))


@pytest.mark.parametrize(("name", "expected"), [("ws", (2.8893, 3.1457, 3.0675)), ("ctg", (3.0283, 3.2749, 3.1538))])
def test_released_entropy_of_the_released_replies(corpus, name: str, expected: tuple[float, ...]) -> None:
    groups = defaultdict(list)
    for row in corpus(f"holistic_diversity_{name}"):
        groups[row.group].append(row.response)
    assert len(groups) == 100
    for n, mean in enumerate(expected, 1):
        values = [pooled(f"entropy-{n}:released", replies) for replies in groups.values()]
        assert np.mean(values) == pytest.approx(mean, abs=5.1e-5)


def test_first_released_group(corpus) -> None:
    replies = [row.response for row in corpus("holistic_diversity_ws") if row.group == "0"]
    expected = (2.869333, 3.107972, 2.995732)
    values = [pooled(f"entropy-{n}:released", replies) for n in (1, 2, 3)]
    assert values == pytest.approx(expected, abs=1e-6)


def test_recommended_forms_ignore_case_and_split_punctuation() -> None:
    assert value("distinct-1", "No, no.") == 3 / 4
    assert value("distinct-1:released", "No, no.") == 1.0


@pytest.mark.parametrize("name", NAMES)
def test_too_short_a_response_has_no_value(name: str) -> None:
    score = load_metric(name).score(response="")
    assert score.value is None
    assert str(score.note) == f"fewer than {name[-1]} words"
    if not name.endswith("-1"):
        assert value(name, "yes") is None


@pytest.mark.parametrize("name", NAMES)
@given(texts=RESPONSES)
def test_pooled_value_is_that_of_all_ngrams_together(name: str, texts: list[str]) -> None:
    n = int(name[-1])
    grams = [tuple(text.split()[i : i + n]) for text in texts for i in range(len(text.split()) - n + 1)]
    if not grams:
        expected = None
    elif name.startswith("distinct"):
        expected = len(set(grams)) / len(grams)
    else:
        shares = [grams.count(gram) / len(grams) for gram in set(grams)]
        expected = -sum(share * math.log(share) for share in shares)
    assert pooled(name, texts) == (None if expected is None else pytest.approx(expected, abs=1e-12))


@pytest.mark.parametrize("name", NAMES)
def test_leaving_a_part_out_equals_never_having_it(name: str) -> None:
    metric = load_metric(name)
    parts = [metric.statistic(Example(response=text)) for text in ("a b c a b", "a b d e f", "c a b b")]
    remainder = reduce(add, parts) - parts[1]
    assert metric.value(remainder) == pytest.approx(metric.value(parts[0] + parts[2]), abs=1e-12)
