"""Train MAUDE's head for a pack: `python tools/pack/maude.py --data DIR --work DIR --out DIR`.

As it stands, this is how the bundled head was made (add `--encoder DIR --device cuda` on a GPU, minutes instead of
hours), and with `--corpora personachat --negatives all|semantics|syntax` how the three heads of the tables were. Build
a pack with such a head (`turnwise pack build HEAD --keep turnwise-mini`) and `turnwise reproduce maude --models PACK`
measures it.

Vectors of utterances come from the pack's own encoder and are kept in --work, so that only the first run is slow.
--negatives all, semantics or syntax; --corpora personachat (what the tables want) or both, with the open-domain files;
--mode the paper's or the released form; --options a JSON object with any other option of
`turnwise.train.maude.MaudeOptions`; --trunk a folder of the encoder, if it is to learn with the head. --out receives
`maude.safetensors` and `card.json`, a checkpoint that `turnwise pack build` takes. The recipe's minutes, if there are
any, are those of the whole command up to the last step.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch
from paraphrase import BackTranslation, Paraphraser, Rewriter, Synonyms
from vectors import VectorStore, encode_with

from turnwise.bots.local import prompt_text
from turnwise.files import write_text
from turnwise.models.export.build_pack import build_pack
from turnwise.models.export.weights import OWN
from turnwise.models.generate import Writer
from turnwise.models.heads import unpack_weights
from turnwise.models.maude import MaudeModel, TrunkReading, UtteranceEncoder, header
from turnwise.models.pack import Pack, load_pack
from turnwise.models.text import CausalModel, EncoderModel
from turnwise.train.dialogues import (
    Dialogue,
    decontaminate,
    evaluation_fingerprints,
    licence_of,
    merge_runs,
    read,
    split,
)
from turnwise.train.loop import Recipe
from turnwise.train.maude import MODES, SETS, MaudeOptions, save_head, train_maude
from turnwise.train.maude_data import Kind, Sampled, sample
from turnwise.train.utterances import Trunk

logger = logging.getLogger(__name__)
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
# How many responses the language model writes to contexts of each, and how many turns of a dialogue are corrupted and
# reworded (None: all of them, as of a test dialogue).
REPLIES: Mapping[str, int] = {"personachat": 1000, "open": 700}
CORRUPTED_TURNS: Mapping[str, int | None] = {"personachat": None, "open": 2}
HELD_OUT = 0.1
LONGEST_PROMPT = 64
LONGEST_REPLY = 30


@dataclass
class Workspace:
    """Where data, models and what was computed before are."""

    data: Path
    work: Path
    models: str | None = None
    paraphraser: str = "wordnet"
    reading: TrunkReading = field(default_factory=TrunkReading)
    seed: int = 0
    # A folder with the pack's encoder for torch (see bases.py), and where it runs.
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
            from turnwise.train.utterances import encode_with_trunk

            return VectorStore(encode_with_trunk(self.encoder, self.reading, device=self.device), name, self.work)
        model = self.pack.model(self.reading.role)
        assert isinstance(model, EncoderModel)
        return VectorStore(encode_with(UtteranceEncoder(model.network, model.tokens, self.reading)), name, self.work)

    def own_store(self, folder: Path, reading: TrunkReading) -> VectorStore:
        """Vectors of the encoder in a folder, which learnt together with a head; kept under a name of its own."""
        name = f"own-{hashlib.sha256((folder / 'model.safetensors').read_bytes()).hexdigest()[:8]}"
        if self.device != "cpu":
            from turnwise.train.utterances import encode_with_trunk

            return VectorStore(encode_with_trunk(folder, reading, device=self.device), name, self.work)
        with TemporaryDirectory() as space:
            # As a pack, unrounded: on a CPU its networks run several times faster than torch's.
            (role,) = build_pack([folder], Path(space) / "pack", name=name, licence="none", fineness=None).roles
            model = load_pack(Path(space) / "pack").model(role)
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
            logger.info("%s: %s; %d taken", corpus, report.summary(), len(some))
            learnt, validated = split(some, HELD_OUT, self.seed)
            kept += learnt
            held += validated
        return kept, held

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
            write_text(file, (json.dumps(asdict(one)) + "\n" for one in found))
            logger.info("%s: written", file.name)
        lines = file.read_text(encoding="utf-8").splitlines()
        return [Sampled.of(json.loads(line)) for line in lines]


def without_beginnings(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    """The dialogues that are not the beginning of another one, as some files hold a dialogue at each of its turns."""
    found: list[Dialogue] = []
    for dialogue in sorted(dialogues, key=lambda one: [turn.text for turn in one.turns], reverse=True):
        # In this order a dialogue stands right after those that it is the beginning of.
        if not found or found[-1].turns[: len(dialogue.turns)] != dialogue.turns:
            found.append(dialogue)
    return found


BEGAN = time.monotonic()
MIXES: Mapping[str, Sequence[str]] = {"personachat": ["personachat"], "both": ["personachat", "open"]}
RECIPE = Recipe(batch=64, epochs=40, patience=6, learning_rate=1e-3, weight_decay=0.01, clip=0.5, decay=True)
SIZES: Mapping[str, Any] = {"down_size": 256, "hidden": 256, "dense": 200, "input_dropout": 0.1}
# Likeness to the last turn, and to those before it; responses of the same batch as random utterances; fewer paraphrased
# positives than half, since the words that people chose are what is mostly judged.
LEARNING: Mapping[str, Any] = {"recent": (0.0, 0.6), "in_batch": 16, "reworded": 0.3}
CONTRAST = 0.3
# The bundled head also picks the true response out of others of its own dialogue: without them a head learns that what
# repeats the last turn fits best.
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


def dialogues(space: Workspace, corpora: str) -> tuple[list[Sampled], list[Sampled]]:
    """Dialogues to learn from, and to validate on."""
    parts = [space.training(name) for name in MIXES[corpora]]
    kept, held = ([dialogue for part in parts for dialogue in part[side]] for side in (0, 1))
    return kept, held


def left(recipe: Recipe) -> Recipe:
    """The recipe with the minutes that reading dialogues and making vectors has left of its own."""
    if recipe.minutes is None:
        return recipe
    return replace(recipe, minutes=max(recipe.minutes - (time.monotonic() - BEGAN) / 60, 0.05))


def train_head(
    space: Workspace,
    corpora: str,
    options: MaudeOptions,
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
    kept, held = (some[:count] for some, count in zip(dialogues(space, corpora), most, strict=True))
    weights, own = None, None
    if start is not None:
        content = (start / "maude.safetensors").read_bytes()
        weights, own = unpack_weights(content), start if header(content)["role"] == OWN else None
    unlike = space.unlike()
    everything = [*kept, *held, *(one for some in unlike.values() for one in some)]
    if options.frozen:
        store = space.store if own is None else space.own_store(own, space.reading)
        vectors, index = store.table(text for one in everything for text in one.texts())
        model, fitted = train_maude(
            kept, held, options, left(recipe), vectors=vectors, index=index, parts=len(space.reading.layers),
            unlike=unlike, start=weights,
        )  # fmt: skip
    else:
        if trunk is None:
            raise SystemExit("error: an encoder that learns needs --trunk, a folder in the hub's layout")
        trunk.prepare(text for one in everything for text in one.texts())
        model, fitted = train_maude(kept, held, options, left(recipe), encoder=trunk, unlike=unlike)
    names = [corpus for name in MIXES[corpora] for corpus in CORPORA[name]]
    card = {
        "objective": "maude",
        "form": mode,
        "data": [{"corpus": corpus, "licence": licence_of(corpus)} for corpus in names],
        "dialogues": {"learnt_from": len(kept), "validated_on": len(held)},
        "decontaminated_against": "every file of human/ and test/",
        "paraphraser": space.paraphraser,
        "generated_by": f"causal-lm of {space.pack.name}, greedy",
        "encoder": space.reading.role if options.frozen and own is None else "its own, trained with it",
        "options": asdict(options),
        "training": fitted.record(),
        "before": json.loads((start / "card.json").read_text(encoding="utf-8")) if start is not None else None,
        "held_out": fitted.found,
        "versions": {"torch": torch.__version__},
    }
    save_head(model, space.reading, card, out, own)
    return card


def main() -> None:
    """Train one head."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with train/, human/ and test/")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps vectors between runs")
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--encoder", type=Path, help="the pack's encoder for torch, by bases.py")
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
    options = MaudeOptions(**chosen | args.options)
    reading = TrunkReading(layers=tuple(args.layers))
    space = Workspace(
        args.data, args.work, args.models, args.paraphraser, reading, encoder=args.encoder, device=args.device
    )
    trunk = None if args.trunk is None else Trunk.open(args.trunk, reading, learning=args.learning_layers)
    steps = {} if trunk is None else TRUNK_RECIPE
    recipe = Recipe(**vars(RECIPE) | {"batch": BATCHES[args.corpora], "device": args.device, **steps} | args.recipe)
    card = train_head(
        space, args.corpora, options, recipe, args.out, args.mode, trunk, args.start, (args.dialogues, args.validated)
    )
    course = {key: card["training"][key] for key in ("loss", "kept", "epochs")}
    print(json.dumps({"head": args.out.name} | course | card["held_out"]))


if __name__ == "__main__":
    main()
