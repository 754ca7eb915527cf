"""F1, BLEU and ROUGE-L against the specification's oracles, sacreBLEU and nltk."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
import sacrebleu
from hypothesis import assume, given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, corpus_bleu
from scipy.stats import pearsonr, spearmanr

from turnwise.dialogue import Example, mean_rating
from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import load_metric
from turnwise.metrics.signature import signature
from turnwise.text.ngrams import FLOOR, bleu, bleu_counts, nlg_eval_bleu

SENTENCE = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), min_size=1, max_size=9).map(tuple)
REFERENCES = st.lists(SENTENCE, min_size=1, max_size=3).map(tuple)
LONG = st.lists(st.sampled_from(["a", "b"]), min_size=4, max_size=9).map(tuple)
ITEMS = st.lists(st.tuples(SENTENCE, SENTENCE, SENTENCE), min_size=1, max_size=5)
SMOOTHING = st.sampled_from(["exp", "floor", "add-k", "none"])
ORDER = st.integers(1, 4)

CAT = {"references": ["the cat sat on the mat"], "response": "the cat sat on mat"}
TEA = {"references": ["i like tea ."], "response": "i like coffee ."}
ALL = ("f1", "bleu-1", "bleu-2", "bleu-3", "bleu-4", "rouge-l")


def value(request: str, **example: object) -> float | None:
    return load_metric(request).score(**example).value


# --- oracles of the specification ------------------------------------------------------------------------


def test_nlg_eval_oracles() -> None:
    bleus = [value(f"bleu-{n}:released", **CAT) for n in (1, 2, 3, 4)]
    assert bleus == pytest.approx([0.8187307528, 0.7090416307, 0.6498270291, 0.5789300672], abs=1e-9)
    assert value("rouge-l:released", **CAT) == pytest.approx(0.8944281525, abs=1e-9)
    bleus = [value(f"bleu-{n}:released", **TEA) for n in (1, 2, 3, 4)]
    assert bleus == pytest.approx([0.75, 0.5, 5.0e-6, 1.88e-8], rel=1e-3)
    assert value("rouge-l:released", **TEA) == pytest.approx(0.75)
    assert value("rouge-l", **TEA) == pytest.approx(0.75)


def test_f1_oracles() -> None:
    assert value("f1", **TEA) == pytest.approx(0.75)
    assert value("f1[normalise=none]", **TEA) == pytest.approx(0.75)
    assert value("f1[normalise=parlai]", **TEA) == pytest.approx(2 / 3)
    assert value("f1:released", **TEA) == pytest.approx(20 / 27)


@pytest.mark.parametrize(
    ("name", "system", "expected"),
    [
        ("usr_topicalchat", "Argmax Decoding", (0.22272, 0.11614, 0.05941, 0.03725, 0.23326)),
        ("usr_topicalchat", "New Human Generated", (0.24222, 0.13307, 0.08283, 0.05918, 0.24930)),
        ("usr_personachat", "Seq2Seq", (0.17121, 0.04022, 0.01549, 0.00934, 0.19431)),
        ("usr_personachat", "New Human Generated", (0.16056, 0.05524, 0.03112, 0.01807, 0.17491)),
    ],
)
def test_system_means(corpus, name: str, system: str, expected: tuple[float, ...]) -> None:
    rows = [row for row in corpus(name) if row.system == system]
    metrics = [load_metric(f"{metric}:released") for metric in ("bleu-1", "bleu-2", "bleu-3", "bleu-4", "rouge-l")]
    means = [np.mean([metric.judge(row).value for row in rows]) for metric in metrics]
    assert means == pytest.approx(expected, abs=5.1e-6)


@pytest.mark.parametrize(
    ("name", "normalise", "expected"),
    [
        ("usr_topicalchat", "none", (0.2642, 0.2821)),
        ("usr_personachat", "none", (0.0603, 0.0550)),
        ("usr_topicalchat", "parlai", (0.2832, 0.2984)),
        ("usr_personachat", "parlai", (0.1413, 0.1375)),
    ],
)
def test_word_f1_correlations(corpus, name: str, normalise: str, expected: tuple[float, float]) -> None:
    rows = [row for row in corpus(name) if row.system != "Original Ground Truth"]
    metric = load_metric(f"f1[normalise={normalise}]")
    scores = [metric.judge(row).value for row in rows]
    overall = [mean_rating(row.ratings["Overall"]) for row in rows]
    found = (pearsonr(scores, overall).statistic, spearmanr(scores, overall).statistic)
    assert found == pytest.approx(expected, abs=5.1e-5)


# --- other implementations --------------------------------------------------------------------------------


@given(SENTENCE, REFERENCES, ORDER, SMOOTHING)
def test_sentence_bleu_equals_sacrebleu(hypothesis, references, n: int, smooth) -> None:
    theirs = sacrebleu.BLEU(tokenize="none", smooth_method=smooth, effective_order=True, max_ngram_order=n)
    expected = theirs.sentence_score(" ".join(hypothesis), [" ".join(reference) for reference in references])
    metric = load_metric(f"bleu-{n}[smooth={smooth}]")
    found = metric.score(response=" ".join(hypothesis), references=[" ".join(r) for r in references])
    assert found.value == pytest.approx(expected.score / 100, abs=1e-9)


@given(ITEMS, ORDER, SMOOTHING)
def test_corpus_bleu_equals_sacrebleu(items, n: int, smooth) -> None:
    theirs = sacrebleu.BLEU(tokenize="none", smooth_method=smooth, max_ngram_order=n)
    hypotheses, first, second = ([" ".join(side) for side in column] for column in zip(*items, strict=True))
    metric = load_metric(f"bleu-{n}[corpus=true,smooth={smooth}]")
    rows = [Example(response=h, references=(a, b)) for h, a, b in zip(hypotheses, first, second, strict=True)]
    assert metric.pools
    found = metric.value(reduce(add, map(metric.statistic, rows)))
    assert found == pytest.approx(theirs.corpus_score(hypotheses, [first, second]).score / 100, abs=1e-9)


@given(st.lists(st.tuples(LONG, LONG, LONG), min_size=1, max_size=5), ORDER)
def test_corpus_bleu_equals_nltk_where_every_order_matches(items, n: int) -> None:
    # Without smoothing nltk has its own ways with zeros, and with texts too short to have an n-gram.
    counts = reduce(add, (bleu_counts(hypothesis, tuple(references)) for hypothesis, *references in items))
    assume(all(counts.matches[:n]))
    hypotheses, references = [item[0] for item in items], [item[1:] for item in items]
    expected = corpus_bleu(references, hypotheses, (1 / n,) * n)
    assert bleu(counts, n, smooth="none", effective_order=False) == pytest.approx(expected)
    assert nlg_eval_bleu(counts, n) == pytest.approx(expected, rel=1e-6)


def test_floor_smoothing_is_chen_and_cherrys_first() -> None:
    hypothesis, reference = ("i", "like", "coffee", "."), ("i", "like", "tea", ".")
    smoothing = SmoothingFunction(epsilon=FLOOR).method1
    expected = corpus_bleu([[reference]], [hypothesis], smoothing_function=smoothing)
    counts = bleu_counts(hypothesis, (reference,))
    assert bleu(counts, 4, smooth="floor", effective_order=False) == pytest.approx(expected)


@given(ITEMS)
def test_bleu_counts_come_apart_again(items) -> None:
    counts = [bleu_counts(hypothesis, tuple(rest)) for hypothesis, *rest in items]
    assert reduce(add, counts) - counts[0] + counts[0] == reduce(add, counts)


# --- properties -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@given(hypothesis=SENTENCE, references=REFERENCES)
def test_values_are_shares(name: str, hypothesis, references) -> None:
    for request in (name, f"{name}:released"):
        found = value(request, response=" ".join(hypothesis), references=[" ".join(r) for r in references])
        assert 0.0 <= found <= 1.0


@pytest.mark.parametrize("name", ALL)
@given(hypothesis=SENTENCE)
def test_a_response_equals_itself(name: str, hypothesis) -> None:
    text = " ".join(hypothesis)
    assert value(name, response=text, references=["something else", text]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["f1", "f1:released", "rouge-l", "rouge-l:released"])
@given(hypothesis=SENTENCE, references=REFERENCES)
def test_more_references_never_hurt(name: str, hypothesis, references) -> None:
    text, texts = " ".join(hypothesis), [" ".join(reference) for reference in references]
    alone = [value(name, response=text, references=[reference]) for reference in texts]
    assert value(name, response=text, references=texts) >= max(alone) - 1e-12


def test_rouge_takes_precision_and_recall_from_different_references() -> None:
    score = load_metric("rouge-l").score(response="a b", references=["a b c d", "a"])
    assert score.parts == {"precision": 1.0, "recall": 1.0}
    assert score.value == pytest.approx(1.0)


def test_bleu_takes_the_closest_reference_length_and_the_shorter_of_two() -> None:
    counts = bleu_counts(tuple("abc"), (tuple("abcd"), tuple("ab"), tuple("abcdefgh")))
    assert counts.reference_length == 2


def test_recommended_forms_ignore_case_and_attached_punctuation() -> None:
    for name in ALL:
        assert value(name, response="I like tea.", references=["i like tea ."]) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ALL)
def test_edges(name: str) -> None:
    for request in (name, f"{name}:released"):
        assert value(request, response="", references=["a b"]) == 0.0
        blank = load_metric(request).score(response="a b", references=["", ""])
        assert (blank.value, blank.note.code) == (None, "score.no_reference_words")
        missing = load_metric(request).score(response="a b")
        assert (missing.value, missing.note.code) == (None, "score.no_references")
    assert value(name, response="a b", references=["", "a b"]) == pytest.approx(1.0)


@pytest.mark.parametrize("request_", ["f1:released[normalise=parlai]", "bleu-4:released[smooth=floor]"])
def test_options_that_a_mode_has_no_use_for(request_: str) -> None:
    with pytest.raises(TurnwiseError, match="does not apply"):
        load_metric(request_)


def test_signatures_name_only_what_is_in_force() -> None:
    def facts(request: str) -> str:
        return signature(request, load_metric(request), full=True).rpartition("|")[0]

    assert facts("f1:released") == "f1|mode:released"
    assert facts("bleu-4") == "bleu-4|mode:recommended|corpus:false|smooth:exp"
    assert facts("bleu-4:released[corpus=true]") == "bleu-4|mode:released|corpus:true"
