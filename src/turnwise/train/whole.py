"""A whole training run: read, decontaminate, split, train, validate, save, and write the card."""

from __future__ import annotations

import dataclasses
import json
import logging
import platform
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from turnwise.errors import TurnwiseError
from turnwise.files import write_json
from turnwise.train import causal, checkpoint, classifiers, tasks
from turnwise.train.classifiers import Teachers
from turnwise.train.config import Config
from turnwise.train.dialogues import Dialogue, decontaminate, evaluation_fingerprints, licence_of, read, split
from turnwise.train.loop import beside, fit, moved
from turnwise.train.sampling import TooLittleError

logger = logging.getLogger(__name__)

# What a classifier learns from, and is validated on.
NEEDS = {
    "nup": "two dialogues of two turns or more",
    "dr-f": "two dialogues, and facts that some of their turns are about",
    "vup": "turns",
    "nli": "a dialogue in which one person speaks twice",
    "emotion": "turns that name their emotion, some of them 'neutral'",
}
MORE = "give more dialogues, or a larger held_out in the file of `options`"


def train(config: Config) -> dict[str, Any]:
    """Train what the configuration asks for; the model and its card are in `config.out` afterwards."""
    dialogues = read(config.data)
    dialogues, report = decontaminate(dialogues, evaluation_fingerprints(config.evaluation))
    logger.info(report.summary())
    if not dialogues:
        raise TurnwiseError("data: expected dialogues after decontamination, got none. Fix: give other training files")
    kept, held = split(dialogues, config.held_out, config.seed)
    if len(held) < 2:
        raise TurnwiseError(f"{len(held)} of {len(dialogues)} dialogues are held out, too few to validate on; {MORE}")
    config.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(config.seed)
    card: dict[str, Any] = {
        "objective": config.objective,
        "base": config.base.name,
        "started_from": _before(config.base),
        "teachers": [_before(folder) for folder in config.teacher],
        "data": _data(kept, held),
        "decontamination": {"checked_against": [p.name for p in config.evaluation], "removed": report.by_corpus()},
        "options": config.record() | {"learning_rate": config.rate},
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    trained = {"mlm": _masked_lm, "clm": _causal_lm}.get(config.objective, _classifiers)(config, kept, held)
    card |= trained
    write_json(config.out / checkpoint.CARD, card)
    shutil.rmtree(config.out / "state", ignore_errors=True)
    return card


def _before(folder: Path) -> dict[str, Any] | None:
    """Return the earlier training run that the card in a folder records; None without one."""
    file = folder / checkpoint.CARD
    card = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    trained = card.get("training")
    if not isinstance(trained, dict):
        return None
    told = {"objective": card.get("objective"), "base": card.get("base"), "held_out": card.get("held_out")}
    return told | {"steps": trained.get("steps"), "seconds": trained.get("seconds")}


def _data(kept: Sequence[Dialogue], held: Sequence[Dialogue]) -> list[dict[str, Any]]:
    """Return the number of dialogues and the licence of each corpus."""
    counts = Counter(d.corpus for d in kept), Counter(d.corpus for d in held)
    return [
        {"corpus": c, "dialogues": counts[0][c], "held_out": counts[1][c], "licence": licence_of(c)}
        for c in sorted({*counts[0], *counts[1]})
    ]


def _classifiers(config: Config, kept: Sequence[Dialogue], held: Sequence[Dialogue]) -> dict[str, Any]:
    rows = tasks.read_pairs(config.pairs)
    held_rows = [row for row in rows if _held_out(row, config)]
    used_rows = [row for row in rows if not _held_out(row, config)]
    learnt = _tasks(config, kept, used_rows, "give files that have them")
    # Built before training, so that a lack of held-out data fails early.
    asked = _tasks(dataclasses.replace(config, replies=None), held, held_rows, MORE)
    model = classifiers.classifier(
        config.base,
        {task.name: task.labels for task in learnt},
        config.dropout,
        config.freeze_words,
        config.grow_layers,
    )
    teachers = Teachers(config.teacher, config) if config.teacher else None
    if config.compile:
        classifiers.compile_layers(model.trunk)
    happened = fit(model, classifiers.Classification(learnt, config, teachers), config)
    _save_classifier(config, model, {task.name: {"labels": list(task.labels)} for task in learnt})
    results = {}
    for task in asked:
        results[task.name] = _validate(task, model, config)
        logger.info("%s held out: %s", task.name, results[task.name])
    return {"training": happened, "held_out": results}


def _tasks(
    config: Config, dialogues: Sequence[Dialogue], rows: Sequence[tasks.Labelled], remedy: str
) -> list[tasks.Task]:
    """Build the task of every classifier from these dialogues; an error names the first that lacks data."""
    made = []
    for name in config.parts:
        try:
            made.append(tasks.build(name, dialogues, config, rows))
        except TooLittleError:
            raise TurnwiseError(f"{name} needs {NEEDS[name]}; {len(dialogues)} dialogues lack them: {remedy}") from None
    return made


def _held_out(row: tasks.Labelled, config: Config) -> bool:
    """Return whether a labelled pair is kept for validation; decided by its premise, so that variants stay together."""
    return Random(f"{config.seed}:{row.first}").random() < max(config.held_out, 0.1)


def _validate(task: tasks.Task, model: classifiers.TrunkClassifier, config: Config) -> dict[str, Any]:
    encode = classifiers.pairs_of(config.base, config)

    def ask(rows: Sequence[tasks.Labelled]) -> npt.NDArray[np.floating]:
        return classifiers.probabilities(model, rows, encode, task.name).numpy()

    result: dict[str, Any] = tasks.accuracy(task, ask, config.validate, config.seed)
    if isinstance(task, tasks.NextUtteranceTask):
        result["ranking"] = tasks.ranking(task, ask, max(1, config.validate // 2), config.seed)
    return result


def _save_classifier(config: Config, model: classifiers.TrunkClassifier, heads: dict[str, Any]) -> None:
    trunk_config = classifiers.config_of(model.trunk, type(model.trunk).__name__)
    checkpoint.save_model(config.out, model.trunk.state_dict(), trunk_config, config.base / "tokenizer.json")
    layout = {
        "pooling": "max of the second text" if model.causal else "max",
        "activation": "gelu",
        "first_tokens": config.context_tokens,
        "second_tokens": config.response_tokens,
        "separator": "[SEP]",
        "heads": heads,
    }
    checkpoint.save_heads(config.out, dict(model.heads.state_dict()), layout)


def _masked_lm(config: Config, kept: Sequence[Dialogue], held: Sequence[Dialogue]) -> dict[str, Any]:
    model = classifiers.masked_lm(config.base, config.freeze_words)
    happened = fit(model, classifiers.Masking(kept, config), config)
    weights = {k: v for k, v in model.model.state_dict().items() if k != "cls.predictions.decoder.weight"}
    described = classifiers.config_of(model.model, "BertForMaskedLM")
    checkpoint.save_model(config.out, weights, described, config.base / "tokenizer.json")
    return {"training": happened, "held_out": _masked_loss(config, model, held)}


@torch.no_grad()
def _masked_loss(config: Config, model: classifiers.MaskedLanguageModel, held: Sequence[Dialogue]) -> dict[str, Any]:
    """Return mean loss at masked positions of held-out text."""
    objective = classifiers.Masking(held, config)
    device = next(model.parameters()).device
    losses = [
        float(objective.loss(model, moved(c, device)))
        for index in range(max(1, config.validate // config.batch))
        for c in objective.batch(-1 - index)
    ]
    return {"masked_loss": round(float(np.mean(losses)), 4)}


def _causal_lm(config: Config, kept: Sequence[Dialogue], held: Sequence[Dialogue]) -> dict[str, Any]:
    if config.vocabulary is not None:
        smaller = config.out / "base"
        causal.smaller_vocabulary(config.base, smaller, causal.spellings(kept), config.vocabulary)
        config = dataclasses.replace(config, base=smaller)
    model = causal.load(config.base, config.keep_layers)
    if config.levels:
        causal.start_quantised(model, config.levels)
    teacher = None
    if config.teacher:
        device, dtype = beside(config)
        teacher = causal.load(config.teacher[0], dtype=dtype)
        teacher.train(False).to(device)
    if config.compile:
        for some in (model, teacher) if teacher else (model,):
            classifiers.compile_layers(some.model)
    fluent = causal.NextTokens(kept, config, teacher)
    objective = causal.Contrast(fluent, kept, config) if config.contrast else fluent
    happened = fit(model, objective, config)
    return _finish_causal(config, model, happened, held)


def _finish_causal(config: Config, model: Any, happened: dict[str, Any], held: Sequence[Dialogue]) -> dict[str, Any]:
    if config.levels:
        causal.settle_quantised(model)
    weights = {name: value for name, value in model.state_dict().items() if name != "lm_head.weight"}
    described = {**model.config.to_dict(), "architectures": ["LlamaForCausalLM"], "dtype": "float16"}
    checkpoint.save_model(config.out, weights, described, config.base / "tokenizer.json")
    objective = causal.NextTokens(held, config)
    rng = Random(config.seed)
    texts = {
        corpus: ["\n".join(t.text for t in d.turns[:12]) for d in held if d.corpus == corpus][: config.validate // 10]
        for corpus in sorted({d.corpus for d in held})
    }
    everything = [text for some in texts.values() for text in some]
    rng.shuffle(everything)
    perplexities = {
        corpus: round(objective.perplexity(model, some), 3) for corpus, some in texts.items() if len(some) > 4
    }
    held_out = {"perplexity": round(objective.perplexity(model, everything[: config.validate]), 3)}
    apart = causal.told_apart(model, objective, held, config)
    return {"training": happened, "held_out": held_out | {"perplexity_by_corpus": perplexities, "ranking": apart}}
