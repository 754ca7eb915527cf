"""Train MAUDE's head for a pack: `python scripts/train_maude.py --data DIR --work DIR --out DIR`.

As it stands, this is how the bundled head was made (add `--encoder DIR --device cuda` on a GPU, minutes instead of
hours), and with `--corpora personachat --negatives all|semantics|syntax` how the three heads of the tables were.

Vectors of utterances come from the pack's own encoder and are kept in --work, so that only the first run is slow.
--negatives all, semantics or syntax; --corpora personachat (what the tables want) or both, with the open-domain files;
--mode the paper's or the released form; --options a JSON object with any other option of
`turnwise.train.maude.Options`; --trunk a folder of the encoder, if it is to learn with the head. --out receives
`maude.safetensors` and `card.json`, a checkpoint that `turnwise pack build` takes. The recipe's minutes, if there are
any, are those of the whole command up to the last step.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from maude_corpora import CORPORA, Room

from turnwise.models.export.maude import OWN
from turnwise.models.heads_numpy import unpack_weights
from turnwise.models.maude import header
from turnwise.models.utterances import Reading
from turnwise.train.heads import Recipe
from turnwise.train.licences import licence_of
from turnwise.train.maude import MODES, SETS, Options, train
from turnwise.train.maude_checkpoint import save_head
from turnwise.train.maude_data import Kind, Sampled
from turnwise.train.maude_trunk import Trunk

BEGAN = time.monotonic()
MIXES: Mapping[str, Sequence[str]] = {"personachat": ["personachat"], "both": ["personachat", "open"]}
RECIPE = Recipe(batch=64, epochs=40, patience=6, learning_rate=1e-3, weight_decay=0.01, clip=0.5, decay=True)
SIZES: Mapping[str, Any] = {"down_size": 256, "hidden": 256, "dense": 200, "input_dropout": 0.1}
# Likeness to the last turn, and to those before it; responses of the same batch as random utterances; fewer paraphrased
# positives than half, since the words that people chose are what is mostly judged.
LEARNING: Mapping[str, Any] = {"recent": (0.0, 0.6), "in_batch": 16, "reworded": 0.3}
CONTRAST = 0.3
# The bundled head also picks the true response out of others of its own dialogue: without them a head learns that what
# repeats the last turn fits best (`maude_echoes.py`).
IN_DIALOGUE = 2
TRUNK_RECIPE: Mapping[str, Any] = {
    "learning_rate": 5e-4, "encoder_rate": 5e-5, "batch": 32, "epochs": 12, "patience": 3,
}  # fmt: skip
# How much each kind of negative counts beside the true response. Together the semantic ones weigh about as much as it
# does: a true response then scores high, and how far all others lie below it is not lost to doubt. The bundled head,
# which meets many corpora, is to hear above all what belongs where.
WEIGHTS: Mapping[str, Mapping[Kind, float]] = {
    "personachat": {
        "word_drop": 0.2, "word_order": 0.3, "word_repeat": 0.1, "rand_utt": 0.5, "model_false": 0.2, "rand_back": 0.2,
    },
    "both": {
        "word_drop": 0.15, "word_order": 0.2, "word_repeat": 0.1, "rand_utt": 0.6, "model_false": 0.15,
        "rand_back": 0.2,
    },
}  # fmt: skip
BATCHES: Mapping[str, int] = {"personachat": 64, "both": 128}


def recommended(corpora: str, negatives: Sequence[Kind], own: bool = False) -> dict[str, Any]:
    """What the recommended head of these dialogues is trained with, against these kinds of negatives.

    With an encoder of its `own` there is nothing to standardise.
    """
    weights = {kind: weight for kind, weight in WEIGHTS[corpora].items() if kind in negatives}
    picked = CONTRAST if "rand_utt" in negatives and (own or corpora == "both") else 0.0
    near = IN_DIALOGUE if picked and corpora == "both" else 0
    learnt = {"frozen": False, "standardise": False} if own else {}
    chosen = {"contrast": picked, "in_dialogue": near, **learnt}
    return {"negatives": tuple(negatives), "weights": weights, **SIZES, **LEARNING, **chosen}


def dialogues(room: Room, corpora: str) -> tuple[list[Sampled], list[Sampled]]:
    """Dialogues to learn from, and to validate on."""
    parts = [room.training(name) for name in MIXES[corpora]]
    kept, held = ([dialogue for part in parts for dialogue in part[side]] for side in (0, 1))
    return kept, held


def left(recipe: Recipe) -> Recipe:
    """The recipe with the minutes that reading dialogues and making vectors has left of its own."""
    if recipe.minutes is None:
        return recipe
    return replace(recipe, minutes=max(recipe.minutes - (time.monotonic() - BEGAN) / 60, 0.05))


def train_head(
    room: Room,
    corpora: str,
    options: Options,
    recipe: Recipe,
    out: Path,
    mode: str = "recommended",
    trunk: Trunk | None = None,
    start: Path | None = None,
    most: tuple[int | None, int | None] = (None, None),
) -> dict[str, Any]:
    """Train a head, write it with its card, and return the card.

    `start` is a folder to go on from, over its own encoder, as it was rounded, if it has one; `most` is how many
    dialogues are learnt from, and how many validated on.
    """
    kept, held = (some[:count] for some, count in zip(dialogues(room, corpora), most, strict=True))
    weights, own = None, None
    if start is not None:
        content = (start / "maude.safetensors").read_bytes()
        weights, own = unpack_weights(content), start if header(content)["role"] == OWN else None
    unlike = room.unlike()
    everything = [*kept, *held, *(one for some in unlike.values() for one in some)]
    if options.frozen:
        store = room.store if own is None else room.own_store(own, room.reading)
        vectors, index = store.table(text for one in everything for text in one.texts())
        model, fitted = train(
            kept, held, options, left(recipe), vectors=vectors, index=index, parts=len(room.reading.layers),
            unlike=unlike, start=weights,
        )  # fmt: skip
    else:
        if trunk is None:
            raise SystemExit("error: an encoder that learns needs --trunk, a folder in the hub's layout")
        trunk.prepare(text for one in everything for text in one.texts())
        model, fitted = train(kept, held, options, left(recipe), encoder=trunk, unlike=unlike)
    names = [corpus for name in MIXES[corpora] for corpus in CORPORA[name]]
    card = {
        "objective": "maude",
        "form": mode,
        "data": [{"corpus": corpus, "licence": licence_of(corpus)} for corpus in names],
        "dialogues": {"learnt_from": len(kept), "validated_on": len(held)},
        "decontaminated_against": "every file of human/ and test/",
        "paraphraser": room.paraphraser,
        "generated_by": f"causal-lm of {room.pack.name}, greedy",
        "encoder": room.reading.role if options.frozen and own is None else "its own, trained with it",
        "options": options.record(),
        "training": fitted.record(),
        "before": json.loads((start / "card.json").read_text(encoding="utf-8")) if start is not None else None,
        "held_out": fitted.found,
        "versions": {"torch": torch.__version__},
    }
    save_head(model, room.reading, card, out, own)
    return card


def main() -> None:
    """Train one head."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with train/, human/ and test/")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps vectors between runs")
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--encoder", type=Path, help="the pack's encoder for torch, by encoder_to_torch.py")
    parser.add_argument("--device", default="cpu", help="where torch runs: cpu or cuda")
    parser.add_argument("--layers", type=int, nargs="+", default=[3, 6], help="layers of the encoder that are read")
    parser.add_argument("--trunk", type=Path, help="folder of the encoder to train with the head, if frozen=false")
    parser.add_argument("--learning-layers", type=int, help="how many of its last layers learn; all when left out")
    parser.add_argument("--start", type=Path, help="folder of a trained head to go on from, over its encoder as it is")
    parser.add_argument("--dialogues", type=int, help="how many are learnt from; all when left out")
    parser.add_argument("--validated", type=int, help="how many are validated on; all when left out")
    parser.add_argument("--corpora", choices=MIXES, default="both")
    parser.add_argument("--negatives", choices=SETS, default="all")
    parser.add_argument("--mode", choices=MODES, default="recommended")
    parser.add_argument("--paraphraser", choices=("wordnet", "causal-lm", "back-translation"), default="wordnet")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: other options of the head")
    parser.add_argument("--recipe", type=json.loads, default={}, help="JSON: other options of the training")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    chosen: dict[str, Any] = {"negatives": SETS[args.negatives], **MODES[args.mode]}
    if args.mode == "recommended":
        chosen = recommended(args.corpora, SETS[args.negatives], own=args.trunk is not None)
    options = Options(**chosen | args.options)
    reading = Reading(layers=tuple(args.layers))
    room = Room(args.data, args.work, args.models, args.paraphraser, reading, encoder=args.encoder, device=args.device)
    trunk = None if args.trunk is None else Trunk.open(args.trunk, reading, learning=args.learning_layers)
    steps = {} if trunk is None else TRUNK_RECIPE
    recipe = Recipe(**vars(RECIPE) | {"batch": BATCHES[args.corpora], "device": args.device, **steps} | args.recipe)
    card = train_head(
        room, args.corpora, options, recipe, args.out, args.mode, trunk, args.start, (args.dialogues, args.validated)
    )
    course = {key: card["training"][key] for key in ("loss", "kept", "epochs")}
    print(json.dumps({"head": args.out.name} | course | card["held_out"]))


if __name__ == "__main__":
    main()
