"""Choose what the bundled pack's composites are made of, on training dialogues that no model was trained on.

    python scripts/choose_defaults.py --data DATA_DIR --models PACK [--contexts 240] [--constants NAME=FILE.json]
                                      [--scores FILE.json] [--closeness -1]

No rating is looked at. Each quality of USR and USL-H has a contrast: a person's reply beside a reply that lacks that
quality by construction. A sub-metric suits a quality if it puts the person's reply first. The script prints how
often each sub-metric does, for every contrast, and measures the constants that make sub-metrics comparable: means,
deviations and quantiles over replies of the kinds that are judged in practice (a person's, a language model's, and
somebody else's). --constants writes them as a named set of `turnwise/metrics/constants.json`; --scores writes every
score, for `choose_scale.py` and `choose_clamp.py`. --closeness -1 takes any turn of somebody who knows facts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from train_pack import training_split

from turnwise.bots.base import Prompt
from turnwise.bots.language_model import LanguageModelBot
from turnwise.dialogue import Example
from turnwise.engine.local import judge_examples
from turnwise.engine.session import Session
from turnwise.metrics.base import Metric
from turnwise.metrics.normalise import measure
from turnwise.metrics.registry import load_metric
from turnwise.models.generate import Decoding, Writer
from turnwise.models.pack import load_pack
from turnwise.models.tasks import CausalModel
from turnwise.text.corrupt import drop, reorder, repeat
from turnwise.text.facts import TfIdf, choose_fact
from turnwise.train.dialogues import Dialogue, merge_runs
from turnwise.train.negatives import Mix, Negatives
from turnwise.train.sampling import Places

CONTEXT_TURNS = 6
FEWEST_WORDS = 5
# How similar a turn must be to a fact to be about it, by its words.
ABOUT_A_FACT = 0.12
SAME_CORPUS = Mix(random=0, corpus=1, dialogue=0, similar=0, corrupted=0)
# Sub-metrics, each as it would be asked for.
CANDIDATES = (
    "vup", "nup", "usr-dr-c", "usr-dr-f", "usr-mlm", "mlm-likelihood", "mlm-nce", "mlm-ppl", "mlm-slor", "iwf",
)  # fmt: skip
CONTRASTS = {
    "broken": "Understandable: the words of the reply in another order",
    "clumsy": "Natural: words of the reply left out or said twice",
    "elsewhere": "Maintains Context: what somebody said in another dialogue of the corpus",
    "bland": "Interesting: what a language model finds likeliest to come next",
    "unaware": "Uses Knowledge: what a language model finds likeliest if it was not told the fact",
}
# A quality of how a reply stands to something can only be judged by what reads that, and nothing else: a reply from
# elsewhere does not know the fact either, so that what reads both would get the context's place for the fact's sake.
READS = {"elsewhere": ("nup",), "unaware": ("usr-dr-f",)}
# Fast forms lie on scales of their own.
FAST = ("usr-mlm[fast=true]", "mlm-likelihood[fast=true]", "mlm-nce[fast=true]", "mlm-ppl[fast=true]")
# Replies as they come from systems under test; broken ones are not among them.
JUDGED = ("person", "bland", "drawn", "elsewhere")


@dataclass(frozen=True)
class Place:
    """A turn that a person took, with the facts that the person knew and the one that it is about."""

    dialogue: Dialogue
    turn: int
    fact: str

    @property
    def reply(self) -> str:
        """What the person said."""
        return self.dialogue.turns[self.turn].text

    @property
    def context(self) -> tuple[str, ...]:
        """The turns before it."""
        return tuple(t.text for t in self.dialogue.turns[max(0, self.turn - CONTEXT_TURNS) : self.turn])


def unseen_dialogues(data: Path) -> list[Dialogue]:
    """The dialogues that were held out of training."""
    _, held = training_split(data)
    return [merge_runs(dialogue) for dialogue in held]


def places(
    dialogues: Sequence[Dialogue], count: int, tfidf: TfIdf, rng: Random, closeness: float = ABOUT_A_FACT
) -> list[Place]:
    """Turns of some length that are so close to a fact, from corpora in turn."""
    facts: dict[tuple[str, int], str] = {}

    def usable(dialogue: Dialogue, turn: int) -> bool:
        said = dialogue.turns[turn]
        known = dialogue.facts_for(said.speaker)
        fact = choose_fact(said.text, known, tfidf, closeness) if len(said.text.split()) >= FEWEST_WORDS else None
        if fact:
            facts[dialogue.id, turn] = fact
        return fact is not None

    source = Places(dialogues, power=0.5, usable=usable)
    drawn = {(d.id, t): (d, t) for d, t in (source.draw(rng) for _ in range(20 * count))}
    return [Place(d, t, facts[d.id, t]) for d, t in list(drawn.values())[:count]]


def replies(place: Place, negatives: Negatives, writer: Writer, rng: Random) -> dict[str, str]:
    """The person's reply and those that lack something, by kind. Each lacks one thing, as far as that can be had."""
    greedy, nucleus = (LanguageModelBot(writer, Decoding(method)) for method in ("greedy", "nucleus"))
    words = place.reply.split()
    elsewhere, _ = negatives.draw(place.dialogue, place.turn, SAME_CORPUS, rng)
    told, untold = Prompt(place.context, (place.fact,)), Prompt(place.context)
    found = {
        "person": place.reply,
        "broken": " ".join(reorder(words, rng)),
        "clumsy": " ".join(rng.choice((drop, repeat))(words, rng)),
        "elsewhere": elsewhere,
        "bland": greedy.reply(told),
        "drawn": nucleus.reply(told),
        "unaware": greedy.reply(untold),
    }
    return {kind: text for kind, text in found.items() if text}


