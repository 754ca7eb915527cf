"""Embedding metrics: the specification's oracles, scikit-learn's cosines, nlg-eval's definitions, and policies."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer
from sklearn.metrics.pairwise import cosine_similarity

import turnwise as tw
from tests.metrics.toy_models import Toy
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics.embeddings import average_similarity, cosines, extrema, greedy_similarity
from turnwise.metrics.registry import expand, load_metric
from turnwise.metrics.signature import signature
from turnwise.models.requests import Lookup

NAMES = ("embedding-average", "vector-extrema", "greedy-matching")
PAGES = Path(__file__).parents[2] / "docs" / "metrics"
TOY = {"a": (1, 0), "b": (0, 1), "c": (1, 1), "d": (-2, 0.5)}
A, B, C, D = (np.array(TOY[name], dtype=float) for name in "abcd")
MATRIX = (
    st.integers(1, 5)
    .flatmap(lambda n: st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=n, max_size=n))
    .map(lambda rows: np.array(rows, dtype=float))
)


def write(path: Path, vectors) -> Path:
    lines = (f"{word} " + " ".join(map(str, numbers)) for word, numbers in vectors.items())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def toy_file(tmp_path: Path) -> Path:
    return write(tmp_path / "toy.txt", TOY)


def score(request: str, response: str, *references: str):
    return load_metric(request).score(response=response, references=references)


# --- the formulas -------------------------------------------------------------------------------------------

ORACLES = [
    ("embedding-average", "", 0.1961161),
    ("vector-extrema", ",rule=max", 1.0),
    ("vector-extrema", "", -0.3162278),
    ("greedy-matching", ",direction=response", 0.4748212),
    ("greedy-matching", ",direction=reference", 0.7071068),
    ("greedy-matching", "", 0.5909640),
]


@pytest.mark.parametrize(("name", "options", "expected"), ORACLES)
def test_oracles(name: str, options: str, expected: float, toy_file: Path) -> None:
    found = score(f"{name}[vectors={toy_file}{options}]", "c d", "a b")
    assert found.value == pytest.approx(expected, abs=5e-8)
    assert found.parts["known words"] == 1.0


def test_the_signed_extremes_are_those_of_the_specification() -> None:
    assert extrema(np.stack([C, D])).tolist() == [-2.0, 1.0]
    assert extrema(np.stack([A, B]), "max").tolist() == [1.0, 1.0]


@given(MATRIX)
def test_an_extreme_is_the_largest_in_size(rows) -> None:
    found = extrema(rows)
    assert np.abs(found).tolist() == np.abs(rows).max(axis=0).tolist()
    assert (rows == found).any(axis=0).all()


@given(MATRIX, MATRIX)
def test_cosines_are_scikit_learns(first, second) -> None:
    expected = cosine_similarity(first, second)
    assert cosines(first, second) == pytest.approx(expected, abs=1e-12)
    ways = greedy_similarity(first, second)
    assert ways == pytest.approx((expected.max(axis=1).mean(), expected.max(axis=0).mean()))
    assert greedy_similarity(second, first) == pytest.approx(ways[::-1])
    sums = cosine_similarity(first.sum(axis=0, keepdims=True), second.sum(axis=0, keepdims=True))
    assert average_similarity(first, second) == pytest.approx(sums.item(), abs=1e-7)


# --- the released forms ---------------------------------------------------------------------------------------


def nlg_eval(name: str, vectors, mean, hypothesis: str, references: list[str]) -> float:
    """nlg-eval's three numbers, written down from its definition word by word."""

    def rows(text: str) -> np.ndarray:
        return np.array([vectors.get(word, mean) for word in NLTKWordTokenizer().tokenize(text)], dtype=float)

    def extreme(text: str) -> np.ndarray:
        columns = zip(rows(text).max(axis=0), rows(text).min(axis=0), strict=True)
        return np.array([high if low != 0 and high > -low and high > low else low for high, low in columns])

    def compare(reference: str) -> float:
        if name == "greedy-matching":
            table = cosine_similarity(rows(reference), rows(hypothesis))
            return (table.max(axis=0).mean() + table.max(axis=1).mean()) / 2
        make = extreme if name == "vector-extrema" else lambda text: rows(text).sum(axis=0)
        return cosine_similarity(make(reference)[None], make(hypothesis)[None]).item()

    return float(f"{max(map(compare, references)):.6f}")


