"""A folder with tiny models and dialogues to train on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "pack"))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from . import tiny

    torch.set_num_threads(1)  # models this small only lose time to more
    folder = tmp_path_factory.mktemp("train")
    tiny.dialogues(folder / "toy.jsonl")
    tiny.bert(folder / "bert")
    tiny.llama(folder / "llama")
    return folder