def preferred(person: Sequence[float | None], other: Sequence[float | None]) -> tuple[float, int]:
    """How often the person's reply scores higher, ties counting half, and of how many pairs.

    >>> preferred([1.0, 0.5, None], [0.0, 0.5, 1.0])
    (0.75, 2)
    """
    pairs = [(p, o) for p, o in zip(person, other, strict=True) if p is not None and o is not None]
    wins = [(p > o) + 0.5 * (p == o) for p, o in pairs]
    return (float(np.mean(wins)) if wins else float("nan")), len(wins)


def main() -> None:
    """Draw places, make the contrasts, score everything, print the choice and the constants."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models")
    parser.add_argument("--contexts", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--closeness", type=float, default=ABOUT_A_FACT, help="-1: turns that are about no fact too")
    parser.add_argument("--constants", metavar="NAME=FILE", help="write the constants as this set of this file")
    parser.add_argument("--scores", type=Path, help="write the scores of every reply here, as JSON")
    parser.add_argument("--only", nargs="+", default=[*CANDIDATES, *FAST], help="measure these, and leave others be")
    args = parser.parse_args()
    rng = Random(args.seed)
    held = unseen_dialogues(args.data)
    tfidf = TfIdf(turn.text for dialogue in held for turn in dialogue.turns)
    chosen = places(held, args.contexts, tfidf, rng, args.closeness)
    print(f"{len(held)} dialogues held out, {len(chosen)} replies", file=sys.stderr)
    model = load_pack(args.models).model("causal-lm")
    assert isinstance(model, CausalModel)
    writer, negatives = Writer(model), Negatives(held, tfidf)
    made = [replies(place, negatives, writer, rng) for place in chosen]
    metrics: dict[str, Metric] = {name: load_metric(name) for name in args.only}
    examples, keys = [], []
    for number, (place, texts) in enumerate(zip(chosen, made, strict=True)):
        known = tuple(place.dialogue.facts_for(place.dialogue.turns[place.turn].speaker))
        for kind, text in texts.items():
            examples.append(Example(context=place.context, response=text, facts=known, id=f"{number}/{kind}"))
            keys.append((number, kind))
    scored = judge_examples(examples, metrics, Session(args.models, cache="off").answer)
    table = {key: {name: score.value for name, score in row.items()} for key, row in zip(keys, scored, strict=True)}
    if args.scores:
        rows = [{"place": number, "kind": kind, "scores": row} for (number, kind), row in table.items()]
        args.scores.write_text(json.dumps(rows) + "\n", encoding="utf-8")
    report(table, len(chosen), [name for name in CANDIDATES if name in args.only])
    if args.constants:
        name, _, file = args.constants.partition("=")
        judged = [row for (_, kind), row in table.items() if kind in JUDGED]
        columns = {m: [row[m] for row in judged if row[m] is not None] for m in metrics}
        path = Path(file)
        sets = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        found = measure({m: [float(v) for v in column if v is not None] for m, column in columns.items()})
        sets[name] = sets.get(name, {}) | {m: _shortened(of) for m, of in found.items()}
        path.write_text(as_json(sets), encoding="utf-8")


def as_json(sets: Mapping[str, Mapping[str, object]]) -> str:
    """Sets of constants, a metric a line."""
    rows = {
        name: ",\n".join(f"    {json.dumps(metric)}: {json.dumps(found)}" for metric, found in some.items())
        for name, some in sets.items()
    }
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {{\n{text}\n  }}" for name, text in rows.items()) + "\n}\n"


def _shortened(value: object) -> object:
    """Numbers to seven digits, which is more than a model's answers are good for on another machine."""
    if isinstance(value, Mapping):
        return {key: _shortened(part) for key, part in value.items()}
    return float(f"{value:.7g}") if isinstance(value, float) else value


def report(table: Mapping[tuple[int, str], Mapping[str, float | None]], count: int, names: Sequence[str]) -> None:
    """Print how often each sub-metric puts the person first, in either direction, and the best of each contrast."""
    print("| contrast | " + " | ".join(names) + " | best |")
    print("|" + "---|" * (len(names) + 2))
    for kind in CONTRASTS:
        numbers = [number for number in range(count) if (number, kind) in table]
        shares = {
            name: preferred(*([table[number, of][name] for number in numbers] for of in ("person", kind)))[0]
            for name in names
        }
        fit = [name for name in READS.get(kind, names) if name in names]
        best = max(fit, key=lambda name: max(shares[name], 1 - shares[name]), default="none of these")
        sign = "-" if shares.get(best, 1.0) < 0.5 else ""
        print(f"| {kind} ({len(numbers)}) | " + " | ".join(f"{s:.3f}" for s in shares.values()) + f" | {sign}{best} |")


if __name__ == "__main__":
    main()
