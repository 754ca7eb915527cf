"""MAUDE's tables in one command: `python scripts/maude_deltas.py --data DIR --work DIR [--heads DIR] [--out FILE.md]`.

Trains MAUDE and its baselines on PersonaChat and what is like it, against all negatives, against semantic ones
only and against syntactic ones only, and prints for each kind of response on PersonaChat's validation set how far
its mean score lies below the true responses' (the delta), the zero-shot deltas of random utterances on other corpora,
the published numbers, and the bars that MAUDE is held to. --metrics adds any metric of the pack as it is. Each model
is measured as it was trained, and on a scale that was settled on dialogues of train/ (`maude_scale.py`). As in the
paper, contexts of task-oriented corpora are read sentence by sentence, those of others turn by turn.

What was trained or encoded before is taken from --work, and trained heads from --heads where they were trained
elsewhere, as by train_maude.py and delta_baselines.py on a GPU: SET/maude.safetensors for each of all, semantics and
syntax, and baselines/NAME-KINDS.safetensors. What is missing there is trained, and put there.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
from maude_corpora import TASK_ORIENTED, Room
from maude_scale import Scale, settled
from maude_tables import AS_TRAINED, CORPORA, KINDS, SETTLED, TRUE, Measured, markdown
from train_maude import RECIPE, dialogues, recommended, train_head

from turnwise.dialogue import Example
from turnwise.engine.local import judge_examples
from turnwise.engine.run import answer_requests
from turnwise.metrics.registry import load_metric
from turnwise.models.export.maude import OWN
from turnwise.models.maude import State, read_head
from turnwise.text.tokenise import sentences
from turnwise.train.maude import SETS, Options
from turnwise.train.maude_data import CORRUPTIONS, Sampled
from turnwise.train.negatives import maude_random

Values = npt.NDArray[np.floating]
Score = Callable[[Sequence[Sequence[str]], Sequence[str]], Values]
Asked = dict[str, list[tuple[tuple[str, ...], str]]]
RANDOM = "random utterance"


def variants(test: Sequence[Sampled], seed: int = 0, *, by_sentence: bool = False) -> Asked:
    """Every context with its true response, and the same contexts with each kind of other response.

    With `by_sentence` what was said before is read sentence by sentence.
    """
    rng = Random(f"{seed}:deltas")
    asked: Asked = {name: [] for name in (TRUE, *KINDS)}
    said = [dialogue.turns[1:] for dialogue in test]
    written = [tuple(dialogue.generated.values()) for dialogue in test if dialogue.generated]
    own = {n: i for i, n in enumerate(n for n, dialogue in enumerate(test) if dialogue.generated)}
    for number, dialogue in enumerate(test):
        for place in range(1, len(dialogue.turns)):
            context = dialogue.turns[:place]
            if by_sentence:
                context = tuple(sentence for turn in context for sentence in sentences(turn))
            asked[TRUE].append((context, dialogue.turns[place]))
            asked["random utterance"].append((context, maude_random(said, number, rng)))
            if number in own and len(written) > 1:
                asked["random generated"].append((context, maude_random(written, own[number], rng)))
            for kind in CORRUPTIONS:
                if place in dialogue.corrupted.get(kind, {}):
                    asked[kind.replace("_", " ")].append((context, dialogue.corrupted[kind][place]))
            if place in dialogue.reworded:
                asked["paraphrase"].append((context, dialogue.reworded[place]))
            if place in dialogue.generated:
                asked["generated"].append((context, dialogue.generated[place]))
    return {name: pairs for name, pairs in asked.items() if pairs}


def scores_of(asked: Asked, score: Score) -> dict[str, Values]:
    """What a model says of each kind of response."""
    return {name: np.asarray(score(*map(list, zip(*pairs, strict=True)))) for name, pairs in asked.items()}


def deltas(asked: Asked, found: Mapping[str, Values]) -> dict[str, dict[str, float]]:
    """For each kind of response: how many, mean, population standard deviation, delta, and wins of the true one.

    A kind that only some contexts have is held against the true responses to those contexts.
    """
    truth = dict(zip((context for context, _ in asked[TRUE]), found[TRUE], strict=True))
    rows = {}
    for name, values in found.items():
        same = np.array([truth[context] for context, _ in asked[name]])
        rows[name] = {
            "n": len(values),
            "mean": float(values.mean()),
            "std": float(values.std()),
            "delta": float(same.mean() - values.mean()),
            "wins": float(((same > values) + 0.5 * (same == values)).mean()),
        }
    return rows


def head_score(file: Path, room: Room) -> Score:
    """How a trained head scores, read as a pack reads it, over the vectors that are kept in the working folder.

    One that learnt together with its encoder reads that one's vectors.
    """
    head, reading = read_head(file.read_bytes(), str(file))
    store = room.store if reading.role != OWN else room.own_store(file.parent, reading)

    def score(contexts: Sequence[Sequence[str]], responses: Sequence[str]) -> Values:
        vectors, index = store.table(text for texts in (*contexts, responses) for text in texts)
        projected, states = head.project(vectors), dict[tuple[str, ...], State]()

        def after(turns: tuple[str, ...]) -> State:
            if turns not in states:
                before = after(turns[:-1]) if len(turns) > 1 else State()
                states[turns] = head.read(before, projected[index[turns[-1]]])
            return states[turns]

        pairs = zip(contexts, responses, strict=True)
        return np.array([head.score(head.context(after(tuple(c))), projected[index[r]]) for c, r in pairs])

    return score


def metric_score(request: str, room: Room) -> Score:
    """How a metric of the pack scores."""
    metric = load_metric(request)

    def score(contexts: Sequence[Sequence[str]], responses: Sequence[str]) -> Values:
        examples = [Example(r, tuple(c)) for c, r in zip(contexts, responses, strict=True)]
        judged = judge_examples(examples, {"it": metric}, lambda asked: answer_requests(asked, room.pack))
        return np.array([np.nan if s["it"].value is None else s["it"].value for s in judged], dtype=np.float64)

    return score


def trained(room: Room, heads: Path, name: str, options: Mapping[str, Any]) -> Score:
    """MAUDE trained against one set of negatives, on PersonaChat alone."""
    folder = heads / name
    if not (folder / "maude.safetensors").is_file():
        train_head(room, "personachat", Options(**recommended("personachat", SETS[name]) | options), RECIPE, folder)
    return head_score(folder / "maude.safetensors", room)


def encoder_of(folder: Path) -> str:
    """What a head reads utterances with, in words."""
    encoder = json.loads((folder / "card.json").read_text(encoding="utf-8"))["encoder"]
    return "the pack's encoder" if encoder == "encoder" else f"an encoder of {encoder}"


class Trial:
    """What every model is asked: PersonaChat's responses, random ones of other corpora, and those of train/."""

    def __init__(self, room: Room, dialogues: int, other: int, validated: int) -> None:
        self.asked = variants(room.test("personachat_valid", dialogues))
        self.others = {
            name: variants(room.test(name, other, variants=False), by_sentence=name in TASK_ORIENTED)
            for name in CORPORA
        }
        # Heads are chosen by these deltas, too: word order and random utterances of what is like PersonaChat, random
        # utterances of what is not.
        held = variants(room.training("personachat")[1][:validated])
        self.settling = [(held, "word order"), (held, RANDOM)]
        self.settling += [
            (variants(some, by_sentence=name in TASK_ORIENTED), RANDOM) for name, some in room.unlike().items()
        ]

    def scale(self, score: Score) -> Scale:
        """A model's scale, by dialogues of train/ alone."""
        found = [scores_of({TRUE: asked[TRUE], kind: asked[kind]}, score) for asked, kind in self.settling]
        return settled([(by[TRUE], by[kind]) for by, (_, kind) in zip(found, self.settling, strict=True)])

    def measure(self, score: Score, zero_shot: bool) -> dict[str, Measured]:
        """By scale, as trained and settled: the rows of PersonaChat, and of corpora that no model learnt from."""
        scales = {AS_TRAINED: Scale(), SETTLED: self.scale(score)}
        own = scores_of(self.asked, score)
        other = {corpus: scores_of(asked, score) for corpus, asked in self.others.items()} if zero_shot else {}
        return {
            name: Measured(
                scale.steepness,
                scale.middle,
                deltas(self.asked, {kind: scale(values) for kind, values in own.items()}),
                {
                    corpus: deltas(self.others[corpus], {kind: scale(v) for kind, v in found.items()})[RANDOM]
                    for corpus, found in other.items()
                },
            )
            for name, scale in scales.items()
        }


