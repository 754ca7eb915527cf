"""Choose a pack's defaults without ratings, on training dialogues that no model was trained on.

    python tools/pack/choose.py qualities --data DIR [--constants NAME=FILE] one contrast for each quality of a reply
    python tools/pack/choose.py facts --data DIR                             replies that fit a known fact less
    python tools/pack/choose.py answers --data DIR                           an answer to something else (references)
    python tools/pack/choose.py vectors --data DIR                           role, layer and pooling of fbd and prd

The first three print how often each metric (--metrics, any request) scores a person's reply above another reply, and
the mean over contrasts beside that of the first metric, with the standard error of the paired difference. The default
metrics are those that a default was chosen among:

    qualities  --metrics vup nup usr-dr-c usr-dr-f usr-mlm ...  the parts of usr and usl-h; also forms of a whole, such
               as --metrics usl-h usl-h[sensible=nup]
    facts      readings of usr-dr-c and usr-dr-f
    answers    --metrics ruber[blend=min] ... or bertscore[layer=0] ...

`qualities` also measures the constants that make sub-metrics comparable: means, deviations and quantiles over replies
of the kinds that systems give (a person's, a language model's, and somebody else's). --constants writes them as a named
set of a file. --closeness -1 takes any turn of somebody who knows facts.

`vectors` reads Reddit threads with several answers to one context: one person's answers are the references, another's
a system, and a growing share of the latter is corrupted in four ways. A good choice makes the distance grow with every
step by much more than it varies between samples of contexts, whichever the corruption: choices are ranked by their
worst corruption. Clustering is slow, so prd only tests choices that are nearly the best by fbd.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, get_args

import numpy as np
from recipe import training_split

from turnwise.bots.base import Prompt
from turnwise.bots.local import LanguageModelBot
from turnwise.dialogue import Example
from turnwise.engine.answer import batches
from turnwise.engine.score import judge_examples
from turnwise.engine.session import Session
from turnwise.files import write_text
from turnwise.metrics.distributions import FrechetBertDistance
from turnwise.metrics.learned import Blend
from turnwise.metrics.registry import load_metric
from turnwise.metrics.scaling import measure
from turnwise.models.generate import Decoding, Writer
from turnwise.models.kinds import pool
from turnwise.models.pack import Pack, load_pack
from turnwise.models.requests import Pooling
from turnwise.models.text import CausalModel, rectangle
from turnwise.stats.frechet import frechet
from turnwise.stats.prd import clustered
from turnwise.text.corrupt import TRANSFORMS, drop, perturbed, reorder, repeat
from turnwise.text.inputs import TfIdf, choose_fact
from turnwise.train.dialogues import Dialogue, DialogueTurn, lines_of, merge_runs, split
from turnwise.train.sampling import Mix, Negatives, Places

CONTEXT_TURNS = 6
FEWEST_WORDS = 5
# How similar a turn must be to a fact to be about it, by its words.
ABOUT_A_FACT = 0.12
SAME_CORPUS = Mix(random=0, corpus=1, dialogue=0, similar=0, corrupted=0)
PERSON = "person"
PARTS = (
    "vup", "nup", "usr-dr-c", "usr-dr-f", "usr-mlm", "mlm-likelihood", "mlm-nce", "mlm-ppl", "mlm-slor", "iwf",
)  # fmt: skip
# Fast forms have scales of their own, so the constants need them too.
FAST = ("usr-mlm[fast=true]", "mlm-likelihood[fast=true]", "mlm-nce[fast=true]", "mlm-ppl[fast=true]")
QUALITIES = {
    "broken": "Understandable: the words of the reply in another order",
    "clumsy": "Natural: words of the reply left out or said twice",
    "elsewhere": "Maintains Context: what somebody said in another dialogue of the corpus",
    "bland": "Interesting: the likeliest reply of a language model",
    "unaware": "Uses Knowledge: the likeliest reply of a language model without the fact",
}
# Replies as systems give them; broken ones are not among them.
JUDGED = (PERSON, "bland", "drawn", "elsewhere")
WHICH = ("closest", "all", "best")
READINGS = (
    "nup",
    "usr-dr-c[reading=together]",
    *(f"usr-dr-f[fact={which}]" for which in WHICH),
    *(f"usr-dr-c[reading=apart,fact={which}]" for which in WHICH),
)
BLENDS = tuple(f"{name}[blend={blend}]" for name in ("ruber", "bert-ruber", "pone") for blend in get_args(Blend))
ANSWERED_TWICE = ("dialogrpt_refs_reddit", "dialogrpt_refs_twitter", "dialogrpt_refs_personachat")
# The share of dialogues that baselines.py holds out.
HELD_OUT = 0.1

# (number of a context, kind of reply, the reply in its place)
Row = tuple[int, str, Example]


@dataclass(frozen=True)
class Place:
    """A turn that a person took, with the facts that the person knew and the one that it is about."""

    dialogue: Dialogue
    turn: int
    fact: str

    @property
    def reply(self) -> str:
        """The turn of the person."""
        return self.dialogue.turns[self.turn].text

    @property
    def context(self) -> tuple[str, ...]:
        """The turns before it."""
        return tuple(t.text for t in self.dialogue.turns[max(0, self.turn - CONTEXT_TURNS) : self.turn])

    @property
    def known(self) -> tuple[str, ...]:
        """The facts of its speaker."""
        return tuple(self.dialogue.facts_for(self.dialogue.turns[self.turn].speaker))


class Drawing:
    """Draws places of held-out dialogues, and replies to hold beside what the person said there."""

    def __init__(self, data: Path, models: str | None, seed: int) -> None:
        self.rng, self.held = Random(seed), [merge_runs(dialogue) for dialogue in training_split(data)[1]]
        self._tfidf = TfIdf(turn.text for dialogue in self.held for turn in dialogue.turns)
        self.negatives = Negatives(self.held, self._tfidf)
        model = load_pack(models).model("causal-lm")
        assert isinstance(model, CausalModel)
        self.greedy, self.nucleus = (LanguageModelBot(Writer(model), Decoding(m)) for m in ("greedy", "nucleus"))

    def places(self, count: int, closeness: float) -> list[Place]:
        """Return turns of some length that are so close to a fact, from corpora in turn."""
        facts: dict[tuple[str, int], str] = {}

        def usable(dialogue: Dialogue, turn: int) -> bool:
            said = dialogue.turns[turn]
            known = dialogue.facts_for(said.speaker)
            long = len(said.text.split()) >= FEWEST_WORDS
            fact = choose_fact(said.text, known, self._tfidf, closeness) if long else None
            if fact:
                facts[dialogue.id, turn] = fact
            return fact is not None

        source = Places(self.held, power=0.5, usable=usable)
        drawn = {(d.id, t): (d, t) for d, t in (source.draw(self.rng) for _ in range(20 * count))}
        return [Place(d, t, facts[d.id, t]) for d, t in list(drawn.values())[:count]]

    def elsewhere(self, place: Place) -> str:
        """Return what somebody said in another dialogue of the corpus."""
        return self.negatives.draw(place.dialogue, place.turn, SAME_CORPUS, self.rng)[0]

    def qualities(self, place: Place) -> dict[str, tuple[str | None, tuple[str, ...]]]:
        """Return the person's reply and those that lack one quality, each with the facts that it is judged by."""
        words = place.reply.split()
        elsewhere = self.elsewhere(place)
        told, untold = Prompt(place.context, (place.fact,)), Prompt(place.context)
        found = {
            PERSON: place.reply,
            "broken": " ".join(reorder(words, self.rng)),
            "clumsy": " ".join(self.rng.choice((drop, repeat))(words, self.rng)),
            "elsewhere": elsewhere,
            "bland": self.greedy.reply(told),
            "drawn": self.nucleus.reply(told),
            "unaware": self.greedy.reply(untold),
        }
        return {kind: (text, place.known) for kind, text in found.items()}

    def facts(self, place: Place) -> dict[str, tuple[str | None, tuple[str, ...]]]:
        """Return the person's reply and those that fit a fact less, each with the facts that it is judged by."""
        other = self._other_fact(place.dialogue)
        elsewhere = self.elsewhere(place)
        found: dict[str, tuple[str | None, tuple[str, ...]]] = {
            PERSON: (place.reply, place.known),
            "another dialogue": (elsewhere, place.known),
            "same dialogue": (self.negatives.same_dialogue(place.dialogue, place.turn, self.rng), place.known),
            "not told the fact": (self.greedy.reply(Prompt(place.context)), place.known),
        }
        return found | ({"somebody else's facts": (place.reply, (other,))} if other else {})

    def _other_fact(self, dialogue: Dialogue, tries: int = 20) -> str | None:
        pool = [one for one in self.held if one.corpus == dialogue.corpus]
        own = {line for lines in dialogue.facts.values() for line in lines}
        for _ in range(tries):
            facts = [line for lines in pool[self.rng.randrange(len(pool))].facts.values() for line in lines]
            if facts and (fact := self.rng.choice(facts)) not in own:
                return fact
        return None


