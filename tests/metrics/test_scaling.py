"""Constants as data: the recovered ones, measured ones, and the scales they make."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnwise as tw
from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import load_metric
from turnwise.metrics.scaling import clamp, load_constants, measure
from turnwise.models.pack import Pack

QUARTILES = (0.25, 0.75)
FLOATS = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("metric", "raw", "expected"),
    [
        ("mlm-likelihood", 37.09322030283511, 0.5600475862505716),
        ("mlm-nce", -3.0911016919, 0.2613212048),
        ("mlm-ppl", 22.0013032866, 0.5408454777),
        ("mlm-likelihood", 16.509640213102102, 0.03349051099657946),
        ("mlm-likelihood", 15.2004, 0),
        ("mlm-likelihood", 54.2914, 1),
    ],
)
def test_published_outputs_are_normalised_as_published(metric: str, raw: float, expected: float) -> None:
    bounds = load_constants("published").bounds(metric, QUARTILES)
    assert clamp(raw, *bounds).item() == pytest.approx(expected, abs=1e-9)


def test_the_earlier_run_is_there_too() -> None:
    assert load_constants("published-earlier").bounds("mlm-likelihood", QUARTILES) == (11.655501070, 43.133963141)


@given(st.lists(FLOATS, min_size=1), FLOATS, FLOATS)
def test_clamp_keeps_order_and_bounds(values: list[float], a: float, b: float) -> None:
    clamped = clamp(sorted(values), min(a, b), max(a, b))
    assert clamped.min() >= 0
    assert clamped.max() <= 1
    assert (np.diff(clamped) >= 0).all()


def test_measured_constants_come_back_from_a_file(tmp_path: Path) -> None:
    scores = np.random.default_rng(1).normal(3, 2, 500)
    path = tmp_path / "own.json"
    path.write_text(json.dumps(measure({"mlm-slor": scores.tolist()})))
    constants = load_constants(str(path))
    assert constants.moments("mlm-slor") == pytest.approx((scores.mean(), scores.std()))
    assert constants.bounds("mlm-slor", (0, 1)) == pytest.approx((scores.min(), scores.max()))
    assert constants.bounds("mlm-slor", QUARTILES) == pytest.approx(tuple(np.percentile(scores, [25, 75])))
    assert constants.label.startswith("own.json#")


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    request, labels = f"usl-h[constants={path}]", []
    for bounds in ([1.0, 2.0], [3.0, 14.0]):
        path.write_text(json.dumps(measure({"mlm-likelihood": bounds}, levels=[0, 0.25, 0.75, 1])))
        metric = load_metric(request)
        assert metric.bounds["mlm-likelihood"] == pytest.approx(tuple(np.quantile(bounds, QUARTILES)))
        labels.append(metric.options()["constants"])
        path.unlink()
        assert metric.options()["constants"] == labels[-1]
    assert labels[0] != labels[1]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: load_constants("publisht"), "there are: published"),
        (lambda: load_constants("absent.json"), "absent.json: cannot be read"),
        (lambda: load_constants("published").bounds("mlm-slor", QUARTILES), "no calibration for 'mlm-slor'"),
        (lambda: load_constants("published").moments("usr-mlm:paper"), "no calibration for 'usr-mlm:paper'"),
        (lambda: load_constants("published").bounds("mlm-nce", (0, 1)), "no quantile 0 of 'mlm-nce'"),
        (lambda: load_constants("published").moments("mlm-nce"), "no mean"),
    ],
)
def test_what_is_not_known_is_said_in_one_line(ask, words: str) -> None:
    with pytest.raises(TurnwiseError) as caught:
        ask()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_set_of_constants_is_refused(tmp_path: Path) -> None:
    for i, content in enumerate(("[1]", '{"vup": 3}', '{"vup": {"quantiles": {"low": 1}}}', "{")):
        path = tmp_path / f"{i}.json"
        path.write_text(content)
        with pytest.raises(TurnwiseError, match="not "):
            load_constants(str(path))


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ('{"mean": 0, "std": NaN}', "something is not a number"),
        ('{"mean": 0, "std": -1}', "a std is below 0"),
        ('{"quantiles": {"0.25": 5, "0.75": 4}}', "a higher quantile is below a lower one"),
    ],
)
def test_constants_that_no_scores_have_are_refused(tmp_path: Path, scale: str, words: str) -> None:
    path = tmp_path / "own.json"
    path.write_text(f'{{"nup": {scale}}}')
    with pytest.raises(TurnwiseError, match=words):
        load_constants(str(path))


@pytest.mark.slow
def test_a_run_says_whose_constants_it_borrows(toy_pack: Pack) -> None:
    rows = [{"response": text, "context": ["Do you like tea?"], "facts": ["i like tea"]} for text in ("yes", "why ?")]
    metrics = ["usr", "usl-h", "vup", "usr:paper", "usl-h[likability=empathy]", "coherence"]
    (line,) = map(str, tw.evaluate(rows, metrics, models=toy_pack.folder, cache="off").problems)
    assert line.startswith("usr, usl-h: constants 'turnwise-mini' were measured with that pack's models, and 'toy' ")
    assert "constants=batch" in line
    for own in (None, "turnwise-mini@int8"):
        assert tw.evaluate(rows, ["usr", "usl-h"], models=own, cache="off").problems == []


def test_a_pack_brings_its_own_constants(toy_pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnwise.metrics import scaling

    content = Pack(scaling.installed_packs()["turnwise-mini"]).calibration
    mean, std = content["nup"]["mean"], content["nup"]["std"]
    assert load_constants("turnwise-mini").moments("nup") == (mean, std)
    monkeypatch.setattr(scaling, "installed_packs", lambda: {"toy": toy_pack.folder})
    for name in ("toy", "turnwise-mini"):
        scaling._loaded.cache_clear()
        with pytest.raises(TurnwiseError, match=f"no calibration for 'nup' in '{name}' .*constants=batch"):
            load_constants(name).moments("nup")
    scaling._loaded.cache_clear()


@pytest.mark.parametrize("text", ["a/b/c", "1/2", "1/2/3/4", "nan/1/1", "inf/1/1"])
def test_an_option_of_numbers_must_be_numbers(text: str) -> None:
    with pytest.raises(TurnwiseError, match="number"):
        load_metric(f"usl-h[alphas={text}]")
