"""Writing: beams and samples of a toy model are those of a search by hand, on both backends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.engine.answer import answer_requests
from turnwise.errors import TurnwiseError
from turnwise.models.generate import Decoding, Writer, log_softmax
from turnwise.models.pack import load_pack
from turnwise.models.requests import Continuation

PROMPT = "do you like tea?\n"
LOGITS = st.lists(st.floats(-8, 8), min_size=2, max_size=30).map(np.array)


@pytest.fixture(scope="module")
def model(full_pack: Path):
    return load_pack(full_pack).model("causal-lm")


def next_log_probs(model, ids: list[int]) -> np.ndarray:
    """The whole text read anew, without anything remembered."""
    logits, _ = model.network.advance(np.array([ids]), None)
    return log_softmax(logits[0].astype(np.float64))


def ends_of(model) -> set[int]:
    names = model.tokens.tokenizer.get_vocab()
    return {i for name, i in names.items() if "Ċ" in name} | set(model.tokens.special)


def start(model) -> list[int]:
    return [model.tokens.begin, *model.tokens.plain(PROMPT).ids]


def without_ends(scores: np.ndarray, model) -> np.ndarray:
    allowed = scores.copy()
    allowed[list(ends_of(model))] = -np.inf
    return log_softmax(allowed)


def test_what_is_remembered_changes_nothing(model) -> None:
    ids = start(model)
    network = model.network
    _, past = network.advance(np.array([ids[:5]]), None)
    past = network.select(past, np.array([0, 0]))
    logits, past = network.advance(np.array([ids[5:], ids[5:]]), past)
    np.testing.assert_allclose(logits[0], logits[1], atol=1e-6)
    np.testing.assert_allclose(log_softmax(logits[0].astype(np.float64)), next_log_probs(model, ids), atol=1e-4)


def test_the_next_token_is_as_likely_as_when_it_is_judged(model, full_pack: Path) -> None:
    asked = Continuation(PROMPT, "k")
    judged = answer_requests([asked], load_pack(full_pack))[asked]
    token = model.tokens.plain("k").ids[0]
    assert next_log_probs(model, start(model))[token] == pytest.approx(judged.log_probs[0], abs=1e-4)


def test_greedy_takes_the_likeliest_token_each_time(model) -> None:
    ids, total = start(model), 0.0
    for step in range(6):
        scores = next_log_probs(model, ids)
        scores = without_ends(scores, model) if step == 0 else scores
        token = int(scores.argmax())
        total += float(scores[token])
        if token in ends_of(model):
            break
        ids.append(token)
    written = Writer(model).sample(PROMPT, most=6)
    assert written.text == model.tokens.tokenizer.decode(ids[len(start(model)) :]).strip()
    assert written.log_prob == pytest.approx(total, abs=1e-3)


def test_beams_are_the_best_of_a_search_by_hand(model) -> None:
    """Two tokens at most: every continuation can be listed."""
    first = without_ends(next_log_probs(model, start(model)), model)
    found: dict[str, float] = {}
    for a in np.argsort(-first)[:40].tolist():
        second = next_log_probs(model, [*start(model), a])
        for b in np.argsort(-second)[:40].tolist():
            ids = [a] if b in ends_of(model) else [a, b]
            text = model.tokens.tokenizer.decode(ids).strip()
            if text:
                found[text] = max(found.get(text, -np.inf), float(first[a] + second[b]) / 2)
    wide = Writer(model).beams(PROMPT, 40, most=2)
    best = sorted(found.values(), reverse=True)[:3]
    assert [beam.mean for beam in wide[:3]] == pytest.approx(best, abs=1e-3)
    assert [found[beam.text] for beam in wide[:3]] == pytest.approx(best, abs=1e-3)


def test_beams_are_different_texts_in_order(model) -> None:
    beams = Writer(model).beams(PROMPT, 4, most=8)
    # Of a toy's bytes some are no text, so that two beams may read alike and count as one.
    assert 1 < len({beam.text for beam in beams}) == len(beams) <= 4
    assert [beam.mean for beam in beams] == sorted((beam.mean for beam in beams), reverse=True)
    assert all("\n" not in beam.text for beam in beams)
    assert beams == Writer(model).beams(PROMPT, 4, most=8)


def test_beams_do_not_go_round(model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "_text", lambda _, ids: " ".join(map(str, ids)))
    said = [beam.text.split() for beam in Writer(model).beams(PROMPT, 3, most=40)]
    assert max(map(len, said)) > 8
    for ids in said:
        runs = list(zip(ids, ids[1:], ids[2:], ids[3:], strict=False))
        assert len(runs) == len(set(runs))


def test_a_seed_decides_what_is_drawn(model) -> None:
    writer, nucleus = Writer(model), Decoding("nucleus", p=0.95)
    drawn = [writer.sample(PROMPT, nucleus, np.random.default_rng(seed), most=8).text for seed in (1, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 1


def test_a_long_text_loses_its_beginning(model) -> None:
    long = "i like tea. " * 60 + PROMPT
    assert Writer(model).sample(long, most=4).text
    assert Writer(model).sample("x" + long, most=4) == Writer(model).sample("y" + long, most=4)


def test_both_backends_write_the_same(checkpoints: dict[str, Path], model) -> None:
    pytest.importorskip("torch")
    from turnwise.models.sources import open_transformers

    other = Writer(open_transformers("causal-lm", str(checkpoints["causal-lm"]), device="cpu"))
    ours, theirs = Writer(model).beams(PROMPT, 4, most=8), other.beams(PROMPT, 4, most=8)
    assert [beam.text for beam in ours] == [beam.text for beam in theirs]
    assert [beam.log_prob for beam in ours] == pytest.approx([beam.log_prob for beam in theirs], abs=1e-3)
    assert Writer(model).sample(PROMPT).text == other.sample(PROMPT).text


def test_a_model_that_only_judges_says_so(model) -> None:
    class Old:
        def get_outputs(self):
            return [type("Output", (), {"name": "log_probs"})]

    network = type(model.network)(Old())
    with pytest.raises(TurnwiseError, match="made to judge, not to write"):
        network.advance(np.array([[1]]), None)


# --- which tokens may be drawn --------------------------------------------------------------------------


@given(LOGITS, st.integers(1, 40))
def test_top_k(logits: np.ndarray, k: int) -> None:
    chances = Decoding("top-k", k=k).chances(logits)
    kept = chances > 0
    assert chances.sum() == pytest.approx(1)
    assert kept.sum() == min(k, len(logits))
    assert logits[kept].min() >= np.sort(logits)[::-1][: min(k, len(logits))].min()


@given(LOGITS, st.floats(0.05, 1))
def test_nucleus_is_the_smallest_set_that_holds_p(logits: np.ndarray, p: float) -> None:
    plain = np.exp(log_softmax(logits))
    chances = Decoding("nucleus", p=p).chances(logits)
    kept = plain[chances > 0]
    assert chances.sum() == pytest.approx(1)
    assert kept.sum() >= p - 1e-9
    assert kept.sum() - kept.min() < p + 1e-9
    np.testing.assert_allclose(chances[chances > 0], kept / kept.sum(), rtol=1e-9)


@given(LOGITS)
def test_low_temperature_comes_close_to_greedy(logits: np.ndarray) -> None:
    greedy = Decoding().chances(logits)
    assert greedy.sum() == 1
    assert greedy[logits.argmax()] == 1
    cold = Decoding("top-k", k=len(logits), temperature=1e-3).chances(logits)
    assert logits[cold.argmax()] == pytest.approx(logits.max())


def test_wrong_decodings() -> None:
    for wrong in ({"method": "beam"}, {"k": 0}, {"p": 0.0}, {"p": 1.1}, {"temperature": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong)).replace("method", "decoding") + "="):
            Decoding(**wrong)
