"""Ways to spoil a share of the answers of a corpus, so that a distance between corpora can be watched as it grows.

Which answers are spoilt first, and how, depends on the seed alone: what is spoilt at a small ratio is spoilt in the
same way at every larger one, so a curve over ratios shows the ratio and not the luck of the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, get_args

Transform = Literal["noise", "mismatch", "permutate", "repeat"]
TRANSFORMS: tuple[Transform, ...] = get_args(Transform)

# What says nothing and fits everywhere.
CANNED = (
    "I don't know.",
    "I'm not sure what you mean.",
    "That sounds great!",
    "Really? Tell me more.",
    "Yes, I think so too.",
    "No, not really.",
    "I see. That's interesting.",
    "Thank you very much.",
    "What do you think about it?",
    "I have no idea, sorry.",
)


def perturbed(answers: Sequence[str], transform: Transform, ratio: float, seed: int = 0) -> list[str]:
    """All answers in their order, a share of them spoilt.

    >>> perturbed(["so do i", "me too", "no"], "mismatch", 0.0)
    ['so do i', 'me too', 'no']
    >>> sorted(perturbed(["so do i", "me too", "no"], "mismatch", 1.0))
    ['me too', 'no', 'so do i']
    """
    if not 0 <= ratio <= 1:
        raise ValueError(f"a ratio of {ratio:g} is no share; give one from 0 to 1")
    order = list(range(len(answers)))
    Random(seed).shuffle(order)
    chosen = order[: round(ratio * len(answers))]
    spoilt = list(answers)
    if transform == "mismatch":
        # Everybody says what the next one chosen would have said: nobody keeps an answer, and all of them are used.
        for place, following in zip(chosen, [*chosen[1:], *chosen[:1]], strict=True):
            spoilt[place] = answers[following]
        return spoilt
    vocabulary = sorted({word for answer in answers for word in answer.split()})
    spoil: Callable[[str, Random], str] = {
        "noise": lambda text, rng: noise(text, vocabulary, rng),
        "permutate": permutate,
        "repeat": lambda _, rng: rng.choice(CANNED),
    }[transform]
    for place in chosen:
        spoilt[place] = spoil(answers[place], Random(f"{seed} {place}"))
    return spoilt


def noise(text: str, vocabulary: Sequence[str], rng: Random) -> str:
    """Random words at random places: at least a quarter as many as there are, at most half.

    >>> len(noise("one two three four five six seven eight", ["x"], Random(0)).split()) in range(10, 13)
    True
    """
    words = text.split()
    for _ in range(rng.randint(len(words) // 4, len(words) // 2)):
        words.insert(rng.randint(0, len(words)), rng.choice(vocabulary))
    return " ".join(words)


def permutate(text: str, rng: Random) -> str:
    """The words in a random order.

    >>> sorted(permutate("so do i", Random(0)).split())
    ['do', 'i', 'so']
    """
    words = text.split()
    rng.shuffle(words)
    return " ".join(words)
