"""RUBER, BERT-RUBER, PONE, InferSent, DistilBERT-NLI and skip-thought over a toy pack with random small networks."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gmean
from sklearn.metrics.pairwise import cosine_similarity

from tests.metrics.toy_models import Toy
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics.base import Score
from turnwise.metrics.learned import blended, scaled
from turnwise.metrics.registry import load_metric
from turnwise.metrics.signature import signature
from turnwise.models.export.build_pack import PackBuilder
from turnwise.models.export.weights import write_head
from turnwise.models.heads import HeadModel, Remembered, read_text
from turnwise.models.pack import Pack
from turnwise.models.requests import Embed, Lookup, Read, Relate
from turnwise.problems import Problem

PAGES = Path(__file__).parents[2] / "docs" / "metrics"
NAMES = ("ruber", "bert-ruber", "pone", "infersent", "bert-nli", "skip-thought")
BLENDS = ("ruber", "bert-ruber", "pone")
WIDTH, READ = 32, 3
UNIT = st.floats(0, 1)
EXAMPLE = Example(
    response="yes i play the piano", context=("hello", "do you like music"), references=("no i love tea", "yes i play")
)


def draw(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(0, 0.5, shape).astype(np.float32)


def gru(rng: np.random.Generator, name: str, words: int, *, both: bool = True) -> dict[str, np.ndarray]:
    suffixes = ("l0", "l0_reverse") if both else ("l0",)
    found = {}
    for end in suffixes:
        for part, wide in (("ih", words), ("hh", READ)):
            found[f"{name}.weight_{part}_{end}"] = draw(rng, 3 * READ, wide)
            found[f"{name}.bias_{part}_{end}"] = draw(rng, 3 * READ)
    return found


def layers(rng: np.random.Generator, into: int, *hidden: int) -> dict[str, np.ndarray]:
    sizes = [into, *hidden, 1]
    weights = {f"layers.{i}.weight": draw(rng, sizes[i + 1], sizes[i]) for i in range(len(hidden) + 1)}
    return weights | {f"layers.{i}.bias": draw(rng, sizes[i + 1]) for i in range(len(hidden) + 1)}


@pytest.fixture(scope="module")
def heads(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """An encoder, word vectors, and a random network for each role."""
    rng, out = np.random.default_rng(4), tmp_path_factory.mktemp("heads") / "pack"
    builder = PackBuilder(out, fineness=None)
    builder.add(checkpoints["encoder"])
    builder.add_tables(["i like tea . hello yes no we play the piano", "do you like music , i love tea very much"], {})
    words = 32
    bounds = {"bounds": np.array([-0.5, 1.0], dtype=np.float32)}
    sides = {name: gru(rng, "context", words) | gru(rng, "response", words) for name in ("ruber", "infersent")}
    wide = 2 * READ
    made = {
        "ruber": {**sides["ruber"], "matrix": draw(rng, wide, wide), **layers(rng, 2 * wide + 1, 4), **bounds},
        "infersent": {**sides["infersent"], "matrix": draw(rng, wide, wide), **layers(rng, 4 * wide, 4)},
        "bert-ruber": {"matrix": draw(rng, WIDTH, WIDTH), **layers(rng, 2 * WIDTH + 1, 8, 4), **bounds},
        "pone": {"matrix": draw(rng, WIDTH, WIDTH), **layers(rng, 2 * WIDTH + 1, 8, 4), **bounds},
        "bert-nli": {"matrix": draw(rng, WIDTH, WIDTH), **layers(rng, 4 * WIDTH, 4)},
        "skip-thought": gru(rng, "uni", words, both=False) | gru(rng, "bi", words),
    }
    for role, weights in made.items():
        builder.roles[role] = write_head(out, role, weights, {}, fineness=None)
    return builder.finish("heads", "1", "none", ("en",))


@pytest.fixture
def judged(heads: Pack) -> Toy:
    return Toy(heads)


# --- what is asked, and of whom -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_each_asks_its_own_roles_and_scores_within_its_range(name: str, judged: Toy) -> None:
    metric = load_metric(name)
    score = judged.score(name, EXAMPLE)
    assert score.value is not None
    assert metric.range[0] <= score.value <= metric.range[1]
    assert {request.role for request in judged.asked} == metric.roles
    assert signature(name, metric, full=True).startswith(f"{name}|mode:recommended|")


def test_encoders_are_asked_once_for_all(judged: Toy) -> None:
    judged.judge(["bert-ruber", "pone", "bert-nli"], EXAMPLE)
    texts = [request.text for request in judged.asked if isinstance(request, Embed)]
    assert sorted(texts) == sorted({"hello do you like music", EXAMPLE.response, *EXAMPLE.references})
    assert {request.role for request in judged.asked if isinstance(request, Relate)} == {
        "bert-ruber",
        "pone",
        "bert-nli",
    }


def test_turns_and_words_of_a_long_context_are_limited(judged: Toy) -> None:
    long = Example(response="yes", context=("one " * 50, "two " * 50, "three"))
    judged.score("infersent", long)
    seen = [request.items for request in judged.asked if isinstance(request, Lookup)]
    assert ("two",) * 31 + ("three",) in seen
    judged.asked.clear()
    judged.score("bert-nli:released", long)
    texts = [request.text for request in judged.asked if isinstance(request, Embed)]
    assert any(text.startswith("one one") for text in texts)


# --- the blends ---------------------------------------------------------------------------------------------


@given(UNIT, UNIT)
def test_blends_are_what_they_are_called(referenced: float, unreferenced: float) -> None:
    both = [referenced, unreferenced]
    assert blended(*both, "min") == np.min(both)
    assert blended(*both, "max") == np.max(both)
    assert blended(*both, "arithmetic") == pytest.approx(np.mean(both))
    if min(both) > 1e-9:
        assert blended(*both, "geometric") == pytest.approx(gmean(both))
    assert blended(*both, "min") - 1e-12 <= blended(*both, "geometric") <= blended(*both, "arithmetic") + 1e-12


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=9))
def test_scaling_takes_the_least_to_0_and_the_largest_to_1(values: list[float]) -> None:
    low, high = min(values), max(values)
    found = [scaled(value, low, high) for value in values]
    assert all(0 <= value <= 1 for value in found)
    if high > low:
        assert (min(found), max(found)) == (0.0, 1.0)


@pytest.mark.parametrize("name", BLENDS)
def test_the_parts_make_the_whole(name: str, judged: Toy) -> None:
    score = judged.score(f"{name}[blend=min]", EXAMPLE)
    referenced, unreferenced = score.parts["referenced"], score.parts["unreferenced"]
    assert score.value == pytest.approx(min((referenced + 0.5) / 1.5, unreferenced))
    assert judged.score(f"{name}[blend=unreferenced]", EXAMPLE).value == pytest.approx(unreferenced)


def test_the_referenced_part_is_scikit_learns_cosine_with_the_best_reference(judged: Toy) -> None:
    score = judged.score("bert-ruber[blend=referenced]", EXAMPLE)
    requests = [Embed(text) for text in (EXAMPLE.response, *EXAMPLE.references)]
    response, *references = (judged.ask([request])[request] for request in requests)
    expected = cosine_similarity([response], references).max()
    assert score.parts["referenced"] == pytest.approx(expected, abs=1e-5)
    words = judged.score("ruber", EXAMPLE).parts["referenced"]
    assert judged.score("ruber", Example(EXAMPLE.response, EXAMPLE.context, references=(EXAMPLE.response,))).parts[
        "referenced"
    ] == pytest.approx(1.0)
    assert words < 1


@pytest.mark.parametrize("name", BLENDS)
def test_released_scales_over_the_batch_and_takes_the_minimum(name: str, judged: Toy) -> None:
    metric = load_metric(f"{name}:released")
    said = ("yes i play the piano", "no", "we like tea", "very much")
    examples = [Example(text, EXAMPLE.context, references=EXAMPLE.references) for text in said]
    scores = [row[f"{name}:released"] for row in judged.judge(f"{name}:released", *examples)]
    assert all(score.value is None and score.note is None for score in scores)
    settled = metric.settle([*scores, Score(None, note=Problem.of("score.no_references"))])
    assert settled[-1].note.code == "score.no_references"
    raw = np.array([[score.parts["referenced"], score.parts["unreferenced"]] for score in scores])
    expected = ((raw - raw.min(axis=0)) / np.ptp(raw, axis=0)).min(axis=1)
    assert [score.value for score in settled[:-1]] == pytest.approx(expected.tolist())


@pytest.mark.parametrize("name", BLENDS)
def test_without_references_the_recommended_form_says_what_it_is(name: str, judged: Toy) -> None:
    bare = Example(EXAMPLE.response, EXAMPLE.context)
    score = judged.score(name, bare)
    assert (score.value, score.note.code) == (pytest.approx(score.parts["unreferenced"]), "score.unreferenced_alone")
    assert judged.score(f"{name}[blend=unreferenced]", bare).note is None
    assert judged.score(f"{name}:released", bare).note.code == "score.no_references"
    assert judged.score(f"{name}[blend=referenced]", bare).note.code == "score.no_references"


def test_words_without_vectors_do_no_harm(judged: Toy) -> None:
    unknown = Example("zzz qqq", EXAMPLE.context, references=("tea",))
    assert judged.score("ruber", unknown).parts["referenced"] == 0.0
    for name in NAMES:
        for response in ("", "zzz"):
            value = judged.score(name, Example(response, EXAMPLE.context, references=("tea",))).value
            assert value is not None
            assert np.isfinite(value)
    assert judged.score("skip-thought", Example("tea", references=("",))).note is not None


def test_skip_thought_is_1_for_the_same_words_and_sees_their_order(judged: Toy) -> None:
    def score(response: str, options: str = "") -> float:
        value = judged.score(f"skip-thought{options}", Example(response, references=("do you like music",))).value
        assert value is not None
        return value

    for options in ("", "[part=uni]", "[part=bi]"):
        assert score("do you like music", options) == pytest.approx(1.0)
        assert score("music like you do", options) < 0.9999
    assert judged.score("skip-thought", Example("no", references=("tea", "no"))).value == pytest.approx(1.0)


def test_requests_that_cannot_be_met() -> None:
    for request, words in (
        ("ruber[turns=0]", "turns=0"),
        ("ruber[blend=sum]", "choose one of min"),
        ("pone[x=1]", "no option"),
    ):
        with pytest.raises(TurnwiseError, match=words.replace("[", r"\[")):
            load_metric(request)


@pytest.mark.parametrize("name", ["ruber", "pone", "infersent", "skip-thought"])
def test_the_examples_of_the_pages_run(name: str) -> None:
    result = doctest.testfile(str(PAGES / f"{name}.md"), module_relative=False)
    assert (result.attempted > 0, result.failed) == (True, 0)


def test_what_was_read_last_is_remembered_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    shapes = {"weight_ih_l0": (6, 3), "weight_hh_l0": (6, 2), "bias_ih_l0": (6,), "bias_hh_l0": (6,)}
    one, other = ({f"net.{n}": rng.normal(size=s).astype("f4") for n, s in shapes.items()} for _ in range(2))
    texts = [rng.normal(size=(n, 3)).astype("f4") for n in (2, 3, 4)]
    models = [HeadModel(weights, "it", Remembered(2)) for weights in (one, other)]
    for model in (*models, models[0]):
        for words in texts:
            read = model.answer(Read("", ("net",), role="it"), [], [words])
            np.testing.assert_array_equal(read, read_text(model.weights, "net", words))
            assert model._read("net", words) is model._read("net", words)
            assert len(model._states._held) <= 2
