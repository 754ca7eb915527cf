"""A kind of model from outside: its request, its answers in the cache, and its models in a pack and in a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import turnwise as tw
from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.engine.cache import Cache
from turnwise.errors import TurnwiseError
from turnwise.metrics.base import Metric, Score
from turnwise.models.kinds import KINDS, Model, ModelKind, ModelSource, TokenRow, _kind_for, kind_of
from turnwise.models.pack import Pack, verify_pack
from turnwise.models.requests import Classify, Request
from turnwise.models.sources import Checkpoint


@dataclass(frozen=True, slots=True)
class Rate(Request):
    """How polite is this text?"""

    key: ClassVar[str] = "test-Rate"
    text: str
    role: str = "politeness"


@dataclass(frozen=True)
class Rating:
    points: float
    why: str


class Rater(Model):
    """Counts polite words: a network would stand in `run`."""

    def __init__(self, words: Sequence[str], fingerprint: str) -> None:
        self.words, self.fingerprint = set(words), fingerprint

    def rows(self, request: Rate) -> list[TokenRow]:
        return [TokenRow(tuple(word in self.words for word in request.text.split()))]

    def run(self, rows: Sequence[TokenRow]) -> list[int]:
        return [sum(row.ids) for row in rows]

    def answer(self, request: Rate, rows: Sequence[TokenRow], results: Sequence[int]) -> Rating:
        return Rating(float(results[0]), f"{results[0]} polite words")


def from_pack(pack: Pack, role: str) -> Rater:
    return Rater(json.loads(pack.read(pack.manifest.role(role).file)), pack.fingerprint(role))


def from_checkpoint(checkpoint: Checkpoint) -> Rater:
    content = (Path(checkpoint.name) / "words.json").read_bytes()
    return Rater(json.loads(content), hashlib.sha256(content).hexdigest())


RATER = ModelKind(
    "rater",
    Rate,
    from_pack,
    from_checkpoint,
    probe=lambda role: Rate("thank you", role=role),
    encode_answer=lambda rating: ({"why": rating.why}, np.array([rating.points])),
    decode_answer=lambda facts, numbers: Rating(float(numbers[0]), facts["why"]),
    architectures=("PoliteWords",),
    folders=("politeness",),
)


@dataclass(frozen=True, kw_only=True)
class Politeness(Metric):
    """How polite a response is."""

    summary: ClassVar[str] = "polite words"
    cite: ClassVar[str] = "nobody"
    roles = frozenset({"politeness"})

    def requests(self, example: Example) -> Sequence[Request]:
        return (Rate(example.response),)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(answers[0].points)


@pytest.fixture(autouse=True)
def _rater() -> Iterator[None]:
    KINDS.add("rater", RATER, module="politeness")
    yield
    del KINDS._items["rater"]
    _kind_for.cache_clear()


def write_pack(folder: Path, kind: str = "rater") -> Path:
    folder.mkdir()
    content = json.dumps(["thank", "please"]).encode()
    (folder / "words.json").write_bytes(content)
    files = {"words.json": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}}
    manifest = {
        "format": 1,
        "name": "polite",
        "version": "1",
        "licence": "none",
        "files": files,
        "roles": {"politeness": {"kind": kind, "file": "words.json"}},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def write_checkpoint(folder: Path) -> Path:
    place = folder / "politeness"
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps({"architectures": ["PoliteWords"]}))
    (place / "words.json").write_text(json.dumps(["thank", "please"]))
    return folder


@pytest.mark.parametrize("write", [write_pack, write_checkpoint])
def test_a_metric_asks_a_new_kind_of_model(tmp_path: Path, write: Any) -> None:
    models = write(tmp_path / "models")
    rows = [{"response": "please , thank you"}, {"response": "no"}]
    for _ in ("computed", "from the cache"):
        result = tw.evaluate(rows, Politeness(name="politeness"), models=models, cache=tmp_path / "cache")
        assert [item.scores["politeness"].value for item in result.judged] == [2.0, 0.0]


def test_answers_of_a_kind_are_kept_in_its_own_form(tmp_path: Path) -> None:
    class Only(ModelSource):
        opened = Rater(["please"], "1")

        def model(self, role: str) -> Model:
            return self.opened

    request = Rate("please please")
    first = answer_requests([request], Only(), cache=Cache(tmp_path))
    Only.opened.run = None  # type: ignore[assignment,method-assign]
    assert answer_requests([request], Only(), cache=Cache(tmp_path)) == first
    assert first == {request: Rating(2.0, "2 polite words")}


def test_a_pack_of_a_new_kind_is_verified(tmp_path: Path) -> None:
    (checked,) = verify_pack(write_pack(tmp_path / "polite"))
    assert (checked.role, checked.kind) == ("politeness", "rater")


def test_a_kind_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(TurnwiseError, match="model kind 'raterr' is not known; did you mean 'rater'"):
        Pack(write_pack(tmp_path / "polite", kind="raterr"))


def test_requests_find_their_kind() -> None:
    @dataclass(frozen=True, slots=True)
    class Unknown(Request):
        role: str = "x"

    assert kind_of(Classify("a")).name == "classifier"
    assert kind_of(Rate("a")) is RATER
    with pytest.raises(TurnwiseError, match="request Unknown: expected a model kind"):
        kind_of(Unknown())
