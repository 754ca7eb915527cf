"""Toy packs for metrics: the tiny random checkpoints of tests/models, with a head for facts added."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.engine.score import judge_examples
from turnwise.metrics.base import Score
from turnwise.metrics.registry import load_metric
from turnwise.models.pack import Pack, load_pack
from turnwise.models.requests import Answer, Request


def _builders() -> ModuleType:
    path = Path(__file__).parents[1] / "models" / "conftest.py"
    specification = importlib.util.spec_from_file_location("toy_checkpoints", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


checkpoints = _builders().checkpoints


class Toy:
    """Judges by a pack, and remembers what the pack was asked."""

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self.asked: list[Request] = []

    def ask(self, requests: Iterable[Request]) -> Mapping[Request, Answer]:
        answers = answer_requests(requests, self.pack)
        self.asked += answers
        return answers

    def judge(self, requests: str | list[str], *examples: Example) -> list[dict[str, Score]]:
        names = [requests] if isinstance(requests, str) else requests
        return judge_examples(examples, {name: load_metric(name) for name in names}, self.ask)

    def score(self, request: str, example: Example) -> Score:
        return self.judge(request, example)[0][request]


@pytest.fixture(scope="session")
def toy_pack(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """A pack in full precision with every role that USR and USL-H ask."""
    from safetensors.numpy import load_file, save_file

    from turnwise.models.export.build_pack import build_pack

    root = tmp_path_factory.mktemp("toy")
    facts = Path(shutil.copytree(checkpoints["nup"], root / "dr-f"))
    layout = json.loads((facts / "heads.json").read_text())
    layout["heads"] = {"dr-f": {"labels": ["other", "about the fact"]}}
    (facts / "heads.json").write_text(json.dumps(layout))
    heads = load_file(facts / "heads.safetensors")
    save_file(
        {name.replace("nup.", "dr-f."): 0.7 * value for name, value in heads.items()}, facts / "heads.safetensors"
    )
    folders = [*checkpoints.values(), facts]
    texts = ["i like tea .", "do you play the piano ?", "yes"]
    build_pack(folders, root / "pack", name="toy", licence="none", texts=texts, fineness=None)
    return load_pack(root / "pack")


@pytest.fixture
def toy(toy_pack: Pack) -> Toy:
    """The toy pack, with nothing asked yet."""
    return Toy(toy_pack)
