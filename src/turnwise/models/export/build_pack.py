"""Checkpoints to a pack: one file per role or shared trunk, one word table for all trunks, and the manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError
from turnwise.files import atomic, sealed, write_text
from turnwise.interrupts import checked, deferred
from turnwise.models.export.networks import LONGEST, Bert, Llama, WordTable, trunk_weights
from turnwise.models.export.storage import Floats, quantise
from turnwise.models.export.weights import (
    OWN,
    RECURRENT_FINENESS,
    check_foundations,
    copy_heads,
    count,
    encoder_of,
    head_roles,
    is_head,
    pack_head,
    read_json,
    role_of,
    write_unigrams,
    write_vectors,
)
from turnwise.models.pack import CALIBRATION, FORMAT, MANIFEST, Pack, check_name
from turnwise.models.requests import Embed, Window
from turnwise.models.text import Tokens

# Steps in a standard deviation, by role; "words" is the shared table. Finer is larger.
# A causal language model's layers go onto a grid of blocks; its number is for its words.
FINENESS: Mapping[str, float] = {"words": 16, "causal-lm": 16, "nup": 16}
DEFAULT_FINENESS = 8
TABLES = ("unigrams", "vectors")


def roles_in(folder: Path) -> tuple[str, ...]:
    """Return the roles that a checkpoint can fill, by its heads or its architecture."""
    if is_head(folder):
        return (role_of(folder),)
    if small := head_roles(folder):
        return small
    if (folder / "heads.json").is_file():
        if read_json(folder / "config.json").get("model_type") == "llama":
            raise TurnwiseError(f"{folder}: a pack takes BERT classifiers; let one learn from this (option teacher)")
        return tuple(read_json(folder / "heads.json")["heads"])
    config = read_json(folder / "config.json")
    architecture = (config.get("architectures") or ["?"])[0]
    roles = {"BertModel": "encoder", "BertForMaskedLM": "masked-lm", "LlamaForCausalLM": "causal-lm"}
    if architecture not in roles:
        raise TurnwiseError(f"{folder}: a {architecture} cannot go into a pack; it takes {', '.join(roles)}")
    return (roles[architecture],)


class PackBuilder:
    """Adds roles to a folder one by one; `finish` writes the manifest, and only then is it a pack."""

    def __init__(self, out: Path, *, fineness: Mapping[str, float] | None = FINENESS) -> None:
        self.out, self._fineness = out, fineness
        if (out / MANIFEST).exists():
            raise TurnwiseError(f"{out}: a pack exists already. Fix: give another folder or remove it")
        out.mkdir(parents=True, exist_ok=True)
        self.roles: dict[str, dict[str, Any]] = {}
        self._words: WordTable | None = None

    def add(self, folder: Path, wanted: Sequence[str] | None = None) -> None:
        """Add those of a checkpoint's roles that are wanted, or that no checkpoint before it has filled."""
        offered = roles_in(folder)
        roles = [role for role in offered if (role not in self.roles if wanted is None else role in wanted)]
        if not roles and not wanted:
            raise TurnwiseError(f"{folder}: earlier checkpoints fill {', '.join(offered)} already; leave it out")
        missing = [role for role in wanted or () if role not in offered]
        if missing:
            raise TurnwiseError(f"{folder}: cannot be '{missing[0]}'; it offers: {', '.join(offered)}")
        if is_head(folder):
            self._add_recurrent(folder, roles[0])
            return
        if head_roles(folder):
            self.roles |= copy_heads(folder, roles, self.out)
            return
        fineness = None if self._fineness is None else max(self._fineness.get(r, DEFAULT_FINENESS) for r in roles)
        card = read_json(folder / "card.json") if (folder / "card.json").is_file() else {}
        config, weights = _read_checkpoint(folder)
        entry = self._entry(folder, "+".join(roles), config) | {"card": card}
        if roles == ["causal-lm"]:
            graph = Llama(weights, config, fineness).graph
            longest = min(LONGEST, entry["max_length"])
            begin = config.get("bos_token_id")
            self.roles["causal-lm"] = entry | {"kind": "causal-lm", "max_length": longest, "begin": begin}
        else:
            bert, words = self._bert(weights, config, fineness)
            graph, entry = bert.graph, entry | words
            if roles == ["encoder"]:
                bert.add_layers()
                self.roles["encoder"] = entry | {"kind": "encoder", "pooling": "mean"}
            elif roles == ["masked-lm"]:
                bert.add_masked_lm()
                self.roles["masked-lm"] = entry | {"kind": "masked-lm"}
            else:
                self._add_heads(bert, folder, roles, entry)
        graph.save(self.out / entry["file"])

    def _entry(self, folder: Path, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        longest = int(config.get("max_position_embeddings", 512))
        return {"file": f"{name}.onnx", "tokenizer": self._tokenizer(folder), "max_length": longest}

    def _bert(
        self, weights: Mapping[str, Any], config: Mapping[str, Any], fineness: float | None
    ) -> tuple[Bert, dict[str, Any]]:
        """Return a graph of a trunk, and the part of a role's entry that names its shared word table."""
        table = self._word_table(weights) if fineness is not None else None
        words = {"words": table.file, "words_shape": list(table.numbers.shape)} if table is not None else {}
        return Bert(weights, config, fineness, table), words

    def _add_heads(self, graph: Bert, folder: Path, roles: Sequence[str], entry: Mapping[str, Any]) -> None:
        layout, heads = read_json(folder / "heads.json"), _weights(folder / "heads.safetensors")
        window = Window(first=int(layout["first_tokens"]), second=int(layout["second_tokens"]))
        for role in roles:
            graph.add_head(role, heads, layout["pooling"], layout["activation"])
            self.roles[role] = dict(entry) | {
                "kind": "classifier",
                "head": role,
                "labels": list(layout["heads"][role]["labels"]),
                "pooling": layout["pooling"],
                "window": asdict(window),
            }
        if "nup" in roles:
            # Its states of responses in context also serve comparisons of whole systems.
            graph.add_layers()
            trunk = {"kind": "encoder", "pooling": layout["pooling"], "window": asdict(window)}
            self.roles["nup-trunk"] = dict(entry) | trunk

    def _add_recurrent(self, folder: Path, role: str) -> None:
        """Add a head over the states of an encoder that is in the pack already, or over its own trunk."""
        reading = encoder_of(folder)
        if reading != OWN and reading not in self.roles:
            raise TurnwiseError(f"{folder}: its head reads '{reading}', which the pack does not have; add it first")
        # Fine-tuning changes a trunk by about one rounding step, so it is rounded as finely as its head.
        fineness = None if self._fineness is None else self._fineness.get(role, RECURRENT_FINENESS)
        kept = ("file", "tokenizer", "max_length", "words", "words_shape")
        entry = self._trunk(folder, role, fineness) if reading == OWN else self.roles[reading]
        encoder = {key: value for key, value in entry.items() if key in kept}
        self.roles[role] = encoder | pack_head(folder, role, self.out, fineness)

    def _trunk(self, folder: Path, role: str, fineness: float | None) -> dict[str, Any]:
        """Write the layers of a trunk that only one head uses, and return its part of the role's entry."""
        config, weights = _read_checkpoint(folder)
        entry = self._entry(folder, role, config)
        bert, words = self._bert(weights, config, fineness)
        bert.add_layers()
        bert.graph.save(self.out / entry["file"])
        return entry | words

    def _word_table(self, weights: Mapping[str, Any]) -> WordTable | None:
        """Return the shared table if this trunk has the same words as the first one, else None."""
        words = trunk_weights(weights)["embeddings.word_embeddings.weight"]
        if self._words is None:
            self._words = self._kept_words()
        if self._words is None:
            fineness = (self._fineness or {}).get("words", DEFAULT_FINENESS)
            table = WordTable("words.bin", *quantise(words, fineness))
            (self.out / table.file).write_bytes(table.numbers.tobytes() + table.scales.astype("<f4").tobytes())
            self._words = table
        table = self._words
        # Checkpoints keep halves, so the same table may differ in the eleventh bit; one that is kept is rounded.
        same = table.numbers.shape == words.shape and np.abs(words / table.scales[:, None] - table.numbers).max() < 0.6
        return table if same else None

    def _kept_words(self) -> WordTable | None:
        """Return the word table of the roles kept from another pack; None if they have none."""
        for entry in self.roles.values():
            if entry.get("words"):
                (rows, width), content = entry["words_shape"], (self.out / entry["words"]).read_bytes()
                numbers = np.frombuffer(content, np.int8, rows * width).reshape(rows, width)
                scales = np.frombuffer(content, "<f4", offset=rows * width)
                return WordTable(entry["words"], numbers, scales)
        return None

    def _tokenizer(self, folder: Path) -> str:
        content = (folder / "tokenizer.json").read_bytes()
        for number in range(1, 100):
            name = "tokenizer.json" if number == 1 else f"tokenizer-{number}.json"
            path = self.out / name
            if not path.exists():
                path.write_bytes(content)
            if path.read_bytes() == content:
                return name
        raise TurnwiseError(f"{folder}: too many different tokenizers in one pack")

    def add_tables(self, texts: Iterable[str], card: Mapping[str, Any]) -> None:
        """Add unigrams and, if the pack has an encoder, static vectors, from the texts of dialogues."""
        reader = self.roles.get("masked-lm") or self.roles.get("encoder")
        if reader is None:
            raise TurnwiseError("word tables need a masked language model or an encoder in the pack; add one first")
        words, pieces = count(texts, Tokens.from_bytes((self.out / reader["tokenizer"]).read_bytes(), None))
        write_unigrams(self.out / "unigrams.safetensors", words, pieces)
        self.roles["unigrams"] = {"kind": "table", "file": "unigrams.safetensors", "card": dict(card)}
        if "encoder" in self.roles:
            embed = self._embedder()
            write_vectors(self.out / "vectors.safetensors", words, embed)
            self.roles["vectors"] = {"kind": "table", "file": "vectors.safetensors", "card": dict(card)}

    def _embedder(self) -> Callable[[Sequence[Embed]], list[Floats]]:
        """Return a function that embeds with the encoder just written, read back from its file."""
        from turnwise.models.onnx.networks import OnnxEncoder
        from turnwise.models.onnx.session import open_session
        from turnwise.models.text import EncoderModel

        entry = self.roles["encoder"]
        table = self._words if entry.get("words") else None
        shared: dict[str, npt.NDArray[Any]] | None = (
            {"words": table.numbers, "word_scales": table.scales[:, None]} if table else None
        )
        session = open_session((self.out / entry["file"]).read_bytes(), entry["file"], shared)
        tokens = Tokens.from_bytes((self.out / entry["tokenizer"]).read_bytes(), entry["max_length"])
        model = EncoderModel(OnnxEncoder(session), tokens, "")

        def embed(requests: Sequence[Embed]) -> list[Floats]:
            answers: list[Floats] = []
            for start in range(0, len(requests), 256):
                part = requests[start : start + 256]
                rows = [model.rows(request)[0] for request in part]
                results = model.run(rows)
                found = (model.answer(q, [r], [a]) for q, r, a in zip(part, rows, results, strict=True))
                answers += [vector for vector in found if isinstance(vector, np.ndarray)]
            return answers

        return embed

    def finish(self, name: str, version: str, licence: str, languages: Sequence[str]) -> Pack:
        """Hash every file and write the manifest."""
        check_foundations(self.out, self.roles)
        files = {}
        for path in sorted(self.out.iterdir()):
            check_name(path.name)
            content = path.read_bytes()
            files[path.name] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        manifest = {
            "format": FORMAT,
            "name": name,
            "version": version,
            "licence": licence,
            "languages": list(languages),
            "files": files,
            "roles": self.roles,
        }
        write_text(self.out / MANIFEST, sealed(manifest, indent=1))
        return Pack(self.out)


def build_pack(
    checkpoints: Sequence[Path] | Mapping[str, Path],
    out: Path,
    *,
    name: str,
    licence: str,
    version: str = "1",
    languages: Sequence[str] = ("en",),
    texts: Iterable[str] = (),
    texts_card: Mapping[str, Any] | None = None,
    fineness: Mapping[str, float] | None = FINENESS,
    keep: Path | None = None,
) -> Pack:
    """Build a pack from trained checkpoints.

    Args:
        checkpoints: Folders of checkpoints, or a folder by role. If two folders offer a role, the first has it.
        out: The folder of the pack, which must not exist.
        name: The pack's name.
        licence: The licence of its models.
        version: The pack's version.
        languages: The languages that it can judge.
        texts: Training texts, to count words in.
        texts_card: What the card says of these texts.
        fineness: How finely weights are stored, by kind of model; `None` keeps full precision.
        keep: The folder of a pack that fills the roles without a checkpoint.

    Returns:
        The pack, opened.

    >>> from pathlib import Path
    >>> import turnwise as tw
    >>> tw.build_pack([], Path("."), name="mine", licence="CC0-1.0")
    Traceback (most recent call last):
    ...
    turnwise.errors.TurnwiseError: .: exists already. Fix: give another folder or remove it
    """
    if out.exists():
        raise TurnwiseError(f"{out}: exists already. Fix: give another folder or remove it")
    wanted: dict[Path, list[str] | None] = {}
    if isinstance(checkpoints, Mapping):
        for role, folder in checkpoints.items():
            wanted[Path(folder)] = [*(wanted.get(Path(folder)) or ()), role]
    else:
        wanted = {Path(folder): None for folder in checkpoints}
    heads = [folder for folder in wanted if is_head(folder)]
    with deferred(), atomic(out) as partial:
        builder = PackBuilder(partial, fineness=fineness)
        for folder in checked(folder for folder in wanted if folder not in heads):
            builder.add(folder, wanted[folder])
        if keep is not None:
            builder.roles |= keep_roles(keep, partial, builder.roles)
        # A head over an encoder can only be added to a pack that has the encoder.
        for folder in checked(heads):
            builder.add(folder, wanted[folder])
        if listed := list(texts):
            builder.add_tables(listed, texts_card or {})
        builder.finish(name, version, licence, languages)
    return Pack(out)


def _read_checkpoint(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return read_json(folder / "config.json"), _weights(folder / "model.safetensors")


def _weights(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as problem:
        raise TurnwiseError(f"{path}: cannot be read as safetensors ({problem})") from None


# The keys of a role's entry that name files.
FILES = ("file", "tokenizer", "words", "weights")


def keep_roles(pack: Path, out: Path, filled: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Copy the calibration of a pack and the files of its roles that are not filled; return the roles' entries."""
    opened = Pack(pack)
    roles: dict[str, dict[str, Any]] = json.loads((pack / MANIFEST).read_text(encoding="utf-8"))["roles"]
    kept = {name: dict(entry) for name, entry in roles.items() if name not in filled}
    for entry in kept.values():
        for key in FILES:
            if entry.get(key):
                content = opened.read(entry[key])
                entry[key] = _written(content, entry[key], out, renamed=key == "tokenizer")
    if CALIBRATION in opened.manifest.files:
        (out / CALIBRATION).write_bytes(opened.read(CALIBRATION))
    return kept


def _written(content: bytes, file: str, out: Path, renamed: bool) -> str:
    """Write a file into `out` unless it is there already, and return its name."""
    target, number = out / file, 1
    while target.exists() and target.read_bytes() != content:
        if not renamed:
            raise TurnwiseError(f"{file} of the pack to keep differs from the new one; build all roles that share it")
        number += 1
        target = out / f"{Path(file).stem.split('-')[0]}-{number}{Path(file).suffix}"
    target.write_bytes(content)
    return target.name