def replies(args: argparse.Namespace) -> Iterator[Row]:
    """Yield the replies of `qualities` and `facts`."""
    drawing = Drawing(args.data, args.models, args.seed)
    make = drawing.qualities if args.contrasts == "qualities" else drawing.facts
    for number, place in enumerate(drawing.places(args.contexts, args.closeness)):
        for kind, (text, facts) in make(place).items():
            if text:
                yield number, kind, Example(context=place.context, response=text, facts=facts)


def answered_twice(data: Path) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield context, answer and another answer, of dialogues that baselines.py holds out."""
    for name in ANSWERED_TWICE:
        for number, line in lines_of(data / "train" / f"{name}.jsonl.xz"):
            item = json.loads(line)
            turns = tuple(DialogueTurn(str(turn["speaker"]), " ".join(turn["text"].split())) for turn in item["turns"])
            others = [text for text in item.get("alt_responses", ()) if len(text.split()) > 2]
            if others and len(turns) > 1 and split([Dialogue(f"{name}/{number}", name, turns, {})], HELD_OUT)[1]:
                yield tuple(turn.text for turn in turns[:-1]), turns[-1].text, others[0]


def answers(args: argparse.Namespace) -> Iterator[Row]:
    """Yield one answer and an answer to something else, beside another answer as the reference."""
    rows = list(answered_twice(args.data))
    Random(0).shuffle(rows)
    rows = rows[: args.contexts]
    for number, (context, reference, answer) in enumerate(rows):
        for kind, said in ((PERSON, answer), ("something else", rows[number - 1][2])):
            yield number, kind, Example(said, context, references=(reference,))


def wins(person: Mapping[int, float | None], other: Mapping[int, float | None]) -> dict[int, float]:
    """Return for each context whether the person's reply scores higher; a tie is half a win.

    >>> wins({0: 1.0, 1: 0.5, 2: None}, {0: 0.0, 1: 0.5, 2: 1.0})
    {0: 1.0, 1: 0.5}
    """
    pairs = {number: (person[number], value) for number, value in other.items()}
    return {n: (p > o) + 0.5 * (p == o) for n, (p, o) in pairs.items() if p is not None and o is not None}


def paired(won: Sequence[Mapping[int, float]], first: Sequence[Mapping[int, float]]) -> tuple[float, float]:
    """Return the mean difference over contrasts and its standard error over contexts, which are independent."""
    by_context: dict[int, list[float]] = defaultdict(list)
    for ours, theirs in zip(won, first, strict=True):
        for number in ours.keys() & theirs.keys():
            by_context[number].append(ours[number] - theirs[number])
    each = [float(np.mean(differences)) for differences in by_context.values()]
    return float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each)))


def compare(rows: Sequence[Row], metrics: Sequence[str], models: str | None) -> dict[str, dict[str, list[float]]]:
    """Print how often each metric puts the person first; return all scores, by metric and kind of reply."""
    loaded = {name: load_metric(name) for name in metrics}
    scored = judge_examples([example for *_, example in rows], loaded, Session(models, cache="off").answer)
    scores: dict[str, dict[str, dict[int, float | None]]] = {name: defaultdict(dict) for name in metrics}
    for (number, kind, _), found in zip(rows, scored, strict=True):
        for name in metrics:
            scores[name][kind][number] = found[name].value
    kinds = [kind for kind in dict.fromkeys(kind for _, kind, _ in rows) if kind not in (PERSON, "drawn")]
    won = {name: [wins(by[PERSON], by[kind]) for kind in kinds] for name, by in scores.items()}
    print(f"{len({number for number, *_ in rows})} contexts")
    print("| metric | " + " | ".join(kinds) + f" | mean | against {metrics[0]} |\n|" + "---|" * (len(kinds) + 3))
    for name, by_kind in won.items():
        means = [float(np.mean(list(of.values()))) if of else float("nan") for of in by_kind]
        cells = " | ".join(f"{mean:.3f}" for mean in (*means, float(np.nanmean(means))))
        difference, error = paired(by_kind, won[metrics[0]])
        print(f"| {name} | {cells} | {difference:+.3f} ± {error:.3f} |", flush=True)
    return {
        name: {kind: [v for v in values.values() if v is not None] for kind, values in by.items()}
        for name, by in scores.items()
    }


def write_constants(target: str, scores: Mapping[str, Mapping[str, list[float]]]) -> None:
    """Write NAME=FILE: what the judged replies give, as a named set of the file, a metric a line."""
    name, _, file = target.partition("=")
    path = Path(file)
    sets = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = measure({metric: [v for kind in JUDGED for v in by.get(kind, ())] for metric, by in scores.items()})
    sets[name] = sets.get(name, {}) | {metric: _shortened(of) for metric, of in found.items()}
    blocks = {
        name: ",\n".join(f"    {json.dumps(metric)}: {json.dumps(found)}" for metric, found in some.items())
        for name, some in sets.items()
    }
    text = ",\n".join(f"  {json.dumps(name)}: {{\n{block}\n  }}" for name, block in blocks.items())
    write_text(path, "{\n" + text + "\n}\n")


def _shortened(value: object) -> object:
    """Round numbers to seven digits: more depend on the machine."""
    if isinstance(value, Mapping):
        return {key: _shortened(part) for key, part in value.items()}
    return float(f"{value:.7g}") if isinstance(value, float) else value


# --- the vectors of fbd and prd ---------------------------------------------------------------------------

RATIOS = (0.0, 0.2, 0.4)
SEEDS = 3
# As many contexts as rated corpora have.
SAMPLE = 100
LONGEST = 40
# How far below the best by fbd a choice may be, and how often prd clusters.
NEARLY = 0.2
PRD_RUNS = 3
POOLINGS: tuple[Pooling, ...] = ("cls", "mean", "max")
Choice = tuple[str, int, Pooling]
Variant = tuple[str, int, float]
Vectors = Any
# A context and an answer.
Pair = tuple[tuple[str, ...], str]


def threads(data: Path, count: int) -> list[tuple[tuple[str, ...], str, str]]:
    """Return contexts with two answers that are no longer than conversation is, in a seeded order."""
    items = [json.loads(line) for _, line in lines_of(data / "train" / f"{ANSWERED_TWICE[0]}.jsonl.xz")]
    Random(0).shuffle(items)
    said = [([turn["text"] for turn in item["turns"]], item["alt_responses"]) for item in items]
    found = [(tuple(turns[:-1]), turns[-1], others[0]) for turns, others in said if len(turns) > 1 and others]
    return [one for one in found if max(len(text.split()) for text in one[1:]) <= LONGEST][:count]


def every_vector(pack: Pack, role: str, pairs: Sequence[Pair]) -> dict[Choice, Vectors]:
    """Return the vectors of pairs from every layer, in every pooling; the model runs once."""
    model: Any = pack.model(role)
    session = model.network.session
    layers = [output.name for output in session.get_outputs() if output.name.startswith("layer_")]
    metric = FrechetBertDistance(name="fbd", role=role)
    rows = [model.rows(metric.requests(Example(answer, context))[0])[0] for context, answer in pairs]
    choices = list(itertools.product(range(-len(layers), 0), POOLINGS))
    found: dict[Choice, list[Any]] = {(role, *choice): [None] * len(rows) for choice in choices}
    for batch in batches(rows, model.budget):
        filled = rectangle([rows[i].ids for i in batch], [rows[i].types for i in batch])
        states = session.run(layers, {"ids": filled.ids, "mask": filled.mask, "types": filled.types})
        for place, row in enumerate(batch):
            for layer, pooling in choices:
                found[role, layer, pooling][row] = pool(states[layer][place, : len(rows[row].ids)], pooling, ())
    return {choice: np.array(vectors, dtype=np.float64) for choice, vectors in found.items()}


def fbd(said: Vectors, real: Vectors) -> float:
    """Return the Fréchet distance."""
    return frechet(said, real).value()


def prd(said: Vectors, real: Vectors) -> float:
    """Return 1 less the largest F of precision and recall."""
    return 1 - clustered(said, real, runs=PRD_RUNS).curve().score()


def steps(
    distance: Callable[[Vectors, Vectors], float],
    vectors: Vectors,
    real: Sequence[int],
    variants: Mapping[Variant, list[int]],
    draws: int,
) -> list[float]:
    """Return by transform how much the distance grows at a step, in standard deviations over samples."""
    rng = np.random.default_rng(0)
    samples = [rng.choice(len(real), SAMPLE, replace=False) for _ in range(draws)]
    found = []
    for transform in TRANSFORMS:
        grown = []
        for number, sample in enumerate(samples):
            # Each ratio with a seed of its own: no two stand for the same system.
            said = [variants[transform, (number + i) % SEEDS, ratio] for i, ratio in enumerate(RATIOS)]
            distances = [distance(vectors[np.array(v)[sample]], vectors[np.array(real)[sample]]) for v in said]
            grown += np.diff(distances).tolist()
        spread = float(np.std(grown))
        found.append(float(np.mean(grown)) / spread if spread > 0 else 0.0)
    return found


def choose_vectors(args: argparse.Namespace) -> None:
    """Measure every role, layer and pooling, print them with the best last, and name the best by both metrics."""
    items = threads(args.data, args.contexts)
    places: dict[Pair, int] = {}

    def place(context: tuple[str, ...], answer: str) -> int:
        return places.setdefault((context, answer), len(places))

    real = [place(context, other) for context, _, other in items]
    variants: dict[Variant, list[int]] = {}
    for transform, seed, ratio in itertools.product(TRANSFORMS, range(SEEDS), RATIOS):
        said = perturbed([one for _, one, _ in items], transform, ratio, seed)
        variants[transform, seed, ratio] = [place(c, text) for (c, *_), text in zip(items, said, strict=True)]
    pack = load_pack(args.models)
    found = {c: v for role in args.roles.split(",") for c, v in every_vector(pack, role, list(places)).items()}
    print(f"{len(items)} contexts, samples of {SAMPLE}, ratios {', '.join(map(str, RATIOS))}: growth over its spread")
    measured = {choice: steps(fbd, vectors, real, variants, args.draws) for choice, vectors in found.items()}
    show("fbd", measured)
    best = max(map(min, measured.values()))
    near = {choice: by for choice, by in measured.items() if min(by) >= best - NEARLY}
    clusters = {choice: steps(prd, found[choice], real, variants, args.draws) for choice in near}
    show("prd", clusters)
    role, layer, pooling = max(near, key=lambda choice: min(*near[choice], *clusters[choice]))
    print(f"chosen: fbd[role={role},layer={layer},pooling={pooling}]")


def show(metric: str, measured: Mapping[Choice, list[float]]) -> None:
    """Print a table of choices, best last."""
    print(f"{metric:12} {'layer':>5} {'pooling':8}", *(f"{name:>10}" for name in (*TRANSFORMS, "worst")))
    for (role, layer, pooling), by in sorted(measured.items(), key=lambda item: min(item[1])):
        print(f"{role:12} {layer:5} {pooling:8}", *(f"{value:10.2f}" for value in (*by, min(by))), flush=True)


DEFAULTS = {"qualities": (*PARTS, *FAST), "facts": READINGS, "answers": BLENDS, "vectors": ()}
CONTEXTS = {"qualities": 240, "facts": 220, "answers": 300, "vectors": 1200}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("contrasts", choices=DEFAULTS)
    parser.add_argument("--data", type=Path, default=os.environ.get("TURNWISE_DATA"), help="the folder with train/")
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--metrics", nargs="+", help="metrics to compare, as 'turnwise score' takes them")
    parser.add_argument("--contexts", type=int, help="how many contexts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--closeness", type=float, default=ABOUT_A_FACT, help="-1: turns that are about no fact too")
    parser.add_argument("--constants", metavar="NAME=FILE", help="write the constants as this set of this file")
    parser.add_argument("--roles", default="encoder,nup-trunk", help="of vectors")
    parser.add_argument("--draws", type=int, default=60, help="samples of contexts, of vectors")
    args = parser.parse_args()
    args.contexts = args.contexts or CONTEXTS[args.contrasts]
    args.data = Path(args.data)
    if args.contrasts == "vectors":
        choose_vectors(args)
        return
    rows = list((answers if args.contrasts == "answers" else replies)(args))
    scores = compare(rows, args.metrics or DEFAULTS[args.contrasts], args.models)
    if args.constants:
        write_constants(args.constants, scores)


if __name__ == "__main__":
    main()
