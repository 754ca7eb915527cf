"""Train MAUDE's head for a pack: `python scripts/train_maude.py --data DIR --work DIR --out DIR`.

Vectors of utterances come from the pack's own encoder and are kept in --work, so that only the first run is slow.
--negatives all, semantics or syntax; --corpora personachat (what the tables want), open, or both; --mode the paper's or
the released form; --options a JSON object with any other option of `turnwise.train.maude.Options`. --out receives
`maude.safetensors` and `card.json`, a checkpoint that `turnwise pack build` takes.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from maude_corpora import OPEN_DOMAIN, PERSONACHAT, Room

from turnwise.models.export.maude import save_head
from turnwise.train.heads import Recipe
from turnwise.train.licences import licence_of
from turnwise.train.maude import MODES, SETS, Options, train
from turnwise.train.maude_data import Sampled
from turnwise.train.maude_trunk import Trunk

CORPORA: Mapping[str, Sequence[str]] = {"personachat": ["personachat"], "both": ["personachat", "open"]}
COUNTS = {"personachat": PERSONACHAT, "open": OPEN_DOMAIN}
# How many responses the language model writes for each set of dialogues.
REPLIES = {"personachat": 400, "open": 120}
RECIPE = Recipe(batch=32, epochs=40, patience=5, learning_rate=5e-4, weight_decay=0.01, clip=0.5)


def dialogues(room: Room, corpora: str) -> tuple[list[Sampled], list[Sampled]]:
    """Dialogues to learn from, and to validate on."""
    parts = [room.training(COUNTS[name], name, REPLIES[name]) for name in CORPORA[corpora]]
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
    names = [corpus for name in CORPORA[corpora] for corpus in COUNTS[name]]
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
    parser.add_argument("--trunk", type=Path, help="folder of the encoder to train with the head, if frozen=false")
    parser.add_argument("--corpora", choices=CORPORA, default="both")
    parser.add_argument("--negatives", choices=SETS, default="all")
    parser.add_argument("--mode", choices=MODES, default="recommended")
    parser.add_argument("--paraphraser", choices=("wordnet", "causal-lm", "back-translation"), default="wordnet")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: other options of the head")
    parser.add_argument("--recipe", type=json.loads, default={}, help="JSON: other options of the training")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    options = Options(**{"negatives": SETS[args.negatives]} | dict(MODES[args.mode]) | args.options)
    room = Room(args.data, args.work, args.models, args.paraphraser)
    recipe = Recipe(**vars(RECIPE) | args.recipe)
    card = train_head(room, args.corpora, options, recipe, args.out, args.mode, args.trunk)
    print(json.dumps({"loss": card["training"]["loss"], "kept": card["training"]["kept"]}))


if __name__ == "__main__":
    main()
