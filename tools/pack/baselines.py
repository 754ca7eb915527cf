"""Train the learned baselines of the bundled pack: `python tools/pack/baselines.py ROLE... --data DIR --out DIR`.

Roles: skip-thought, ruber, infersent (both of which start from skip-thought), bert-ruber, pone, bert-nli. --data is
the folder with `train`, `human` and `test`; the last two are only read to remove what overlaps with them. Everything is
chosen on dialogues of `train` that are held out. Each role leaves ROLE.safetensors, which goes into a pack as it is,
and ROLE.json, its card; the encoder's answers are kept under --cache, so that a second run starts where one stood.

The bundled ones were made on a GPU, with `--encoder DIR --device cuda` and

    skip-thought             --pairs 80000 --minutes 0.7
    ruber infersent          --pairs 60000 --minutes 0.85   (each by itself, after skip-thought)
    bert-ruber pone bert-nli --pairs 60000 --minutes 0.5

The last three stopped by themselves; the first three were stopped by the clock.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from recipe import WEIGHTS, rated_files, training_files

from turnwise.engine.answer import answer_requests
from turnwise.engine.cache import Cache
from turnwise.files import write_json
from turnwise.metrics.embeddings import cosines
from turnwise.metrics.learned import pooled_words
from turnwise.models.export.weights import write_head
from turnwise.models.heads import LAYER, unpack_weights
from turnwise.models.maude import TrunkReading
from turnwise.models.pack import Pack, load_pack
from turnwise.models.requests import Lookup
from turnwise.text.corrupt import word_drop, word_order, word_repeat
from turnwise.text.tokenise import plain_words
from turnwise.train.baselines import (
    JUDGES,
    READERS,
    DrawnPairs,
    Judge,
    Numbered,
    Texts,
    Thoughts,
    context_of,
    judge_loss,
    load_thoughts,
    neighbour_loss,
    probabilities,
    unit,
    weights_of,
)
from turnwise.train.dialogues import (
    Dialogue,
    decontaminate,
    evaluation_fingerprints,
    licence_of,
    merge_runs,
    read,
    split,
)
from turnwise.train.loop import Columns, Fitted, Recipe, fit_epochs, predict, seeded
from turnwise.train.sampling import Places

HELD_OUT = 0.1
# The roles that learn from spoilt responses too, as MAUDE has them; the others learn from other people's alone.
CORRUPTED = ("infersent", "bert-nli")
WRONG = ("random", "another", "corpus", "drop", "order", "repeat")
RECIPES = {
    "ruber": Recipe(weight_decay=1e-4, batch=128, patience=4, clip=10),
    "infersent": Recipe(weight_decay=1e-4, batch=128, patience=3),
    "skip-thought": Recipe(learning_rate=2e-3, batch=96, patience=3, clip=5),
    "bert-ruber": Recipe(weight_decay=1e-4, batch=256, patience=4, clip=10),
    "pone": Recipe(weight_decay=1e-4, batch=256, patience=4, clip=10),
    "bert-nli": Recipe(weight_decay=1e-4, batch=128, patience=5),
}


class Pairs:
    """Contexts, true responses and wrong ones of both sides of the split, as numbered texts."""

    def __init__(self, kept: Sequence[Dialogue], held: Sequence[Dialogue], count: int, corrupted: bool) -> None:
        self.texts = Texts()
        self.training = self._draw(kept, count, Random(0), corrupted)
        self.validation = self._draw(held, max(count // 8, 1), Random(1), corrupted)

    def _draw(self, dialogues: Sequence[Dialogue], count: int, rng: Random, corrupted: bool) -> Numbered:
        places = Places(dialogues, weights=WEIGHTS)
        drawn = list({(d.id, t): (d, t) for d, t in (places.draw(rng) for _ in range(count))}.values())
        contexts = [context_of([turn.text for turn in d.turns[:t]]) for d, t in drawn]
        truth = [d.turns[t].text for d, t in drawn]
        wrong = [text for i in range(len(drawn)) for text in _wrong(i, drawn, truth, rng)] if corrupted else []
        numbers = self.texts.add(wrong).reshape(len(drawn), -1)
        return Numbered(self.texts.add(contexts), self.texts.add(truth), numbers)


def _wrong(row: int, drawn: Sequence[tuple[Dialogue, int]], truth: Sequence[str], rng: Random) -> list[str]:
    """One wrong response of each kind: what others were right to say elsewhere, and what was said, spoilt."""
    here = drawn[row][0]

    def elsewhere(corpus: str | None = None) -> str:
        for _ in range(1000):
            other = rng.randrange(len(drawn))
            there = drawn[other][0]
            if there.id != here.id and corpus in (None, there.corpus) and truth[other] != truth[row]:
                return truth[other]
        return elsewhere()

    said = truth[row]
    semantic = [elsewhere(), elsewhere(), elsewhere(here.corpus)]
    return [*semantic, word_drop(said, rng), word_order(said, rng), word_repeat(said, rng)]


def neighbours(texts: Texts, dialogues: Sequence[Dialogue], count: int, rng: Random) -> Columns:
    """Utterances and those that follow them, each of at least three words."""
    places = Places(
        dialogues,
        weights=WEIGHTS,
        usable=lambda d, t: min(len(d.turns[i].text.split()) for i in (t - 1, t)) >= 3,
    )
    drawn = list({(d.id, t): (d, t) for d, t in (places.draw(rng) for _ in range(count))}.values())
    sides = {"first": [d.turns[t - 1].text for d, t in drawn], "second": [d.turns[t].text for d, t in drawn]}
    return Columns({name: texts.add(side) for name, side in sides.items()})


def train(
    role: str, kept: list[Dialogue], held: list[Dialogue], args: argparse.Namespace, pack: Pack
) -> dict[str, Any]:
    """Train one role, write its files, and return what it scored on held-out dialogues."""
    recipe = replace(RECIPES[role], minutes=args.minutes, device=args.device)
    if role == "skip-thought":
        weights, fitted, found = train_thoughts(kept, held, args.pairs, recipe, pack)
    else:
        pairs = Pairs(kept, held, args.pairs, corrupted=role in CORRUPTED)
        weights, fitted, found = train_judge(role, pairs, recipe, pack, args)
    over = "encoder" if role in JUDGES else "vectors"
    card = {
        "objective": role,
        "data": [{"corpus": c, "licence": licence_of(c)} for c in sorted({d.corpus for d in kept})],
        "drawn": {"dialogues": len(kept), "pairs": args.pairs},
        "over": {"role": over, "sha256": pack.manifest.files[pack.manifest.role(over).file].sha256, "frozen": True},
        "training": {key: value for key, value in fitted.record().items() if key != "history"},
        "held_out": found,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    write_head(args.out, role, weights, card)
    write_json(args.out / f"{role}.json", card, indent=1)
    return found


def train_thoughts(
    kept: Sequence[Dialogue], held: Sequence[Dialogue], pairs: int, recipe: Recipe, pack: Pack
) -> tuple[dict[str, Any], Fitted, dict[str, Any]]:
    """Weights, course and result of skip-thought."""
    texts = Texts()
    training, validation = (neighbours(texts, side, n, Random(0)) for side, n in ((kept, pairs), (held, pairs // 8)))
    model = seeded(0, lambda: Thoughts(*texts.words(pack)))
    fitted = fit_epochs(model, neighbour_loss, training, validation, recipe)
    return weights_of(model), fitted, {"examples": len(validation), "loss": fitted.loss, "among": recipe.batch}


def train_judge(
    role: str, pairs: Pairs, recipe: Recipe, pack: Pack, args: argparse.Namespace
) -> tuple[dict[str, Any], Fitted, dict[str, Any]]:
    """Weights, course and result of a network that judges responses."""
    table = None
    if role in READERS:
        start = load_thoughts(unpack_weights((args.out / "skip-thought.safetensors").read_bytes()))
        words = pairs.texts.words(pack)
        model: Judge = seeded(0, lambda: READERS[role](*words, start))
    else:
        table = vectors_of(pairs.texts, pack, args)
        model = seeded(0, lambda: JUDGES[role](table))
    training: Any = pairs.training.columns()
    validation: Any = pairs.validation.columns()
    if role not in CORRUPTED:
        alike = unit(table) if role == "pone" and table is not None else None
        training, validation = DrawnPairs(pairs.training, alike), DrawnPairs(pairs.validation, alike)
    fitted = fit_epochs(model, judge_loss, training, validation, recipe)
    weights = weights_of(model)
    if role not in CORRUPTED:
        weights["bounds"] = bounds(pairs.training.responses, pairs.texts, table, pack)
    return weights, fitted, {"loss": fitted.loss} | measured(model, pairs)


def bounds(responses: Any, texts: Texts, table: Any, pack: Pack) -> Any:
    """Return the 1st and 99th percentile of how alike two unrelated responses are: what "referenced" is scaled by."""
    rng = np.random.default_rng(3)
    first, second = (rng.permutation(responses)[:1500] for _ in range(2))
    if table is None:
        spoken = texts.listed()
        asked = {n: Lookup(tuple(plain_words(spoken[n]))) for n in {*first.tolist(), *second.tolist()}}
        found = answer_requests(asked.values(), pack)
        known = {n: (rows := found[q])[~np.isnan(rows).any(axis=1)] for n, q in asked.items()}
        couples = [(known[a], known[b]) for a, b in zip(first.tolist(), second.tolist(), strict=True) if a != b]
        likeness = [
            cosines(pooled_words(a)[None], pooled_words(b)[None])[0, 0] for a, b in couples if len(a) and len(b)
        ]
    else:
        likeness = [cosines(table[a][None], table[b][None])[0, 0] for a, b in zip(first, second, strict=True) if a != b]
    return np.quantile(likeness, [0.01, 0.99]).astype(np.float32)


def vectors_of(texts: Texts, pack: Pack, args: argparse.Namespace) -> Any:
    """The encoder's vector of every text: by the pack itself, or by the same weights in torch."""
    if args.encoder is None:
        return texts.vectors(pack, Cache(args.cache))
    from turnwise.train.utterances import encode_with_trunk

    return encode_with_trunk(args.encoder, TrunkReading(layers=(LAYER,)), device=args.device)(texts.listed())


