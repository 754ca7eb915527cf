"""The dialogues that MAUDE's head is trained and tested on, with their wrong and reworded responses and their vectors.

Everything that takes long is kept in a working folder: sampled dialogues as JSON Lines, vectors as safetensors.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from turnwise.bots.language_model import prompt_text
from turnwise.models.export.build import build_pack
from turnwise.models.generate import Writer
from turnwise.models.maude import MaudeModel
from turnwise.models.pack import Pack, load_pack
from turnwise.models.protocols import Floats
from turnwise.models.tasks import CausalModel, EncoderModel
from turnwise.models.utterances import Reading, UtteranceEncoder
from turnwise.train.decontaminate import decontaminate, evaluation_fingerprints
from turnwise.train.dialogues import Dialogue, merge_runs, read, split
from turnwise.train.maude_data import Sampled, sample
from turnwise.train.paraphrase import BackTranslation, Paraphraser, Rewriter, Synonyms
from turnwise.train.utterances import VectorStore, encode_with

# At most so many dialogues of each file; the tables' models see nothing but PersonaChat and what is like it.
PERSONACHAT: Mapping[str, int] = {
    "dialogrpt_refs_personachat": 2000,
    "msc_valid": 2500,
    "msc_test": 2500,
    "synthetic_personachat_test": 300,
    "synthetic_personachat_valid": 300,
    "personachat_xpersona_en_valid": 300,
}
OPEN_DOMAIN: Mapping[str, int] = {
    "dailydialog_train": 8000,
    "dailydialog_valid": 1000,
    "empatheticdialogues_train": 6000,
    "topicalchat_valid_freq": 600,
    "topicalchat_valid_rare": 600,
    "topicalchat_test_rare": 600,
    "wizard_of_wikipedia_valid": 1000,
    "wizard_of_wikipedia_test": 1000,
    "wizard_of_internet_valid": 600,
    "opendialkg_valid": 1300,
    "commonsense_dialogues_valid": 1200,
    "esconv_dev": 1500,
    "mutual_train": 2500,
    "dream_train": 1500,
}
CORPORA: Mapping[str, Mapping[str, int]] = {"personachat": PERSONACHAT, "open": OPEN_DOMAIN}
# What a model of the tables is asked about while it is chosen: dialogues of train/ unlike any that it learns from.
UNLIKE: Mapping[str, int] = {"dailydialog_valid": 120, "sgd_dev": 120, "star_all": 120}
# Contexts of these are read sentence by sentence, as the paper reads Frames and MultiWOZ; of all others turn by turn.
TASK_ORIENTED = frozenset({"sgd_dev", "star_all", "frames_train", "multiwoz_test"})
# How many responses the language model writes to contexts of each, and how many turns of a dialogue are corrupted and
# reworded (None: all of them, as of a test dialogue).
REPLIES: Mapping[str, int] = {"personachat": 1000, "open": 700}
CORRUPTED_TURNS: Mapping[str, int | None] = {"personachat": None, "open": 2}
HELD_OUT = 0.1
LONGEST_PROMPT = 64
LONGEST_REPLY = 30


@dataclass
class Room:
    """Where data, models and what was computed before are."""

    data: Path
    work: Path
    models: str | None = None
    paraphraser: str = "wordnet"
    reading: Reading = field(default_factory=Reading)
    seed: int = 0
    # A folder with the pack's encoder for torch (see encoder_to_torch.py), and where it runs.
    encoder: Path | None = None
    device: str = "cpu"

    @cached_property
    def pack(self) -> Pack:
        """The pack whose encoder and language model are used."""
        return load_pack(self.models)

    @cached_property
    def store(self) -> VectorStore:
        """Vectors of utterances."""
        layers, mark = "-".join(map(str, self.reading.layers)), self.pack.manifest.fingerprint(self.reading.role)[:8]
        name = f"{self.reading.role}-{layers}-{self.reading.pooling}-{mark}"
        if self.encoder is not None:
            from turnwise.train.maude_trunk import encode_with_trunk

            return VectorStore(encode_with_trunk(self.encoder, self.reading, device=self.device), name, self.work)
        model = self.pack.model(self.reading.role)
        assert isinstance(model, EncoderModel)
        return VectorStore(encode_with(UtteranceEncoder(model.network, model.tokens, self.reading)), name, self.work)

    def own_store(self, folder: Path, reading: Reading) -> VectorStore:
        """Vectors of the encoder in a folder, which learnt together with a head; kept under a name of its own."""
        name = f"own-{hashlib.sha256((folder / 'model.safetensors').read_bytes()).hexdigest()[:8]}"
        if self.device != "cpu":
            from turnwise.train.maude_trunk import encode_with_trunk

            return VectorStore(encode_with_trunk(folder, reading, device=self.device), name, self.work)
        with TemporaryDirectory() as room:
            # As a pack, unrounded: on a CPU its networks run several times faster than torch's.
            (role,) = build_pack([folder], Path(room) / "pack", name=name, licence="none", fineness=None).roles
            model = load_pack(Path(room) / "pack").model(role)
            assert isinstance(model, MaudeModel)
        return VectorStore(encode_with(model.encoder), name, self.work)

    @cached_property
    def writer(self) -> Writer:
        """The causal language model."""
        model = self.pack.model("causal-lm")
        assert isinstance(model, CausalModel)
        return Writer(model)

    def reply(self, contexts: Sequence[Sequence[str]]) -> list[str]:
        """The likeliest response to each context, token by token."""
        return self.writer.greedy([prompt_text(context) for context in contexts], LONGEST_PROMPT, LONGEST_REPLY)

    def say_again(self) -> Paraphraser:
        """The paraphraser that was asked for."""
        makers: Mapping[str, Callable[[], Paraphraser]] = {
            "wordnet": Synonyms,
            "causal-lm": lambda: Rewriter(self.writer),
            "back-translation": BackTranslation,
        }
        return makers[self.paraphraser]()

    @cached_property
    def prints(self) -> set[str]:
        """Fingerprints of everything that is measured on."""
        return evaluation_fingerprints(sorted([*self.data.glob("human/*.jsonl"), *self.data.glob("test/*.xz")]))

    def training(self, name: str) -> tuple[list[Sampled], list[Sampled]]:
        """Dialogues to learn from and to validate on, none of which shares an utterance with what is tested."""
        files = [self.work / f"{name}-{side}-{self.paraphraser}-{self.seed}.jsonl" for side in ("train", "valid")]
        kept: list[Dialogue] = []
        held: list[Dialogue] = []
        if not all(file.is_file() for file in files):
            kept, held = self._split(CORPORA[name])
        corrupt, replies = CORRUPTED_TURNS[name], REPLIES[name]
        return (
            self._sampled(kept, files[0], replies, corrupt, restyle=0.6),
            self._sampled(held, files[1], replies // 6, corrupt, restyle=0.6),
        )

    def _split(self, counts: Mapping[str, int]) -> tuple[list[Dialogue], list[Dialogue]]:
        kept: list[Dialogue] = []
        held: list[Dialogue] = []
        for corpus, count in counts.items():
            clean, report = decontaminate(read([self.data / "train" / f"{corpus}.jsonl.xz"]), self.prints)
            whole = without_beginnings([merge_runs(dialogue) for dialogue in clean])
            some = Random(f"{self.seed}:{corpus}").sample(whole, min(count, len(whole)))
            print(f"{corpus}: {report.summary()}; {len(some)} taken", file=sys.stderr, flush=True)
            learnt, validated = split(some, HELD_OUT, self.seed)
            kept += learnt
            held += validated
        return kept, held

    def test(self, corpus: str, count: int, *, variants: bool = True) -> list[Sampled]:
        """Dialogues of a test file; without variants only for random utterances."""
        dialogues = read([self.data / "test" / f"{corpus}.jsonl.xz"])
        some = Random(f"{self.seed}:{corpus}").sample(dialogues, min(count, len(dialogues)))
        file = self.work / f"{corpus}-{len(some)}-{variants}-{self.paraphraser}-{self.seed}.jsonl"
        return self._sampled(some, file, count if variants else 0, None if variants else 0, restyle=0.0)

    def unlike(self) -> dict[str, list[Sampled]]:
        """Dialogues by corpus that models of PersonaChat alone do not learn from; only for random utterances."""
        found = {}
        for corpus, count in UNLIKE.items():
            file = self.work / f"{corpus}-{count}-unlike-{self.seed}.jsonl"
            kept = [] if file.is_file() else self._split({corpus: count})[0]
            found[corpus] = self._sampled(kept, file, 0, 0, restyle=0.6)
        return found

    def _sampled(
        self, dialogues: Sequence[Dialogue], file: Path, replies: int, corrupt: int | None, restyle: float
    ) -> list[Sampled]:
        """What was sampled before, or a new sample."""
        if not file.is_file():
            rng = Random(f"{self.seed}:{file.stem}")
            order = list(dialogues)
            rng.shuffle(order)
            found = sample(
                order, rng, corrupt=corrupt, say_again=self.say_again().say_again if corrupt != 0 else None,
                reply=self.reply if replies else None, replies=replies, restyle=restyle,
            )  # fmt: skip
            self.work.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(".partial")
            partial.write_text("".join(json.dumps(one.record()) + "\n" for one in found), encoding="utf-8")
            partial.replace(file)
            print(f"{file.name}: written", file=sys.stderr, flush=True)
        lines = file.read_text(encoding="utf-8").splitlines()
        return [Sampled.of(json.loads(line)) for line in lines]

    def vectors(self, dialogues: Iterable[Sampled]) -> tuple[Floats, dict[str, int]]:
        """The vectors of everything that is said in some dialogues."""
        return self.store.table(text for dialogue in dialogues for text in dialogue.texts())


def without_beginnings(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    """The dialogues that are not the beginning of another one, as some files hold a dialogue at each of its turns."""
    found: list[Dialogue] = []
    for dialogue in sorted(dialogues, key=lambda one: [turn.text for turn in one.turns], reverse=True):
        # In this order a dialogue stands right after those that it is the beginning of.
        if not found or found[-1].turns[: len(dialogue.turns)] != dialogue.turns:
            found.append(dialogue)
    return found