def main() -> None:
    """Train what is missing, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with train/, human/ and test/")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps vectors and heads between runs")
    parser.add_argument("--heads", type=Path, help="folder of trained heads; WORK/tables when left out")
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--out", type=Path, help="Markdown file to write; a JSON file is written beside it")
    parser.add_argument("--dialogues", type=int, default=150, help="dialogues of PersonaChat to measure on")
    parser.add_argument("--other", type=int, default=120, help="dialogues of each other corpus")
    parser.add_argument("--validated", type=int, default=200, help="held-out dialogues of train/ that settle scales")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="negatives to train against")
    parser.add_argument("--baselines", nargs="*", default=["ruber", "infersent", "bert-nli"], help="of its paper")
    parser.add_argument("--metrics", nargs="*", default=[], help="metrics of the pack, as they are")
    parser.add_argument("--paraphraser", choices=("wordnet", "causal-lm", "back-translation"), default="wordnet")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: other options of MAUDE's head")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    room = Room(args.data, args.work, args.models, args.paraphraser)
    trial = Trial(room, args.dialogues, args.other, args.validated)
    heads = args.heads or args.work / "tables"
    tables: dict[str, dict[str, dict[str, Measured]]] = {}
    for name in args.sets:
        models: dict[str, Score] = {"maude": trained(room, heads, name, args.options)}
        if args.baselines:
            from delta_baselines import Baselines

            trainer = Baselines(room, lambda: dialogues(room, "personachat"), folder=heads / "baselines")
            models |= {baseline: trainer.trained(baseline, SETS[name]) for baseline in args.baselines}
        if name == args.sets[0]:
            models |= {request: metric_score(request, room) for request in args.metrics}
        tables[name] = {label: trial.measure(score, name == "all") for label, score in models.items()}
    command = f"python scripts/maude_deltas.py --dialogues {args.dialogues} --other {args.other}"
    text = markdown(tables, room.paraphraser, command, {name: encoder_of(heads / name) for name in args.sets})
    print(text)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text, encoding="utf-8")
        stored = {
            name: {label: {scale: asdict(one) for scale, one in by.items()} for label, by in models.items()}
            for name, models in tables.items()
        }
        args.out.with_suffix(".json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
