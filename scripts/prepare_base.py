"""Make base models ready to train from.

python scripts/prepare_base.py half MODEL_DIR OUT_DIR --origin TEXT          store a model in half precision
python scripts/prepare_base.py prune MODEL_DIR OUT_DIR --size 16000 FILE...  keep the tokens that dialogues need
python scripts/prepare_base.py split FILE OUT_DIR --mebibytes 55             cut a file into numbered parts
python scripts/prepare_base.py join OUT_FILE PART...                         and put it together again
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path


def half(model: Path, out: Path, origin: str) -> None:
    """Copy a model with its weights in half precision, leaving out what a trunk does not need."""
    import torch
    from safetensors.torch import load_file, save_file

    from turnwise.files import write_json
    from turnwise.train.checkpoint import CARD

    out.mkdir(parents=True, exist_ok=True)
    weights = load_file(model / "model.safetensors")
    kept = {k: v.to(torch.float16) for k, v in weights.items() if v.is_floating_point() and "pooler" not in k}
    save_file(kept, out / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", "tokenizer.json"):
        shutil.copyfile(model / name, out / name)
    write_json(out / CARD, {"origin": origin, "training": "none: as its authors published it"})


def prune(model: Path, out: Path, files: list[Path], size: int) -> None:
    """Copy a causal language model with a smaller vocabulary."""
    from turnwise.train.causal import smaller_vocabulary, spellings
    from turnwise.train.dialogues import read

    smaller_vocabulary(model, out, spellings(read(files)), size)


def split(file: Path, out: Path, mebibytes: int) -> None:
    """Cut a file into parts."""
    out.mkdir(parents=True, exist_ok=True)
    with file.open("rb") as whole:
        for number, part in enumerate(iter(lambda: whole.read(mebibytes << 20), b"")):
            (out / f"{file.name}.{number:02d}").write_bytes(part)


def join(out: Path, parts: list[Path]) -> None:
    """Put parts together in the order of their names."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as whole:
        for part in sorted(parts, key=lambda path: path.name):
            whole.write(part.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("half", "prune", "split", "join"):
        command = commands.add_parser(name)
        command.add_argument("source", type=Path)
        if name == "join":
            command.add_argument("parts", type=Path, nargs="+")
        else:
            command.add_argument("out", type=Path)
    commands.choices["half"].add_argument("--origin", required=True, help="its name and licence, for the card")
    commands.choices["prune"].add_argument("files", type=Path, nargs="+")
    commands.choices["prune"].add_argument("--size", type=int, default=16_000)
    commands.choices["split"].add_argument("--mebibytes", type=int, default=55)
    given = parser.parse_args()
    if given.command == "half":
        half(given.source, given.out, given.origin)
    elif given.command == "prune":
        prune(given.source, given.out, given.files, given.size)
    elif given.command == "split":
        split(given.source, given.out, given.mebibytes)
    else:
        join(given.source, given.parts)


if __name__ == "__main__":
    main()
