"""METEOR and the WordNet it stands on, number for number against nltk."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nltk.stem import PorterStemmer
from nltk.translate.meteor_score import meteor_score

from turnwise.errors import TurnwiseError
from turnwise.metrics.overlap import align, count_chunks
from turnwise.metrics.registry import load_metric
from turnwise.text import wordnet
from turnwise.text.tokenise import lower_words

GUIDE = "It is a guide to action which ensures that the military always obeys the commands of the party"
GUIDE_REFERENCES = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]
# Words with stems, synonyms and repetitions in common.
VOCABULARY = (
    *("car", "cars", "auto", "motorcar", "dog", "dogs", "hound", "run", "running", "ran", "fast", "quick", "quickly"),
    *("the", "the", "a", "happy", "glad", "paris", "Paris"),
)
SENTENCE = st.lists(st.sampled_from(VOCABULARY), max_size=10)


def test_the_examples_of_nltks_documentation() -> None:
    meteor = load_metric("meteor")
    assert meteor.score(response=GUIDE, references=GUIDE_REFERENCES[:1]).value == pytest.approx(0.6944, abs=5e-5)
    assert meteor.score(response=GUIDE, references=GUIDE_REFERENCES).value == pytest.approx(0.6944, abs=5e-5)
    assert meteor.score(response="non matching hypothesis", references=["this is a cat"]).value == 0.0


def test_parts_make_the_value() -> None:
    # Two of three words, two of two, in one chunk: P = 2/3, R = 1, F = 20/21, penalty = .5 * (1/2)**3.
    score = load_metric("meteor").score(response="the dogs slept", references=["the dog"])
    assert score.parts == pytest.approx({"precision": 2 / 3, "recall": 1.0, "penalty": 1 / 16})
    assert score.value == pytest.approx(15 / 16 * (2 / 3) / (0.9 * 2 / 3 + 0.1))


def test_alignment_goes_from_exact_to_stem_to_synonym() -> None:
    assert align(("the", "dogs", "car"), ("the", "auto", "dog")) == [(0, 0), (1, 2), (2, 1)]
    assert count_chunks([(0, 0), (1, 2), (2, 1)]) == 3
    assert count_chunks([(0, 3), (1, 4), (3, 5), (4, 6)]) == 2


def test_edges() -> None:
    meteor = load_metric("meteor")
    assert meteor.score(response="", references=["a b"]).value == 0.0
    assert meteor.score(response="a b", references=[" "]).note.code == "score.no_reference_words"
    assert meteor.score(response="a b").note.code == "score.no_references"


def test_the_java_program_is_not_here() -> None:
    with pytest.raises(TurnwiseError, match=r"METEOR 1\.5, a Java program .* ask for 'meteor'"):
        load_metric("meteor:released")


@pytest.mark.parametrize("option", ["alpha=1.5", "gamma=-1", "beta=-0.5"])
def test_constants_out_of_range(option: str) -> None:
    with pytest.raises(TurnwiseError, match="between 0 and 1"):
        load_metric(f"meteor[{option}]")


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hypothesis=SENTENCE, references=st.lists(SENTENCE, min_size=1, max_size=3))
def test_equals_nltk_on_related_words(nltk_wordnet: Any, hypothesis: list[str], references: list[list[str]]) -> None:
    found = load_metric("meteor").score(response=" ".join(hypothesis), references=[" ".join(r) for r in references])
    expected = meteor_score(references, hypothesis, wordnet=nltk_wordnet)
    assert found.value == (expected if any(references) else None)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "every"), [({}, 1), ({"alpha": 0.5, "beta": 1.0, "gamma": 0.2}, 8)])
def test_equals_nltk_on_rated_corpora(corpus, nltk_wordnet: Any, options: dict[str, float], every: int) -> None:
    names = ("usr_topicalchat", "usr_personachat", "grade_convai2", "grade_dailydialog", "zhao_dailydialog")
    rows = [row for name in names for row in corpus(name)][::every]
    meteor = load_metric("meteor" + (f"[{','.join(f'{k}={v}' for k, v in options.items())}]" if options else ""))
    stemmer = PorterStemmer()
    for row in rows:
        references = [lower_words(reference) for reference in row.references]
        expected = meteor_score(references, lower_words(row.response), stemmer=stemmer, wordnet=nltk_wordnet, **options)
        assert meteor.judge(row).value == expected, row


def test_wordnet_lookups_equal_nltk(nltk_wordnet: Any) -> None:
    lemmas = wordnet.lemmas()[::150]
    irregular = [line.split(" ")[1] for line in wordnet._lines("exceptions")[::5]]
    endings = ("s", "es", "ies", "men", "ed", "ing", "er", "est")
    words = [
        *lemmas,
        *irregular,
        *(word + ending for word in lemmas[::10] for ending in endings),
        *("offer", "aurar", "best"),
    ]
    for word in words:
        for pos in (None, *wordnet.EVERY_POS):
            assert wordnet.morphy(word, pos) == nltk_wordnet.morphy(word, pos), (word, pos)
            expected = [tuple(synset.lemma_names()) for synset in nltk_wordnet.synsets(word, pos)]
            assert wordnet.synsets(word, pos) == expected, (word, pos)