TEXTS = ["i like tea .", "I like Tea.", 'do you " like " it ?', "you cannot, can you?", "unheard of", "tea"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("response", TEXTS)
def test_released_forms_are_nlg_evals(name: str, response: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    words = ["i", "like", "tea", ".", "you", "can", "not", ",", "``", "?", "Tea", "do"]
    # Whole numbers, some of them 0: nlg-eval's extrema treat a minimum of 0 in their own way.
    vectors = {word: rng.integers(0 if i % 2 else -3, 4, 6) for i, word in enumerate(words)}
    mean = np.mean(list(vectors.values()), axis=0)
    file = write(tmp_path / "vectors.txt", vectors)
    for references in (TEXTS[:1], TEXTS[1:]):
        expected = nlg_eval(name, vectors, mean, response, references)
        assert score(f"{name}:released[vectors={file}]", response, *references).value == expected


def test_the_slip_at_zero_is_in_the_released_form_only(tmp_path: Path) -> None:
    file = write(tmp_path / "v.txt", {"x": (0, 1), "y": (2, 1), "z": (1, 1)})
    plain, released = (score(f"vector-extrema{mode}[vectors={file}]", "x y", "z") for mode in ("", ":released"))
    assert plain.value == pytest.approx(3 / np.sqrt(10))
    assert released.value == pytest.approx(np.sqrt(0.5), abs=1e-6)


def test_the_paper_describes_one_direction(toy_file: Path) -> None:
    assert score(f"greedy-matching:paper[vectors={toy_file}]", "c d", "a b").value == pytest.approx(0.4748212)


# --- words without a vector ------------------------------------------------------------------------------------


def test_policies_for_unknown_words(toy_file: Path) -> None:
    def average(oov: str) -> float | None:
        return score(f"embedding-average[vectors={toy_file},oov={oov}]", "a unknown", "b a").value

    mean = np.mean([A, B, C, D], axis=0)
    assert average("skip") == pytest.approx(average_similarity(A[None], np.stack([A, B])))
    assert average("zero") == pytest.approx(average("skip"))
    assert average("mean") == pytest.approx(average_similarity(np.stack([A, mean]), np.stack([A, B])))
    extreme = score(f"vector-extrema[vectors={toy_file},oov=zero,rule=max]", "d unknown", "b")
    assert extreme.value == pytest.approx(1.0)
    assert extreme.parts["known words"] == 0.5


@pytest.mark.parametrize("name", NAMES)
def test_edges(name: str, toy_file: Path) -> None:
    request = f"{name}[vectors={toy_file}]"
    assert score(request, "", "a").value == 0.0
    assert score(request, "a", "", "a").value == pytest.approx(1.0)
    assert score(request, "a", "").note.code == "score.no_reference_words"
    assert score(request, "a").note.code == "score.no_references"
    assert score(request, "unknown", "a").note.code == "score.no_vectors"
    assert score(request, "a", "unknown").note.code == "score.no_vectors"
    assert score(f"{name}[vectors={toy_file},oov=zero]", "unknown", "a").value == 0.0


WORDS = st.lists(st.sampled_from("abcd"), min_size=1)


@pytest.fixture(scope="module")
def lasting_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("vectors") / "toy.txt", TOY)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(words=WORDS, references=st.lists(WORDS, min_size=1))
def test_the_best_reference_counts_and_a_response_equals_itself(
    name: str, lasting_file: Path, words, references
) -> None:
    request, text, texts = f"{name}[vectors={lasting_file}]", " ".join(words), list(map(" ".join, references))
    alone = [score(request, text, reference).value for reference in texts]
    assert all(-1 <= value <= 1 for value in alone)
    assert score(request, text, *texts).value == max(alone)
    if np.any(np.sum([TOY[word] for word in words], axis=0)):
        assert score(request, text, text).value == pytest.approx(1.0)


def test_case_and_contractions(tmp_path: Path) -> None:
    file = write(tmp_path / "v.txt", {"do": (1, 0), "n't": (0, 1), "Tea": (1, 1), "tea": (1, -1)})
    assert score(f"embedding-average[vectors={file}]", "Don’t", "do n't").value == pytest.approx(1.0)
    assert score(f"embedding-average[vectors={file}]", "Tea", "tea").value == pytest.approx(1.0)
    assert score(f"embedding-average[vectors={file},lower=false]", "Tea", "tea").value == pytest.approx(0.0)


# --- where vectors come from -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_packs_vectors(name: str, toy: Toy) -> None:
    rows = [Example("Yes, I like tea.", references=("i like the piano", "yes"))] * 3
    found = [judged[name] for judged in toy.judge(name, *rows)]
    assert found[0] == found[1] == found[2]
    assert found[0].value is not None
    assert 0 < found[0].parts["known words"] < 1  # the toy pack has never seen a comma
    assert sorted(map(str, toy.asked)) == sorted(set(map(str, toy.asked)))
    assert Lookup(("yes", ",", "i", "like", "tea", ".")) in toy.asked
    assert toy.score(f"{name}:released[oov=skip]", rows[0]).value is not None


def test_a_file_needs_no_models_and_is_named_in_the_signature(toy_file: Path) -> None:
    request = f"greedy-matching[vectors={toy_file}]"
    result = tw.evaluate([{"response": "c d", "references": ["a b"]}], metrics=[request, "length"])
    assert result.turns[request].to_list() == pytest.approx([0.5909640])
    line = result.signatures[request]
    assert f"vectors:{toy_file.name}#" in line
    assert str(toy_file.parent) not in line
    write(toy_file, TOY | {"e": (1, 2)})
    assert signature(request, load_metric(request), full=True) != line


def test_signatures_name_only_what_is_in_force() -> None:
    plain = signature("embedding-average", load_metric("embedding-average"), full=True)
    assert plain.startswith("embedding-average|mode:recommended|oov:skip|turnwise:")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("embedding-average[vectors=/nowhere/glove.txt]", "no such file"),
        ("vector-extrema[oov=mean]", "add vectors=FILE"),
        ("greedy-matching:released", "GloVe 6B 300d"),
        ("greedy-matching[direction=back]", "both, response, reference"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered_in_one_line(request_: str, words: str) -> None:
    with pytest.raises(TurnwiseError) as caught:
        load_metric(request_)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_groups_leave_them_out_where_nothing_has_vectors() -> None:
    offered = frozenset({"references"})
    assert not set(NAMES) & set(expand("all", offered))
    assert set(NAMES) <= set(expand("all", offered, frozenset({"vectors"})))


@pytest.mark.parametrize("name", NAMES)
def test_the_pages_examples_run(name: str) -> None:
    result = doctest.testfile(str(PAGES / f"{name}.md"), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
