"""SPEC 9.1: what corruptions may and may not do, and MAUDE's sampling oracles."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.text import corrupt
from turnwise.text.corrupt import CANNED, TRANSFORMS, perturbed

WORDS = st.lists(st.sampled_from("i you have a dog the no way go home now".split()), min_size=1, max_size=12)
SEEDS = st.integers(0, 10_000)


def is_subsequence(short: list[str], long: list[str]) -> bool:
    rest = iter(long)
    return all(word in rest for word in short)


@given(WORDS, SEEDS)
def test_reorder_keeps_the_words_and_changes_their_order(words: list[str], seed: int) -> None:
    shuffled = corrupt.reorder(words, Random(seed))
    assert Counter(shuffled) == Counter(words)
    assert (shuffled != words) or len(set(words)) == 1


@given(st.integers(0, 2000))
def test_released_reorder_may_change_nothing(start: int) -> None:
    same = [corrupt.reorder(["a", "b"], Random(seed), released=True) == ["a", "b"] for seed in range(start, start + 40)]
    assert any(same)


@given(WORDS.filter(lambda words: len(words) > 1), SEEDS)
def test_drop_leaves_a_proper_part_in_order(words: list[str], seed: int) -> None:
    kept = corrupt.drop(words, Random(seed))
    assert 0 < len(kept) < len(words)
    assert is_subsequence(kept, words)


@given(WORDS, SEEDS)
def test_repeat_only_adds(words: list[str], seed: int) -> None:
    said = corrupt.repeat(words, Random(seed))
    assert len(said) > len(words)
    assert is_subsequence(words, said)
    assert set(said) == set(words)


def test_shares_of_labels_and_kinds() -> None:
    rng = Random(0)
    drawn = [corrupt.valid_or_corrupted("well i have a big dog at home .", rng) for _ in range(20_000)]
    kinds = Counter(utterance.kind for utterance in drawn)
    negative = sum(not utterance.valid for utterance in drawn)
    assert negative / len(drawn) == pytest.approx(0.5, abs=0.02)
    for kind, share in zip(corrupt.NEGATIVE_KINDS, corrupt.NEGATIVE_SHARES, strict=True):
        assert kinds[kind] / negative == pytest.approx(share, abs=0.02)
    for kind, share in zip(corrupt.POSITIVE_KINDS, corrupt.POSITIVE_SHARES, strict=True):
        assert kinds[kind] / (len(drawn) - negative) == pytest.approx(share, abs=0.02)


def test_shares_of_the_rules_are_options() -> None:
    rng = Random(0)
    rules = corrupt.Rules(negative=0.2, reorder=1, drop=3, repeat=0, unchanged=0, simplify=0, released=True)
    drawn = [corrupt.valid_or_corrupted("i have a big dog.", rng, rules=rules) for _ in range(5000)]
    kinds = Counter(utterance.kind for utterance in drawn)
    assert set(kinds) == {"reorder", "drop", "unpunctuate", "unstop"}
    assert (kinds["reorder"] + kinds["drop"]) / len(drawn) == pytest.approx(0.2, abs=0.02)
    assert kinds["drop"] / kinds["reorder"] == pytest.approx(3, abs=0.5)
    assert {u.text for u in drawn if u.kind == "unpunctuate"} == {"i   h a v e   a   b i g   d o g"}
    for wrong in ({"unit": "letter"}, {"negative": 2}, {"drop": -1}, {"reorder": 0, "drop": 0, "repeat": 0}):
        with pytest.raises(ValueError, match=r"choose|give"):
            corrupt.Rules(**wrong)


@given(st.lists(st.sampled_from(["yes", "no", "."]), min_size=1, max_size=2), SEEDS)
def test_short_utterances_are_never_negative(words: list[str], seed: int) -> None:
    assert corrupt.valid_or_corrupted(" ".join(words), Random(seed)).valid


@given(st.text(min_size=1).filter(str.strip), SEEDS)
def test_nothing_becomes_empty(text: str, seed: int) -> None:
    assert corrupt.valid_or_corrupted(text, Random(seed)).text.strip()


def test_word_pieces_leak_only_in_the_released_form() -> None:
    pieces = lambda text: ["un", "##believ", "##able", *text.split()]  # noqa: E731
    texts = {corrupt.valid_or_corrupted("so it is", Random(s), split=pieces, released=True).text for s in range(60)}
    assert any("##" in text for text in texts)
    assert not any("##" in corrupt.valid_or_corrupted("so it is", Random(s)).text for s in range(60))


def test_released_final_punctuation_spells_the_text_out() -> None:
    assert corrupt.unpunctuate("i go.", released=True) == "i   g o"
    assert corrupt.unpunctuate("i go", released=True) == "i   g o"
    assert corrupt.unpunctuate("i go...") == "i go"
    assert corrupt.unpunctuate("?") == "?"


def test_simplify_with_a_tagger_keeps_the_published_tags() -> None:
    tags = ["PRP", "VBP", "VBD", "IN", "DT", "NN"]
    assert corrupt.simplify("i do went to the park".split(), lambda _: tags) == ["went", "to", "park"]
    assert corrupt.simplify("i really like the park".split()) == ["like", "park"]


@given(st.text(), SEEDS)
def test_corruption_is_a_function_of_its_seed(text: str, seed: int) -> None:
    assert corrupt.valid_or_corrupted(text, Random(seed)) == corrupt.valid_or_corrupted(text, Random(seed))
    assert corrupt.word_drop(text, Random(seed)) == corrupt.word_drop(text, Random(seed))


def test_maude_word_repeat() -> None:
    seen = {corrupt.word_repeat("i have a dog", Random(seed)) for seed in range(50)}
    assert seen == {"i i i i", "i have have have"}
    assert {corrupt.word_repeat("no no way", Random(seed)) for seed in range(20)} == {"no no no"}


@given(WORDS, SEEDS)
def test_maude_word_drop_at_its_ends(words: list[str], seed: int) -> None:
    text = " ".join(words)
    assert corrupt.word_drop(text, Random(seed), probability=0.0) == text
    assert Counter(corrupt.word_drop(text, Random(seed), probability=1.0).split()) == Counter(words)
    assert Counter(corrupt.word_order(text, Random(seed)).split()) == Counter(words)


def test_maude_word_drop_of_nothing() -> None:
    assert corrupt.word_drop("", Random(0)) == "word"


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
