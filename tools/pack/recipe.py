"""Train the checkpoints of the bundled pack: `python tools/pack/recipe.py STAGE... --data DIR --bases DIR --out DIR`.

`stages.json` holds the options of each stage, and `like` the stage that it changes. A stage starts from what an earlier
one left in --out (or in --bases):

    mlm         MiniLM's trunk as a masked language model on dialogues
    nup         response selection with the context and with the fact alone, from mlm
    vup         valid utterances, inference and emotion on one trunk, from mlm
    judge       SmolLM2 with a pruned vocabulary and all heads of nup and vup
    nup-taught  nup, further trained, distilled from the judge
    teacher     SmolLM2 with a pruned vocabulary, tuned on dialogues, to distil clm from
    clm         22 of its thirty layers, distilled onto a grid of seven levels
    replies     replies of clm to training dialogues, which the judge labels
    nup-grown   nup-taught with twice the layers and inference too, the judge also on these replies
    judge-again the judge, further trained, above all with response selection
    nup-again   nup-grown, further trained, distilled from that judge and from itself (first: replies with --seed 1)
    vup-taught  vup, further trained, distilled from the judge

The bundled pack holds mlm, nup-again, vup-taught (its inference head left out, as nup-again has a better one) and clm,
and the heads that `baselines.py` and `maude.py` train. `turnwise pack build` puts them together.

--bases holds `minilm` and `smollm2`, as `bases.py` writes them; --data is the folder with `train`, `nli`, `human` and
`test`. The last two are only read to remove what overlaps with them. --minutes is what all named stages may take
together; each gets its share. --options changes a stage, as in '{"clm": {"keep_layers": 16}}'.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from pathlib import Path
from typing import Any

from replies import Replier, replies, write_replies

from turnwise.train import train_model
from turnwise.train.config import Config
from turnwise.train.dialogues import Dialogue, decontaminate, evaluation_fingerprints, merge_runs, read, split
from turnwise.train.sampling import Places
from turnwise.train.tasks import ModelReply

RECIPE: dict[str, Any] = json.loads(Path(__file__).with_name("stages.json").read_text(encoding="utf-8"))
# Task-oriented dialogues teach a model that every reply is about a booking.
LEFT_OUT = tuple(RECIPE["left_out"])
# How much each corpus counts besides its size: conversation between two people above transcripts of shows and calls.
WEIGHTS: dict[str, float] = RECIPE["weights"]


def stage_of(name: str) -> dict[str, Any]:
    """Return the options of a stage."""
    stage = dict(RECIPE["stages"][name])
    options = (stage_of(stage.pop("like")) if "like" in stage else {}) | stage
    if options.get("corpus_weights") == "conversation":
        options["corpus_weights"] = WEIGHTS
    return options


def training_split(data: Path) -> tuple[list[Dialogue], list[Dialogue]]:
    """Return (kept, held out) dialogues, in the very split that training makes."""
    clean, _ = decontaminate(read(training_files(data)), evaluation_fingerprints(rated_files(data)))
    return split(clean, Config.held_out, Config.seed)


def training_files(data: Path) -> list[Path]:
    """Return the files of dialogues that the pack is trained on."""
    return [file for file in sorted(data.glob("train/*.xz")) if not file.name.startswith(LEFT_OUT)]


def rated_files(data: Path) -> list[Path]:
    """Return the files that nothing may be trained on."""
    return sorted([*data.glob("human/*.jsonl"), *data.glob("test/*.xz")])


def train_stage(name: str, minutes: float, args: argparse.Namespace) -> dict[str, Any]:
    """Train one stage and return its results on held-out dialogues."""
    stage = stage_of(name) | args.options.get(name, {})
    stage.pop("share")

    def found(name: str) -> Path:
        return next(folder / name for folder in (args.out, args.bases) if (folder / name / "config.json").is_file())

    for role in ("base", "teacher"):
        if stage.get(role):
            stage[role] = found(stage[role]) if isinstance(stage[role], str) else [found(one) for one in stage[role]]
    if stage.get("replies"):
        stage["replies"] = args.out / stage["replies"]
    files = training_files(args.data)
    if "emotion" in stage["objective"]:
        # Its threshold is chosen on these dialogues, so they are kept for that.
        files = [file for file in files if not file.name.startswith("dailydialog_valid")]
    if "nli" in stage["objective"]:
        stage["pairs"] = [args.data / "nli" / f"{pairs}.jsonl" for pairs in RECIPE["pairs"]]
    card = train_model(
        stage.pop("objective"),
        data=files,
        out=args.out / name,
        evaluation=rated_files(args.data),
        minutes=minutes,
        workers=args.workers,
        **stage,
    )
    return {"held_out": card.get("held_out"), "training": {"seconds": card["training"]["seconds"]}}


def reply(minutes: float, args: argparse.Namespace) -> dict[str, Any]:
    """Write replies of clm to dialogues that are neither held out nor evaluated on, until there are enough."""
    kept, _ = training_split(args.data)
    places = Places([merge_runs(d) for d in kept], power=Config.corpus_power, weights=WEIGHTS)
    began, written = time.monotonic(), list[ModelReply]()
    for batch in replies(Replier(args.out / "clm", args.device), places, args.seed, 768):
        written += batch
        if len(written) >= args.count or time.monotonic() - began > 60 * minutes:
            break
    write_replies(args.out / "replies.jsonl", written)
    return {"replies": len(written)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="+", choices=[*RECIPE["stages"], "replies"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--bases", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: other options by stage")
    parser.add_argument("--count", type=int, default=200_000, help="the most replies")
    parser.add_argument("--device", default="cuda", help="where replies are written: cpu or cuda")
    parser.add_argument("--seed", type=int, default=0, help="seed of the replies")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    shares = {name: 10.0 if name == "replies" else stage_of(name)["share"] for name in args.stages}
    for name, share in shares.items():
        began, minutes = time.monotonic(), args.minutes * share / sum(shares.values())
        found = reply(minutes, args) if name == "replies" else train_stage(name, minutes, args)
        print(json.dumps({"stage": name, "wall": round(time.monotonic() - began, 1)} | found), flush=True)


if __name__ == "__main__":
    main()
