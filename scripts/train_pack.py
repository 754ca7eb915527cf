"""Train every checkpoint of the bundled pack: `python scripts/train_pack.py STAGE... --data DIR --bases DIR --out DIR`.

Stages, each of which starts from what an earlier one left in --out (or in --bases):

    mlm         MiniLM's trunk as a masked language model on dialogues
    nup         response selection with the context and with the fact alone, from mlm
    vup         valid utterances, inference and emotion on one trunk, from mlm
    judge       SmolLM2 with a pruned vocabulary and all heads of nup and vup
    nup-taught  nup, gone on with, the judge's answers before its eyes
    nup-grown   nup-taught with twice the layers and inference too; the judge is also asked about a model's replies
                (first: scripts/write_replies.py OUT/clm --data DIR --out OUT/replies.jsonl)
    judge-again the judge, gone on with, above all with response selection
    nup-again   nup-grown, gone on with, taught by that judge and by itself as it was (first: new replies, --seed 1)
    vup-taught  vup, likewise taught
    teacher     SmolLM2 with a pruned vocabulary, tuned on dialogues, to distil clm from
    clm         22 of its thirty layers, distilled onto a grid of seven levels

The bundled pack holds mlm, nup-again, vup-taught (its inference head left out, as nup-again has a better one) and clm.

--bases holds `minilm` and `smollm2`, as scripts/prepare_base.py writes them; --data is the folder with `train`,
`nli`, `human` and `test`. The last two are only read to remove what overlaps with them. --minutes is what all named
stages may take together; each gets its share. --options changes a stage, as in '{"clm": {"keep_layers": 16}}'.
--parts splits the trained weights, less the word table that all trunks share, into files of that many MB, for carrying
them between machines; `join` puts them together again.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnwise.train.dialogues import Dialogue

# Task-oriented dialogues teach a model that every reply is about a booking.
LEFT_OUT = ("multiwoz", "sgd", "star", "taskmaster4")
# How much each corpus counts besides its size: conversation between two people above transcripts of shows and calls.
WEIGHTS = {
    **{"swda": 0.4, "friends": 0.6, "dialogre": 0.6, "emorynlp": 0.6, "meld": 0.6, "twitter": 0.6},
    **{"dialogrpt_refs_reddit": 0.7, "dialogrpt_refs_twitter": 0.7, "dialogrpt_refs_personachat": 2},
    **{"personachat": 1.5, "msc": 1.5, "topicalchat": 2, "wizard_of_wikipedia": 1.3},
    **{"dailydialog": 2, "empatheticdialogues": 1.5},
}
PAIRS = ("sick_train", "sick_trial", "sick_test", "anli_r1_dev", "anli_r2_dev", "anli_r3_dev")
PAIRS += ("breaking_nli", "rte_train", "rte_dev")
CAUSAL = {
    "corpus_power": 1.0,
    "corpus_weights": {"dailydialog": 4},
    "restyle": 0.15,
    "exchanges": 0.6,
    "packed": 128,
    "batch": 128,
    "compile": True,
}
STAGES: dict[str, dict[str, Any]] = {
    "mlm": {"objective": "mlm", "base": "minilm", "share": 2.5, "validate": 4096, "corpus_weights": WEIGHTS},
    "nup": {
        "objective": "nup+dr-f",
        "base": "mlm",
        "share": 7.0,
        "shares": {"nup": 0.85, "dr-f": 0.15},
        "validate": 2000,
        "corpus_weights": WEIGHTS,
    },
    "vup": {
        "objective": "vup+nli+emotion",
        "base": "mlm",
        "share": 4.0,
        "shares": {"vup": 0.3, "nli": 0.35, "emotion": 0.35},
        "emotions_from": "dailydialog",
        "validate": 3000,
        "chunks": 1,
        "corpus_weights": WEIGHTS,
    },
    "judge": {
        "objective": "nup+dr-f+vup+nli+emotion",
        "base": "smollm2",
        "share": 9.0,
        "shares": {"nup": 0.44, "dr-f": 0.07, "vup": 0.1, "nli": 0.23, "emotion": 0.16},
        "emotions_from": "dailydialog",
        "batch": 256,
        "compile": True,
        "validate": 1500,
        "corpus_weights": WEIGHTS,
    },
    "teacher": {"objective": "clm", "base": "smollm2", "share": 2.6, "learning_rate": 2e-4, **CAUSAL},
    "clm": {
        "objective": "clm",
        "base": "teacher",
        "teacher": "teacher",
        "teacher_share": 0.5,
        "share": 9.0,
        "keep_layers": 22,
        "levels": 7,
        "learning_rate": 6e-4,
        **CAUSAL,
    },
}
# The bundled ones ran side by side on one GPU, for so many minutes each.
TAUGHT = {"teacher": "judge", "learning_rate": 8e-5, "compile": True, "share": 13.3}
STAGES["nup-taught"] = STAGES["nup"] | TAUGHT | {"base": "nup", "taught": 1500, "teacher_share": 0.6}
STAGES["vup-taught"] = STAGES["vup"] | TAUGHT | {"base": "vup", "taught": 1200, "teacher_share": 0.7}
STAGES["nup-grown"] = STAGES["nup-taught"] | {
    "objective": "nup+dr-f+nli",
    "base": "nup-taught",
    "share": 20.5,
    "shares": {"nup": 0.66, "dr-f": 0.1, "nli": 0.24},
    "grow_layers": 12,
    "learning_rate": 1.2e-4,
    "taught": 3500,
    "teacher_share": 0.75,
    "replies": "replies.jsonl",
}
# A second round: the judge for so many minutes, then its pupil (beside a causal model, which took half of the GPU).
STAGES["judge-again"] = STAGES["judge"] | {
    "objective": "nup+dr-f+nli",
    "base": "judge",
    "share": 9.0,
    "shares": {"nup": 0.78, "dr-f": 0.06, "nli": 0.16},
    "learning_rate": 8e-5,
    "first_batch": 100_000,
}
STAGES["nup-again"] = STAGES["nup-grown"] | {
    "base": "nup-grown",
    "share": 13.5,
    "grow_layers": None,
    "teacher": ["judge-again", "nup-grown"],
    "first_batch": 100_000,
}
WORD_TABLE = "word_embeddings"


def training_split(data: Path) -> tuple[list[Dialogue], list[Dialogue]]:
    """(kept, held out) of the dialogues that the pack is trained on, in the very split that training makes."""
    from turnwise.train.config import Config
    from turnwise.train.decontaminate import decontaminate, evaluation_fingerprints
    from turnwise.train.dialogues import read, split

    clean, _ = decontaminate(read(training_files(data)), evaluation_fingerprints(rated_files(data)))
    return split(clean, Config.held_out, Config.seed)


def training_files(data: Path) -> list[Path]:
    """The files of dialogues that the pack is trained on."""
    return [file for file in sorted(data.glob("train/*.xz")) if not file.name.startswith(LEFT_OUT)]


def rated_files(data: Path) -> list[Path]:
    """The files that nothing may be trained on."""
    return sorted([*data.glob("human/*.jsonl"), *data.glob("test/*.xz")])


def train_stage(name: str, minutes: float, args: argparse.Namespace) -> dict[str, Any]:
    """Train one stage and return what it scored on held-out dialogues."""
    from turnwise.train import run

    stage = STAGES[name] | args.options.get(name, {})
    stage.pop("share")
    folders = [args.out, args.bases]

    def found(name: str) -> Path:
        return next(folder / name for folder in folders if (folder / name / "config.json").is_file())

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
        stage["pairs"] = [args.data / "nli" / f"{pairs}.jsonl" for pairs in PAIRS]
    card = run(
        stage.pop("objective"),
        data=files,
        out=args.out / name,
        evaluation=rated_files(args.data),
        minutes=minutes,
        workers=args.workers,
        **stage,
    )
    return {"held_out": card.get("held_out"), "training": {"seconds": card["training"]["seconds"]}}


def split(folder: Path, out: Path, megabytes: int) -> None:
    """Write a checkpoint's weights into small files, without the word table where it is the base's own."""
    from safetensors.numpy import load_file, save

    weights = load_file(folder / "model.safetensors")
    frozen = "LlamaForCausalLM" not in (folder / "config.json").read_text()
    content = save({k: v for k, v in weights.items() if not (frozen and WORD_TABLE in k)})
    size = megabytes * 1024**2
    for part, start in enumerate(range(0, len(content), size)):
        (out / f"{folder.name}.part{part:02d}").write_bytes(content[start : start + size])
    with zipfile.ZipFile(out / f"{folder.name}.zip", "w", zipfile.ZIP_DEFLATED) as rest:
        for file in folder.iterdir():
            if file.is_file() and file.name != "model.safetensors":
                rest.write(file, file.name)


def join(parts: Path, base: Path, out: Path) -> None:
    """Put a split checkpoint together again, with the word table of its base."""
    from safetensors.numpy import load, load_file, save_file

    table = next(v for k, v in load_file(base / "model.safetensors").items() if WORD_TABLE in k)
    for first in sorted(parts.glob("*.part00")):
        name = first.name.removesuffix(".part00")
        weights = load(b"".join(part.read_bytes() for part in sorted(parts.glob(f"{name}.part*"))))
        folder = out / name
        folder.mkdir(parents=True)
        with zipfile.ZipFile(parts / f"{name}.zip") as rest:
            rest.extractall(folder)
        config = (folder / "config.json").read_text()
        if "LlamaForCausalLM" not in config:
            prefix = "bert." if "BertForMaskedLM" in config else ""
            weights[f"{prefix}embeddings.{WORD_TABLE}.weight"] = table
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        print(f"{folder}: {len(weights)} tensors")


def main() -> None:
    """Train the named stages one after the other, or join what was split."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stages", nargs="+", choices=[*STAGES, "join"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--bases", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: other options by stage")
    parser.add_argument("--parts", type=int, help="split the weights into files of this many MB")
    parser.add_argument("--parts-in", type=Path, help="where to write the parts, or where to find them")
    args = parser.parse_args()
    if args.stages == ["join"]:
        join(args.parts_in, args.bases / "minilm", args.out)
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    total = sum(STAGES[name]["share"] for name in args.stages)
    for name in args.stages:
        began = time.monotonic()
        found = train_stage(name, args.minutes * STAGES[name]["share"] / total, args)
        print(json.dumps({"stage": name, "wall": round(time.monotonic() - began, 1)} | found), flush=True)
        if args.parts:
            # At once, so that a run that is cut short has lost nothing that was finished.
            args.parts_in.mkdir(parents=True, exist_ok=True)
            split(args.out / name, args.parts_in, args.parts)


if __name__ == "__main__":
    main()
