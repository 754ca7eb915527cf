"""Batches that run side by side: the same answers, whatever the number of threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from turnwise.engine.answer import answer_requests
from turnwise.models.onnx.networks import OnnxEncoder
from turnwise.models.pack import load_pack
from turnwise.models.requests import Classify, Continuation, Embed, MaskedLikelihood, Request
from turnwise.models.text import rectangle


def asked() -> list[Request]:
    texts = [("i like tea " * (1 + number % 9) + "why not " * (number % 5)).strip() for number in range(40)]
    return [
        request
        for a, b in zip(texts, texts[::-1], strict=True)
        for request in (Classify(a, b), Embed(a), MaskedLikelihood(b), Continuation(a, " " + b))
    ]


def test_answers_do_not_depend_on_threads(full_pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("TURNWISE_THREADS", threads)
        found.append(answer_requests(asked(), load_pack(full_pack)))
    one, three = found
    assert one.keys() == three.keys()
    for request, answer in one.items():
        # Each batch is one thread's: not even the last digit depends on how many there are.
        assert np.array_equal(answer, three[request]) if isinstance(answer, np.ndarray) else answer == three[request]


def test_an_encoder_shares_out_a_batch(full_pack: Path) -> None:
    pack = load_pack(full_pack)
    model = pack.model("encoder")
    rows = [model.rows(Embed("i like tea " * count))[0] for count in (25, 1, 12, 12, 3, 25, 2)] * 4
    batch = rectangle([row.ids for row in rows], [row.types for row in rows])
    session = model.network.session  # type: ignore[attr-defined]
    whole, parts = OnnxEncoder(session).hidden(batch, -1), OnnxEncoder(session, pack.pool).hidden(batch, -1)
    assert whole.shape == parts.shape
    for number, row in enumerate(rows):
        length = len(row.ids)
        np.testing.assert_allclose(whole[number, :length], parts[number, :length], atol=1e-5)
