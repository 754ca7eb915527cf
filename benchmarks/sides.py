"""Two ways to the same scores, measured in turns: how many times faster is one, and how far do the scores agree?"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks import naive
from benchmarks.chats import every_turn, several_responses
from benchmarks.gpu import Counted, sizes_of
from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.engine.score import judge_examples
from turnwise.metrics.registry import load_metric
from turnwise.models.export.build_pack import build_pack
from turnwise.models.kinds import ModelSource
from turnwise.models.onnx.session import thread_count
from turnwise.models.pack import Pack
from turnwise.models.sources import CheckpointModels

# The papers' own way, and the same without the padding of USR's release.
NAIVE, UNPADDED = "naive", "naive, unpadded"
Scores = Callable[[Sequence[Example]], Sequence[float]]
# What issue and documentation promise, by metric and precision of the weights.
BARS = {
    ("usr-mlm", "fp32"): 3.0,
    ("usr-dr-c", "fp32"): 2.0,
    ("coherence", "fp32"): 4.0,
    ("maude", "fp32"): 10.0,
    ("bertscore", "fp32"): 1.5,
    ("usr-mlm", "int8"): 8.0,
    ("usr-dr-c", "int8"): 5.0,
}
TOKENIZER = {"tokenizer_class": "BertTokenizer", "model_max_length": 512}
TOKENIZER |= {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "mask", "pad", "unk")}
LARGEST_DIFFERENCE, LEAST_SPEARMAN = 1e-3, 0.995


@dataclass
class Side:
    """One comparison: rates of either way, and how far their scores agree."""

    metric: str
    weights: str
    against: str
    count: int
    ours: float
    theirs: float
    difference: float
    spearman: float
    model_share: float
    gflops: float

    @property
    def ratio(self) -> float:
        """How many times as fast we are."""
        return self.ours / self.theirs

    @property
    def bar(self) -> float | None:
        """How many times as fast we promised to be."""
        return BARS.get((self.metric, self.weights)) if self.against != UNPADDED else None

    @property
    def agrees(self) -> bool:
        """Whether the scores are the same, or for rounded weights in the same order."""
        if self.weights == "fp32":
            return self.difference <= LARGEST_DIFFERENCE
        return self.spearman >= LEAST_SPEARMAN

    @property
    def met(self) -> bool:
        """Whether speed and agreement are as promised."""
        return self.agrees and (self.bar is None or self.ratio >= self.bar)


class Ours(ModelSource):
    """Our way, with what its time went into."""

    def __init__(self, pack: Pack, checkpoints: Path) -> None:
        self.models = Counted(pack, sizes_of(checkpoints))
        self.in_model = 0.0
        self._timed: set[str] = set()
        self._lock = Lock()

    def scores(self, request: str, examples: Sequence[Example]) -> list[float]:
        """The scores, with nothing remembered from before."""
        metric = load_metric(request)
        judged = judge_examples(examples, {"it": metric}, lambda asked: answer_requests(asked, self))
        return [float(one["it"].value or 0.0) for one in judged]

    def forget(self) -> None:
        """Let go of what models remember of texts that they have read."""
        self.in_model = 0.0
        self.models.forget()

    roles = property(lambda self: self.models.roles)

    def label(self, roles: Any) -> str:
        return self.models.label(roles)

    def model(self, role: str) -> Any:
        model = self.models.model(role)
        if role not in self._timed:
            self._timed.add(role)
            # Where threads take a batch each, a second of one is a part of a second of all.
            run, threads = model.run, thread_count() if getattr(model, "pool", None) else 1

            def timed(rows: Any) -> Any:
                began = time.perf_counter()
                found = run(rows)
                with self._lock:
                    self.in_model += (time.perf_counter() - began) / threads
                return found

            model.run = timed
        return model


def packs(checkpoints: Path, out: Path, shipped: Pack | None = None) -> dict[str, Pack]:
    """Packs of the checkpoints: with their weights as they are, and as a pack is shipped, computing in int8.

    Where the checkpoints were made of a shipped pack, that is the second one.
    """
    folders = sorted(path for path in checkpoints.iterdir() if path.is_dir())
    # A head is added after the encoder that it reads.
    folders.sort(key=lambda folder: (folder / "maude.safetensors").is_file())
    exact = build_pack(folders, out / "fp32", name="fp32", licence="none", fineness=None)
    rounded = shipped or build_pack(folders, out / "int8", name="int8", licence="none")
    return {"fp32": exact, "int8": Pack(rounded.folder, "int8")}


def compared(checkpoints: Path, made: dict[str, Pack], out: Path, count: int, rounds: int) -> list[Side]:
    """Every metric by the naive way and by ours, at equal weights and in whole numbers."""
    plain = CheckpointModels(checkpoints, "cpu")
    ours = {weights: Ours(pack, checkpoints) for weights, pack in made.items()}
    # Dialogues of real length: that is where reading a conversation anew for each turn costs.
    turns, answers = every_turn(count, turns=12), several_responses(-(-count // 5))[:count]
    texts = {"usr-mlm": turns, "usr-dr-c": turns, "maude": turns, "coherence": answers}
    found = []
    for request, examples in texts.items():
        ways: dict[str, Scores] = {NAIVE: partial(naive.scores, request, models=plain)}
        ways |= {weights: partial(way.scores, request) for weights, way in ours.items()}
        found += race(request, ways, ours, examples, rounds, NAIVE)
    # Padding is the release's own doing; without it there is less to gain.
    closer: dict[str, Scores] = {NAIVE: partial(naive.scores, "usr-dr-c", models=plain, padded=0)}
    closer |= {weights: partial(way.scores, "usr-dr-c") for weights, way in ours.items()}
    found += race("usr-dr-c", closer, ours, turns, rounds, UNPADDED)
    if find_spec("bert_score"):
        found += _bertscore(checkpoints, out, ours, turns, rounds)
    return found


def _bertscore(checkpoints: Path, out: Path, ours: dict[str, Ours], examples: list[Example], rounds: int) -> list[Side]:
    from bert_score import BERTScorer

    layers = sizes_of(checkpoints)["encoder"]["layers"]
    folder = shutil.copytree(checkpoints / "encoder", out / "for-bert-score")
    # The package asks the tokenizer how long a text may be.
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
    # By its name alone: the package takes any model with "t5" in its address, as a scratch folder may have, for a T5.
    with contextlib.chdir(folder.parent):
        package = BERTScorer(model_type=folder.name, num_layers=layers, device="cpu", nthreads=0, batch_size=64)
    # It opens weights in the precision of the file, and half precision on a CPU would be slow and another score.
    package._model.float()

    def by_package(some: Sequence[Example], at_once: int = 64) -> Sequence[float]:
        responses, references = [one.response for one in some], [list(one.references) for one in some]
        return package.score(responses, references, batch_size=at_once)[2].tolist()  # type: ignore[no-any-return]

    mine = {"fp32": ours["fp32"]}
    ways: dict[str, Scores] = {"naive": by_package, "fp32": partial(mine["fp32"].scores, f"bertscore[layer={layers}]")}
    # In a batch the package lets padding, at zero, outdo a similarity below zero; one by one there is none.
    truth = by_package(examples, at_once=1)
    return race("bertscore", ways, mine, examples, rounds, "bert-score", truth)


def race(
    name: str,
    ways: dict[str, Scores],
    ours: dict[str, Ours],
    examples: Sequence[Example],
    rounds: int,
    against: str,
    truth: Sequence[float] | None = None,
) -> list[Side]:
    """Rounds are interleaved and the fastest of each way counts, so that a busy machine slows all alike."""
    count = len(examples)
    for run in ways.values():
        run(examples[:2])  # opens the model
    seconds, share, done = dict.fromkeys(ways, float("inf")), dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    scores: dict[str, Any] = {}
    for _ in range(rounds):
        for way, run in ways.items():
            if way in ours:
                ours[way].forget()
            began = time.perf_counter()
            scores[way] = np.array(run(examples))
            took = time.perf_counter() - began
            if took < seconds[way]:
                seconds[way] = took
                if way in ours:
                    share[way], done[way] = ours[way].in_model / took, ours[way].models.operations / took
    true = scores["naive"] if truth is None else np.array(truth)
    return [
        Side(
            name,
            way,
            against,
            count,
            count / seconds[way],
            count / seconds["naive"],
            float(np.abs(scores[way] - true).max()),
            float(spearmanr(scores[way], true).statistic),
            share[way],
            done[way] / 1e9,
        )
        for way in ours
    ]
