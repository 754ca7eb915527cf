"""Perturbations spoil as many answers as they should, nest as the ratio grows, and keep what they must."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.text.perturb import CANNED, TRANSFORMS, perturbed

words = st.text("abcdefg", min_size=1, max_size=4)
answers = st.lists(st.lists(words, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=25)
ratios = st.floats(0, 1)
seeds = st.integers(0, 100)


@pytest.mark.parametrize("transform", TRANSFORMS)
@given(said=answers, first=ratios, second=ratios, seed=seeds)
def test_ratios_nest(transform, said: list[str], first: float, second: float, seed: int) -> None:
    small, large = (perturbed(said, transform, ratio, seed) for ratio in sorted((first, second)))
    assert len(small) == len(large) == len(said)
    assert perturbed(said, transform, first, seed) == perturbed(said, transform, first, seed)
    assert perturbed(said, transform, 0.0, seed) == said
    touched = sum(before != after for before, after in zip(said, small, strict=True))
    assert touched <= round(min(first, second) * len(said))
    # What the larger ratio spoils differently is at most the answer where the chain of mismatches closes.
    changed = [now for was, now, then in zip(said, small, large, strict=True) if now not in (was, then)]
    assert len(changed) <= (transform == "mismatch")


@given(said=answers, ratio=ratios, seed=seeds)
def test_mismatch_gives_every_answer_to_somebody(said: list[str], ratio: float, seed: int) -> None:
    assert Counter(perturbed(said, "mismatch", ratio, seed)) == Counter(said)


def test_mismatch_leaves_nobody_with_their_own() -> None:
    said = [str(number) for number in range(50)]
    assert all(before != after for before, after in zip(said, perturbed(said, "mismatch", 1.0), strict=True))


@given(said=answers, seed=seeds)
def test_permutate_keeps_the_words(said: list[str], seed: int) -> None:
    for before, after in zip(said, perturbed(said, "permutate", 1.0, seed), strict=True):
        assert Counter(before.split()) == Counter(after.split())


@given(said=answers, seed=seeds)
def test_noise_adds_a_quarter_to_a_half_of_known_words(said: list[str], seed: int) -> None:
    vocabulary = {word for answer in said for word in answer.split()}
    for before, after in zip(said, perturbed(said, "noise", 1.0, seed), strict=True):
        size, added = len(before.split()), len(after.split()) - len(before.split())
        assert size // 4 <= added <= size // 2
        assert not Counter(before.split()) - Counter(after.split())
        assert set(after.split()) <= vocabulary


def test_repeat_says_nothing() -> None:
    assert set(perturbed(["a b c"] * 200, "repeat", 1.0)) == set(CANNED)


def test_a_share_is_a_share() -> None:
    said = [f"{number} x" for number in range(40)]
    for ratio in (0.25, 0.5, 1.0):
        changed = sum(a != b for a, b in zip(said, perturbed(said, "repeat", ratio), strict=True))
        assert changed == 40 * ratio
    with pytest.raises(ValueError, match="no share"):
        perturbed(said, "noise", 1.5)
