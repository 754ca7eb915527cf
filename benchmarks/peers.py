"""Our engine beside other people's packages, on the same weights and texts: each is left out where it is not installed.

sentence-transformers' CrossEncoder classifies pairs; minicons asks a masked and a causal language model for likelihood.
Each runs in fp32 on its own defaults, with batches as its documentation has them.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.chats import every_turn, several_responses
from benchmarks.sides import TOKENIZER, Ours, Scores, Side, race
from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.models.export.build_pack import build_pack
from turnwise.models.pack import Pack
from turnwise.models.requests import Classify, Continuation, MaskedLikelihood, Request

PAIRS_AT_ONCE, MASKED_AT_ONCE, CONTINUED_AT_ONCE = 32, 8, 32


def beside_packages(checkpoints: Path, pack: Pack, scratch: Path, count: int, rounds: int) -> list[Side]:
    """Every package that is installed, against ours in fp32; `pack` holds the checkpoints' weights as they are."""
    found = []
    # A word about every file that they open would drown the results.
    logging.getLogger("transformers").setLevel(logging.ERROR)
    turns, answers = every_turn(count), several_responses(-(-count // 5))[:count]
    if find_spec("sentence_transformers"):
        found += _pairs(checkpoints, scratch, turns, rounds)
    if find_spec("minicons"):
        ours = Ours(pack, checkpoints)
        found += _masked(checkpoints, scratch, ours, turns, rounds)
        found += _continued(checkpoints, scratch, ours, answers, rounds)
    return found


def _ask(ours: Ours, request: Callable[[Example], Request], value: Callable[[Any], float]) -> Scores:
    def scores(examples: Sequence[Example]) -> list[float]:
        requests = [request(example) for example in examples]
        answers = answer_requests(requests, ours)
        return [value(answers[one]) for one in requests]

    return scores


def _in_parts(run: Callable[[list[Example]], Sequence[float]], size: int) -> Scores:
    return lambda some: [value for at in range(0, len(some), size) for value in run(list(some[at : at + size]))]


def _mean(answer: Any) -> float:
    return float(np.mean(answer.log_probs))


# --- sentence-transformers -----------------------------------------------------------------------------------


def _pairs(checkpoints: Path, scratch: Path, examples: Sequence[Example], rounds: int) -> list[Side]:
    """A classifier on the first token's state, which is what a CrossEncoder opens."""
    from sentence_transformers import CrossEncoder

    mine = shutil.copytree(checkpoints / "nup", scratch / "pairs" / "nup")
    layout = json.loads((mine / "heads.json").read_text())
    layout |= {"pooling": "cls", "activation": "tanh", "first_tokens": 256, "second_tokens": 250}
    layout["heads"] = {"nup": {"labels": ["other", "next"]}}
    (mine / "heads.json").write_text(json.dumps(layout))
    theirs = _as_sequence_classifier(mine, scratch / "cross-encoder")
    pack = build_pack([mine], scratch / "pairs-pack", name="pairs", licence="none", fineness=None)
    ours = Ours(pack, scratch / "pairs")
    package = CrossEncoder(str(theirs), device="cpu", num_labels=2)

    def by_package(some: Sequence[Example]) -> Sequence[float]:
        pairs = [(one.context[-1], one.response) for one in some]
        found = package.predict(pairs, batch_size=PAIRS_AT_ONCE, apply_softmax=True, show_progress_bar=False)
        return [float(row[1]) for row in found]

    ask = _ask(ours, lambda one: Classify(one.context[-1], one.response), lambda answer: float(answer["next"]))
    ways: dict[str, Scores] = {"naive": by_package, "fp32": ask}
    return race("pairs", ways, {"fp32": ours}, examples, rounds, "CrossEncoder")


def _as_sequence_classifier(checkpoint: Path, out: Path) -> Path:
    """The same weights under the names that transformers has for them."""
    from safetensors.numpy import load_file, save_file

    trunk, heads = load_file(checkpoint / "model.safetensors"), load_file(checkpoint / "heads.safetensors")
    weights = {f"bert.{name.removeprefix('bert.')}": tensor for name, tensor in trunk.items()}
    for part in ("weight", "bias"):
        weights[f"bert.pooler.dense.{part}"] = heads[f"nup.dense.{part}"]
        weights[f"classifier.{part}"] = heads[f"nup.out.{part}"]
    out.mkdir()
    save_file({name: np.asarray(value, np.float32) for name, value in weights.items()}, out / "model.safetensors")
    config = json.loads((checkpoint / "config.json").read_text())
    config |= {"architectures": ["BertForSequenceClassification"], "num_labels": 2}
    config.pop("torch_dtype", None), config.pop("dtype", None)
    (out / "config.json").write_text(json.dumps(config))
    (out / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
    shutil.copy(checkpoint / "tokenizer.json", out)
    return out


# --- minicons ------------------------------------------------------------------------------------------------


def _masked(checkpoints: Path, scratch: Path, ours: Ours, examples: Sequence[Example], rounds: int) -> list[Side]:
    from minicons.scorer import MaskedLMScorer

    folder = shutil.copytree(checkpoints / "masked-lm", scratch / "minicons-masked")
    (folder / "tokenizer_config.json").write_text(json.dumps(TOKENIZER))
    package = MaskedLMScorer(str(folder), "cpu")
    package.model.float()
    # minicons calls tokenizers by a name that transformers 5 no longer has.
    package.tokenizer.batch_encode_plus = package.tokenizer.__call__
    by_package = _in_parts(lambda some: package.sequence_score([one.response for one in some]), MASKED_AT_ONCE)
    ways: dict[str, Scores] = {
        "naive": by_package,
        "fp32": _ask(ours, lambda one: MaskedLikelihood(one.response), _mean),
    }
    return race("masked likelihood", ways, {"fp32": ours}, examples, rounds, "minicons")


def _continued(checkpoints: Path, scratch: Path, ours: Ours, examples: Sequence[Example], rounds: int) -> list[Side]:
    from minicons.scorer import IncrementalLMScorer
    from tokenizers import Tokenizer

    folder = shutil.copytree(checkpoints / "causal-lm", scratch / "minicons-causal")
    begin = json.loads((folder / "config.json").read_text())["bos_token_id"]
    name = Tokenizer.from_file(str(folder / "tokenizer.json")).id_to_token(begin)
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": name, "eos_token": name, "pad_token": name}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    package = IncrementalLMScorer(str(folder), "cpu")
    package.model.float()

    def by_package(some: list[Example]) -> Sequence[float]:
        contexts, responses = [one.context[0] for one in some], [one.response for one in some]
        return package.conditional_score(contexts, responses, bos_token=True)  # type: ignore[no-any-return]

    ask = _ask(ours, lambda one: Continuation(one.context[0], f" {one.response}"), _mean)
    ways: dict[str, Scores] = {"naive": _in_parts(by_package, CONTINUED_AT_ONCE), "fp32": ask}
    return race("continuation", ways, {"fp32": ours}, examples, rounds, "minicons")
