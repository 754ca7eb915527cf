"""A folder of checkpoints as models: the answers of the pack that is built of them in full precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="checkpoints run through torch: pip install 'turnwise[torch]'")

from turnwise.engine.run import answer_requests
from turnwise.errors import TurnwiseError
from turnwise.models.checkpoints import CheckpointModels, holds_checkpoints
from turnwise.models.pack import load_models
from turnwise.models.protocols import Classify, Continuation, Embed, MaskedLikelihood, Request


def test_checkpoints_answer_as_their_pack_does(checkpoints: dict[str, Path], full_pack: Path) -> None:
    folder = checkpoints["encoder"].parent
    assert holds_checkpoints(folder)
    assert not holds_checkpoints(full_pack)
    models = load_models(folder, "cpu")
    assert isinstance(models, CheckpointModels)
    requests: list[Request] = [
        Embed("i like tea", "do you ?"),
        MaskedLikelihood("we play", "the piano"),
        Classify("i like tea", "me too", role="nup"),
        Classify("yes yes", role="vup"),
        Continuation("do you", " like tea"),
    ]
    ours, packed = answer_requests(requests, models), answer_requests(requests, load_models(full_pack))
    np.testing.assert_allclose(ours[requests[0]], packed[requests[0]], atol=1e-4)
    for request in (requests[1], requests[4]):
        np.testing.assert_allclose(ours[request].log_probs, packed[request].log_probs, atol=1e-4)
    for request in requests[2:4]:
        assert ours[request] == pytest.approx(packed[request], abs=1e-4)
    assert models.label(["encoder"]) != models.label(["encoder", "nup"])


def test_what_is_missing_is_said(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(TurnwiseError, match="no checkpoint for 'maude'"):
        CheckpointModels(checkpoints["encoder"].parent, "cpu").model("maude")
    with pytest.raises(TurnwiseError, match="no checkpoint in its folders"):
        CheckpointModels(tmp_path, "cpu")
