"""The dialogues that MAUDE's head is trained and tested on, with their wrong and reworded responses and their vectors.

Everything that takes long is kept in a working folder: sampled dialogues as JSON Lines, vectors as safetensors.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random

from turnwise.bots.language_model import prompt_text
from turnwise.models.generate import Writer
from turnwise.models.pack import Pack, load_pack
from turnwise.models.protocols import Floats
from turnwise.models.tasks import CausalModel, EncoderModel
from turnwise.models.utterances import Reading, UtteranceEncoder
from turnwise.train.decontaminate import decontaminate, evaluation_fingerprints
from turnwise.train.dialogues import Dialogue, merge_runs, read, split
from turnwise.train.maude_data import Sampled, sample
from turnwise.train.paraphrase import BackTranslation, Paraphraser, Rewriter, Synonyms
from turnwise.train.utterances import VectorStore, encode_with

# How many dialogues of each file; the tables' models see nothing but PersonaChat and what is like it.
PERSONACHAT: Mapping[str, int] = {
    "dialogrpt_refs_personachat": 1900,
    "msc_valid": 130,
    "msc_test": 130,
    "synthetic_personachat_test": 85,
    "synthetic_personachat_valid": 85,
    "personachat_xpersona_en_valid": 160,
}
OPEN_DOMAIN: Mapping[str, int] = {
    "dailydialog_train": 800,
    "empatheticdialogues_train": 700,
    "topicalchat_valid_freq": 70,
    "topicalchat_valid_rare": 60,
    "wizard_of_wikipedia_valid": 150,
}
# Every turn of a test dialogue is measured; of a training dialogue so many are corrupted and reworded.
CORRUPTED_TURNS = 2
HELD_OUT = 0.1
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

    @cached_property
    def pack(self) -> Pack:
        """The pack whose encoder and language model are used."""
        return load_pack(self.models)

    @cached_property
    def store(self) -> VectorStore:
        """Vectors of utterances."""
        model = self.pack.model(self.reading.role)
        assert isinstance(model, EncoderModel)
        layers = "-".join(map(str, self.reading.layers))
        name = f"{self.reading.role}-{layers}-{self.reading.pooling}-{model.fingerprint[:8]}"
        return VectorStore(encode_with(UtteranceEncoder(model.network, model.tokens, self.reading)), name, self.work)

    @cached_property
    def writer(self) -> Writer:
        """The causal language model."""
        model = self.pack.model("causal-lm")
        assert isinstance(model, CausalModel)
        return Writer(model)

    def reply(self, context: Sequence[str]) -> str:
        """The likeliest response, token by token."""
        return self.writer.sample(prompt_text(context), most=LONGEST_REPLY).text

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

    def training(self, counts: Mapping[str, int], name: str, replies: int) -> tuple[list[Sampled], list[Sampled]]:
        """Dialogues to learn from and to validate on, none of which shares an utterance with what is tested."""
        kept: list[Dialogue] = []
        held: list[Dialogue] = []
        for corpus, count in counts.items():
            file = self.data / "train" / f"{corpus}.jsonl.xz"
            clean, report = decontaminate(read([file]), self.prints)
            some = Random(f"{self.seed}:{corpus}").sample(clean, min(count, len(clean)))
            print(f"{corpus}: {report.summary()}; {len(some)} taken", file=sys.stderr, flush=True)
            learnt, validated = split([merge_runs(dialogue) for dialogue in some], HELD_OUT, self.seed)
            kept += learnt
            held += validated
        return (
            self._sampled(kept, f"{name}-train", replies, CORRUPTED_TURNS, restyle=0.6),
            self._sampled(held, f"{name}-valid", replies // 6, CORRUPTED_TURNS, restyle=0.6),
        )

    def test(self, corpus: str, count: int, *, variants: bool = True) -> list[Sampled]:
        """Dialogues of a test file; without variants only for random utterances."""
        dialogues = read([self.data / "test" / f"{corpus}.jsonl.xz"])
        some = Random(f"{self.seed}:{corpus}").sample(dialogues, min(count, len(dialogues)))
        return self._sampled(some, corpus, count if variants else 0, None if variants else 0, restyle=0.0)

    def _sampled(
        self, dialogues: Sequence[Dialogue], name: str, replies: int, corrupt: int | None, restyle: float
    ) -> list[Sampled]:
        file = self.work / f"{name}-{len(dialogues)}-{replies}-{self.paraphraser}-{self.seed}.jsonl"
        if not file.is_file():
            rng = Random(f"{self.seed}:{name}")
            order = list(dialogues)
            rng.shuffle(order)
            found = sample(
                order, rng, corrupt=corrupt, say_again=self.say_again().say_again if corrupt != 0 else None,
                reply=self.reply, replies=replies, restyle=restyle,
            )  # fmt: skip
            partial = file.with_suffix(".partial")
            partial.write_text("".join(json.dumps(one.record()) + "\n" for one in found), encoding="utf-8")
            partial.replace(file)
            print(f"{file.name}: written", file=sys.stderr, flush=True)
        lines = file.read_text(encoding="utf-8").splitlines()
        return [Sampled.of(json.loads(line)) for line in lines]

    def vectors(self, dialogues: Iterable[Sampled]) -> tuple[Floats, dict[str, int]]:
        """The vectors of everything that is said in some dialogues."""
        return self.store.table(text for dialogue in dialogues for text in dialogue.texts())
