"""How should `usr-dr-c` read a fact? `python scripts/choose_reading.py --data DATA_DIR [--models PACK]`.

No rating is looked at. Beside what people said about a fact, in dialogues that no model was trained on, stand replies
that fit less: from another dialogue, from elsewhere in the same one, a language model's that was not told the fact,
and the person's own after somebody else's facts. The script prints how often each way of reading puts the person first.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from random import Random

from choose_defaults import SAME_CORPUS, Place, places, preferred, unseen_dialogues

from turnwise.bots.base import Prompt
from turnwise.bots.language_model import LanguageModelBot
from turnwise.dialogue import Example
from turnwise.engine.local import judge_examples
from turnwise.engine.session import Session
from turnwise.metrics.registry import load_metric
from turnwise.models.generate import Decoding, Writer
from turnwise.models.pack import load_pack
from turnwise.models.tasks import CausalModel
from turnwise.text.facts import TfIdf
from turnwise.train.dialogues import Dialogue
from turnwise.train.negatives import Negatives

FACTS = ("closest", "all", "best")
WAYS = (
    "nup",
    "usr-dr-c[reading=together]",
    *(f"usr-dr-f[fact={which}]" for which in FACTS),
    *(f"usr-dr-c[reading=apart,fact={which}]" for which in FACTS),
)
PERSON = "person"


def other_fact(pool: Sequence[Dialogue], dialogue: Dialogue, rng: Random, tries: int = 20) -> str | None:
    """A fact of another dialogue of the same corpus that this one does not know."""
    own = {line for lines in dialogue.facts.values() for line in lines}
    for _ in range(tries):
        facts = [line for lines in pool[rng.randrange(len(pool))].facts.values() for line in lines]
        if facts and (fact := rng.choice(facts)) not in own:
            return fact
    return None


def variants(
    place: Place, held: Sequence[Dialogue], negatives: Negatives, bot: LanguageModelBot, rng: Random
) -> dict[str, tuple[str | None, tuple[str, ...]]]:
    """The replies to hold beside each other, each with the facts that it is judged by."""
    known = tuple(place.dialogue.facts_for(place.dialogue.turns[place.turn].speaker))
    other = other_fact([d for d in held if d.corpus == place.dialogue.corpus], place.dialogue, rng)
    elsewhere, _ = negatives.draw(place.dialogue, place.turn, SAME_CORPUS, rng)
    found: dict[str, tuple[str | None, tuple[str, ...]]] = {
        PERSON: (place.reply, known),
        "another dialogue": (elsewhere, known),
        "same dialogue": (negatives.same_dialogue(place.dialogue, place.turn, rng), known),
        "not told the fact": (bot.reply(Prompt(place.context)), known),
    }
    return found | ({"somebody else's facts": (place.reply, (other,))} if other else {})


def main() -> None:
    """Draw places, make the replies, score them every way, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models")
    parser.add_argument("--contexts", type=int, default=220)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    rng, held = Random(args.seed), unseen_dialogues(args.data)
    tfidf = TfIdf(turn.text for dialogue in held for turn in dialogue.turns)
    chosen = places(held, args.contexts, tfidf, rng)
    model = load_pack(args.models).model("causal-lm")
    assert isinstance(model, CausalModel)
    bot, negatives = LanguageModelBot(Writer(model), Decoding("greedy")), Negatives(held, tfidf)
    keys, examples = [], []
    for number, place in enumerate(chosen):
        for kind, (text, facts) in variants(place, held, negatives, bot, rng).items():
            if text:
                keys.append((number, kind))
                examples.append(Example(context=place.context, response=text, facts=facts))
    metrics = {way: load_metric(way) for way in WAYS}
    scored = dict(zip(keys, judge_examples(examples, metrics, Session(args.models, cache="off").answer), strict=True))
    print("| the other reply | n | " + " | ".join(WAYS) + " |")
    print("|" + "---|" * (len(WAYS) + 2))
    for kind in dict.fromkeys(kind for _, kind in keys if kind != PERSON):
        numbers = [number for number, of in keys if of == kind]
        shares = [
            preferred(*([scored[number, of][way].value for number in numbers] for of in (PERSON, kind)))[0]
            for way in WAYS
        ]
        print(f"| {kind} | {len(numbers)} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")


if __name__ == "__main__":
    main()