def measured(model: Any, pairs: Pairs) -> dict[str, Any]:
    """How often the true response beats a uniformly drawn one on held-out dialogues, and each kind of wrong one."""
    validation, rng = pairs.validation, np.random.default_rng(7)
    order = rng.permutation(len(validation.responses))
    others = validation.responses[np.where(order == np.arange(len(order)), order - 1, order)]
    columns = [validation.responses, others, *validation.wrong.T]
    rows = Columns({"context": validation.contexts, "responses": np.column_stack(columns)})
    chances = predict(model, probabilities, rows, batch=256, device=str(model.table.device))
    wins = (chances[:, :1] > chances[:, 1:]).mean(axis=0)
    kinds = ("elsewhere", *(WRONG if validation.wrong.shape[1] else ()))
    right = ((chances[:, 0] > 0.5).mean() + (chances[:, 1] <= 0.5).mean()) / 2
    return {
        "examples": len(order),
        "accuracy": round(float(right), 4),
        "wins": {kind: round(float(share), 4) for kind, share in zip(kinds, wins, strict=True)},
        "mean": [round(float(value), 4) for value in chances.mean(axis=0)[:2]],
    }


def main() -> None:
    """Train the named roles one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("roles", nargs="+", choices=list(RECIPES))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, help="the pack's encoder for torch, by bases.py")
    parser.add_argument("--device", default="cpu", help="where torch runs: cpu or cuda")
    parser.add_argument("--models", help="a pack's folder; the bundled pack without it")
    parser.add_argument("--pairs", type=int, default=8000, help="how many responses are drawn to learn from")
    parser.add_argument("--minutes", type=float, default=6.0, help="the most that one role may take")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(args.threads)
    # Numbers next to nothing are a hundred times slower than nothing.
    torch.set_flush_denormal(True)
    files = training_files(args.data)
    clean, report = decontaminate(read(files), evaluation_fingerprints(rated_files(args.data)))
    kept, held = split([merge_runs(d) for d in clean], HELD_OUT)
    print(report.summary(), flush=True)
    for role in args.roles:
        began = time.monotonic()
        found = train(role, kept, held, args, load_pack(args.models))
        print(json.dumps({"role": role, "seconds": round(time.monotonic() - began, 1)} | found), flush=True)


if __name__ == "__main__":
    main()
