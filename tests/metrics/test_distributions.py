"""fbd and prd ask for the right vectors, and compare whole systems by them."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import sqrtm

from tests.metrics.toy_models import Toy
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.metrics.base import Measured
from turnwise.metrics.registry import load_metric
from turnwise.metrics.signature import signature
from turnwise.models.requests import Embed
from turnwise.stats.prd import clustered
from turnwise.stats.subsets import draws_of

WORDS = "i you we like love hate music dogs cats tea very much do not the a piano play hello yes no why how are".split()


def sentence(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(WORDS, size=rng.integers(2, 9)))


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    """Forty contexts with two references each; the system only ever says a few words."""
    rng = np.random.default_rng(0)
    return [
        Example(
            response=" ".join(rng.choice(["yes", "no", "tea", "why"], size=3)),
            context=(sentence(rng), sentence(rng)),
            references=(sentence(rng), sentence(rng)),
            id=str(number),
        )
        for number in range(40)
    ]


def measure(request: str, toy: Toy, examples: list[Example], resamples: int = 0) -> Measured:
    scores = [of[request] for of in toy.judge(request, *examples)]
    assert all(score.value is None and score.note is None and score.counts for score in scores)
    units = np.arange(len(examples))
    draws = draws_of(len(examples), resamples) if resamples else np.empty((0, 1))
    return load_metric(request).value([score.evidence for score in scores], units, draws)


def vectors(toy: Toy, pairs: list[tuple[str, str]], **options: object) -> np.ndarray:
    requests = [Embed(*pair, **options) for pair in pairs]  # type: ignore[arg-type]
    answers = toy.ask(requests)
    return np.array([answers[request] for request in requests], dtype=np.float64)


def sets(toy: Toy, examples: list[Example], **options: object) -> tuple[np.ndarray, np.ndarray]:
    said = [(" ".join(e.context), e.response) for e in examples]
    real = [(" ".join(e.context), reference) for e in examples for reference in e.references]
    return vectors(toy, said, **options), vectors(toy, real, **options)


@pytest.mark.parametrize("name", ["fbd", "prd"])
def test_what_is_asked(name: str) -> None:
    example = Example("me too", context=("hi", "i ski"), references=("so do i", "no"))
    texts = ("me too", "so do i", "no")
    asked = load_metric(name).requests(example)
    assert asked == [Embed("hi [SEP] i ski", text, "max", (-3, -1), role="nup-trunk") for text in texts]
    for mode in ("released", "paper"):
        asked = load_metric(f"{name}:{mode}").requests(example)
        assert asked == [Embed("hi i ski", text, "cls", -1) for text in texts]
    asked = load_metric(f"{name}[layer=2,pooling=mean,role=encoder,turns=1]").requests(example)
    assert asked == [Embed("i ski", text, "mean", 2) for text in texts]


@pytest.mark.parametrize("name", ["fbd", "prd"])
def test_a_trunk_too_small_for_a_layer_is_read_at_its_last(toy: Toy, examples: list[Example], name: str) -> None:
    usual, third, words, last, beyond = (
        toy.score(f"{name}{layer}", examples[0])
        for layer in ("", "[layer=-3]", "[layer=-4 or last]", "[layer=-1]", "[layer=-9 or last]")
    )
    np.testing.assert_array_equal(usual.evidence.said, third.evidence.said)
    np.testing.assert_array_equal(words.evidence.said, last.evidence.said)
    np.testing.assert_array_equal(beyond.evidence.said, last.evidence.said)
    assert "|layer:-3 or last|" in signature(name, load_metric(name), full=True)
    with pytest.raises(TurnwiseError, match=rf"^{name}\[layer=-9\]: the encoder has layers 0 to 3, and no layer -9"):
        toy.score(f"{name}[layer=-9]", examples[0])
    with pytest.raises(TurnwiseError, match="option layer=high: write a whole number"):
        load_metric(f"{name}[layer=high]")


def test_at_most_ten_references_and_the_same_in_every_run() -> None:
    example = Example("x", context=("hi",), references=tuple(f"answer {i}" for i in range(30)))
    metric = load_metric("fbd")
    first = metric.requests(example)
    assert len(first) == 11
    assert first == metric.requests(example)
    assert len({request.pair for request in first}) == 11
    assert len(load_metric("fbd[most_references=2]").requests(example)) == 3


def test_the_models_follow_the_role() -> None:
    assert load_metric("fbd[role=nup-trunk]").roles == {"nup-trunk"}
    assert load_metric("fbd").roles == {load_metric("fbd").role}  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["released", "paper"])
def test_fbd_is_the_matrix_root_s(mode: str, toy: Toy, examples: list[Example]) -> None:
    said, real = sets(toy, examples, pooling="cls")
    first, second = np.cov(said.T), np.cov(real.T)
    spread = np.trace(first + second) - 2 * np.trace(sqrtm(first @ second)).real
    mean = float(np.linalg.norm(said.mean(axis=0) - real.mean(axis=0)))
    found = measure(f"fbd:{mode}", toy, examples)
    term = mean**2 if mode == "released" else mean
    assert found.value == pytest.approx(spread + term, rel=1e-5)
    assert found.parts["mean"] == pytest.approx(term)
    assert found.parts["spread"] == pytest.approx(spread, rel=1e-5)
    assert found.parts["references"] == 80


def test_fbd_of_equal_sets_is_nothing(toy: Toy, examples: list[Example]) -> None:
    parrots = [
        replace(example, response=example.references[0], references=example.references[:1]) for example in examples
    ]
    assert measure("fbd", toy, parrots).value == pytest.approx(0, abs=1e-6)
    assert measure("prd", toy, parrots).value == pytest.approx(1)


def test_fbd_says_how_sure_it_is_and_what_more_data_would_say(toy: Toy, examples: list[Example]) -> None:
    found = measure("fbd", toy, examples, resamples=30)
    assert found.value is not None
    assert len(found.resampled) == 30
    assert np.std(found.resampled) > 0
    assert 0 < found.parts["debiased"] < found.value


def test_fbd_needs_two_responses(toy: Toy, examples: list[Example]) -> None:
    assert measure("fbd", toy, examples[:1]).note.code == "value.few_responses"


def test_prd_is_the_clusters_curve(toy: Toy, examples: list[Example]) -> None:
    request = "prd:released[clusters=6,runs=3,seed=5]"
    said, real = sets(toy, examples, pooling="cls")
    curve = clustered(said, real, 6, 3, 5, "mini-batch", 10).curve(grid="released")
    found = measure(request, toy, examples)
    assert found.value == pytest.approx(curve.score(smoothing=1e-6))
    assert found.parts["F8"] == pytest.approx(curve.score(8, smoothing=1e-6))
    assert found.parts["F1/8"] == pytest.approx(curve.score(1 / 8, smoothing=1e-6))
    assert measure(request, toy, examples) == found


def test_prd_in_other_orders_and_weights(toy: Toy, examples: list[Example]) -> None:
    plain = measure("prd[clusters=6,runs=3]", toy, examples)
    assert measure("prd[clusters=6,runs=3,beta=8]", toy, examples).value == plain.parts["F8"]
    other = measure("prd[clusters=6,runs=3,order=mean-of-max]", toy, examples).value
    assert other is not None
    assert plain.value is not None
    assert other > plain.value


def test_the_curve_runs_from_recall_to_precision(toy: Toy, examples: list[Example]) -> None:
    curve = measure("prd[clusters=6,runs=2]", toy, examples).curve
    assert len(curve) == 101
    recall, precision = zip(*curve, strict=True)
    assert max(np.diff(recall)) < 1e-9
    assert min(np.diff(precision)) > -1e-9
    assert max(recall) == pytest.approx(1)


def test_prd_needs_as_many_responses_as_clusters(toy: Toy, examples: list[Example]) -> None:
    found = measure("prd", toy, examples[:19])
    assert found.value is None
    assert str(found.note) == "19 vectors are fewer than the 20 clusters"


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ("fbd[ddof=2]", "write 0 or 1"),
        ("fbd[most_references=0]", "from 1 up"),
        ("fbd[pooling=tokens]", "choose one of mean, cls, max"),
        ("fbd[turns=none]", "write a whole number"),
        ("prd[clusters=1]", "clusters=1: write a whole number from 2 up"),
        ("prd[beta=0]", "beta takes a number above 0"),
        ("prd[kmeans=soft]", "choose one of lloyd, mini-batch"),
    ],
)
def test_options_that_make_no_sense(request_: str, problem: str) -> None:
    with pytest.raises(TurnwiseError, match=problem.replace("[", r"\[")):
        load_metric(request_)


def test_signatures_hold_everything_that_matters() -> None:
    said = signature("prd:released", load_metric("prd:released"), full=True)
    for fact in ("mode:released", "clusters:20", "runs:10", "seed:0", "kmeans:mini-batch", "layer:-1", "pooling:cls"):
        assert fact in said.split("|")


@pytest.mark.parametrize("page", ["fbd", "prd"])
def test_examples_of_the_pages_run(page: str) -> None:
    file = Path(__file__).parents[2] / "docs" / "metrics" / f"{page}.md"
    result = doctest.testfile(str(file), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0
