"""The same response gets the same score, to the last bit, whatever it is batched with."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from turnwise.engine.answer import answer_requests
from turnwise.models.kinds import Model, ModelSource, TokenRow
from turnwise.models.pack import DEFAULT_PACK, Pack, load_pack
from turnwise.models.requests import Classify, Continuation, Embed, MaskedLikelihood, Request, TokenScores

LINE = "i like tea . do you play the piano ? no , we hate cats very much ! why not"
WORDS = LINE.split()


def asked() -> list[Request]:
    rng = random.Random(4)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 14))) for _ in range(24)]
    requests: list[Request] = []
    for a, b in zip(texts, texts[::-1], strict=True):
        requests += [Classify(a, b, role=role) for role in ("nup", "nli")] + [Classify(b, role="vup")]
        requests += [Embed(a, b), Embed(b, pooling="tokens"), MaskedLikelihood(b), MaskedLikelihood(b, masked=False)]
        requests += [Continuation(a, " " + b), Continuation(texts[0], " " + b), Continuation("", b, begin=False)]
    return requests


def numbers(answer) -> np.ndarray:
    if isinstance(answer, TokenScores):
        return np.array(answer.log_probs)
    return np.array(list(answer.values())) if isinstance(answer, dict) else answer


def assert_same(first: dict, second: dict, within: float = 0) -> None:
    assert first.keys() == second.keys()
    for request in first:
        a, b = numbers(first[request]), numbers(second[request])
        np.testing.assert_allclose(a, b, rtol=0, atol=within, err_msg=str(request))


class Bounded(ModelSource):
    """A pack whose models take batches of another size."""

    def __init__(self, pack: Pack, budget: int) -> None:
        self._pack, self._budget = pack, budget

    def model(self, role: str) -> Model:
        model = self._pack.model(role)
        model.budget = self._budget
        return model


class Crowded(ModelSource):
    """A pack whose every batch also carries a long row, so that all others are padded."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack

    def model(self, role: str):
        inner = self._pack.model(role)

        class Padded(Model):
            fingerprint, budget = inner.fingerprint, inner.budget
            rows, answer = staticmethod(inner.rows), staticmethod(inner.answer)

            @staticmethod
            def run(rows: Sequence[TokenRow]):
                long = (7,) * 60
                wanted = long[:1] if rows[0].places else long
                extra = TokenRow(long, (0,) * 60, (3,), wanted, prefix=(5,) * 33, group=rows[0].group)
                return inner.run([extra, *rows])[1:]

        return Padded()


@pytest.fixture(params=["full", "small", "installed"])
def pack(request: pytest.FixtureRequest, full_pack: Path, small_pack: Path) -> Pack:
    return load_pack({"full": full_pack, "small": small_pack, "installed": None}[request.param])


def within(pack: Pack) -> float:
    """Return how far answers may lie apart: not at all, but in toy packs, whose states fill no vector of the CPU."""
    return 0 if pack.name == DEFAULT_PACK else 1e-6


def test_order_does_not_matter(pack: Pack) -> None:
    requests = asked()
    shuffled = random.Random(1).sample(requests, len(requests))
    assert_same(answer_requests(requests, pack), answer_requests(shuffled, pack), within(pack))


def test_one_at_a_time_is_the_same(pack: Pack) -> None:
    requests = asked()
    together = answer_requests(requests, Bounded(pack, 10_000))
    for budget in (1, 100, 256):
        assert_same(together, answer_requests(requests, Bounded(pack, budget)), within(pack))


def test_padding_does_not_matter(pack: Pack) -> None:
    requests = asked()
    # Padding between a prefix and its row matters, so no batch of a pack has any.
    assert_same(answer_requests(requests, pack), answer_requests(requests, Crowded(pack)), within=1e-4)


def test_many_places_run_in_halves(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [request for request in asked() if isinstance(request, MaskedLikelihood)]
    whole = answer_requests(requests, Bounded(pack, 10_000))
    monkeypatch.setattr("turnwise.models.onnx.networks.MOST_PLACES", 5)
    assert_same(whole, answer_requests(requests, Bounded(pack, 10_000)), within(pack))


def test_a_long_text_is_copied_only_when_it_runs(pack: Pack) -> None:
    """A row per token, each with its own ids, would be a few gigabytes for a window of long responses."""
    rows = pack.model("masked-lm").rows(MaskedLikelihood("why not " * 350))
    assert len(rows) > 90
    assert {id(row.ids) for row in rows} == {id(rows[0].ids)}


def test_rounding_does_not_matter(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """Another processor adds up in another order. Weights off by a few millionths do the same here.

    Noise must not grow on its way. In a form that rounds activations to whole numbers a flipped rounding moves
    everything after it: by 3e-5 in so small a model, by tenths in a real one.
    """
    from turnwise.models.export.build_pack import build_pack

    folder = tmp_path / "nup"
    folder.mkdir()
    for path in checkpoints["nup"].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    weights, rng = load_file(folder / "model.safetensors"), np.random.default_rng(2)
    for name, value in weights.items():
        if "LayerNorm" in name or name.endswith("bias"):
            weights[name] = (value * (1 + rng.choice([-4e-6, 4e-6], value.shape))).astype(np.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    exact = build_pack([checkpoints["nup"]], tmp_path / "a", name="a", licence="none")
    nudged = build_pack([folder], tmp_path / "b", name="b", licence="none")
    requests = [request for request in asked() if isinstance(request, Classify) and request.role == "nup"]
    assert_same(answer_requests(requests, exact), answer_requests(requests, nudged), within=1e-6)


def test_compressed_answers_stay_close(full_pack: Path, small_pack: Path) -> None:
    requests = [request for request in asked() if isinstance(request, Embed) and request.pooling == "mean"]
    full, small = (answer_requests(requests, load_pack(path)) for path in (full_pack, small_pack))
    for request in requests:
        a, b = full[request], small[request]
        assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.97
        assert not np.array_equal(a, b)
