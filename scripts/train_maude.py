"""Train MAUDE's head for a pack: `python scripts/train_maude.py --data DIR --work DIR --out DIR`.

As it stands, this is how the bundled head was made (add `--encoder DIR --device cuda` on a GPU, minutes instead of
hours), and with `--corpora personachat --negatives all|semantics|syntax` how the three heads of the tables were.

Vectors of utterances come from the pack's own encoder and are kept in --work, so that only the first run is slow.
--negatives all, semantics or syntax; --corpora personachat (what the tables want) or both, with the open-domain files;
--mode the paper's or the released form; --options a JSON object with any other option of
`turnwise.train.maude.Options`. --out receives `maude.safetensors` and `card.json`, a checkpoint that
`turnwise pack build` takes.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from maude_corpora import CORPORA, Room

from turnwise.models.export.maude import save_head
from turnwise.models.utterances import Reading
from turnwise.train.heads import Recipe
from turnwise.train.licences import licence_of
from turnwise.train.maude import MODES, SETS, Options, train
from turnwise.train.maude_data import Kind, Sampled
from turnwise.train.maude_trunk import Trunk

MIXES: Mapping[str, Sequence[str]] = {"personachat": ["personachat"], "both": ["personachat", "open"]}
RECIPE = Recipe(batch=64, epochs=40, patience=6, learning_rate=1e-3, weight_decay=0.01, clip=0.5, decay=True)
SIZES: Mapping[str, Any] = {"down_size": 384, "hidden": 384, "dense": 300, "input_dropout": 0.1}
# How much each kind of negative counts. The bundled head, which meets many corpora, is to hear above all what belongs
# where; of the weights that were tried, these did best on held-out dialogues of train/: random utterances lie further
# below the true responses, and paraphrases closer to them.
WEIGHTS: Mapping[str, Mapping[Kind, float]] = {
    "personachat": {
        "word_drop": 0.3, "word_order": 0.4, "word_repeat": 0.2, "rand_utt": 0.6, "model_false": 0.3, "rand_back": 0.3,
    },
    "both": {
        "word_drop": 0.15, "word_order": 0.2, "word_repeat": 0.1, "rand_utt": 1, "model_false": 0.15, "rand_back": 0.3,
    },
}  # fmt: skip
BATCHES: Mapping[str, int] = {"personachat": 64, "both": 128}


def recommended(corpora: str, negatives: Sequence[Kind]) -> dict[str, Any]:
    """What the recommended head of these dialogues is trained with, against these kinds of negatives."""
    weights = {kind: weight for kind, weight in WEIGHTS[corpora].items() if kind in negatives}
    return {"negatives": tuple(negatives), "weights": weights, **SIZES}


def dialogues(room: Room, corpora: str) -> tuple[list[Sampled], list[Sampled]]:
    """Dialogues to learn from, and to validate on."""
    parts = [room.training(name) for name in MIXES[corpora]]
    kept, held = ([dialogue for part in parts for dialogue in part[side]] for side in (0, 1))
    return kept, held


def train_head(
    room: Room,
    corpora: str,
    options: Options,
    recipe: Recipe,
    out: Path,
    mode: str = "recommended",
    trunk: Path | None = None,
) -> dict[str, Any]:
    """Train a head, write it with its card, and return the card."""
    kept, held = dialogues(room, corpora)
    if options.frozen:
        vectors, index = room.vectors([*kept, *held])
        model, fitted = train(kept, held, options, recipe, vectors=vectors, index=index)
    else:
        if trunk is None:
            raise SystemExit("error: an encoder that learns needs --trunk, a folder in the hub's layout")
        model, fitted = train(kept, held, options, recipe, encoder=Trunk.open(trunk, room.reading))
    names = [corpus for name in MIXES[corpora] for corpus in CORPORA[name]]
    card = {
        "objective": "maude",
        "form": mode,
        "data": [{"corpus": corpus, "licence": licence_of(corpus)} for corpus in names],
        "dialogues": {"learnt_from": len(kept), "validated_on": len(held)},
        "decontaminated_against": "every file of human/ and test/",
        "paraphraser": room.paraphraser,
        "generated_by": f"causal-lm of {room.pack.name}, greedy",
        "encoder": room.reading.role if options.frozen else "its own, trained with it",
        "options": options.record(),
        "training": fitted.record(),
        "held_out": fitted.found,
        "versions": {"torch": torch.__version__},
    }
    save_head(model, room.reading, card, out)
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
        chosen = recommended(args.corpora, SETS[args.negatives])
    options = Options(**chosen | args.options)
    room = Room(
        args.data, args.work, args.models, args.paraphraser,
        reading=Reading(layers=tuple(args.layers)), encoder=args.encoder, device=args.device,
    )  # fmt: skip
    recipe = Recipe(**vars(RECIPE) | {"batch": BATCHES[args.corpora], "device": args.device} | args.recipe)
    card = train_head(room, args.corpora, options, recipe, args.out, args.mode, args.trunk)
    course = {key: card["training"][key] for key in ("loss", "kept", "epochs")}
    print(json.dumps({"head": args.out.name} | course | card["held_out"]))


if __name__ == "__main__":
    main()
