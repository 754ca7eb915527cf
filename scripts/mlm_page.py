"""The page that `explain_mlm.py` prints: its numbers as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

INTRODUCTION = """# Likelihood and people's ratings

Spearman's rank correlation of likelihoods with rated Overall on USR's corpora, original responses left out; in
brackets the 95 % interval of a bootstrap over contexts. Likelihoods are means over tokens unless a sum is named, and
the masked language model's unless a causal one is named; likelier is higher. Analysis alone: no default was chosen
from it. Read in [the notes on USR](../research/usr.md#why-the-published-masked-lm-weight-hurts-a-small-model).

Made by `python scripts/explain_mlm.py`.
"""
LARGER = (
    "*Larger causal* (`--stronger`) is SmolLM2-135M-Instruct with all its 30 layers, its 4-bit weights as published; "
    "*causal* is the model that was bundled when this was made, twelve of its layers trained further on dialogues.\n"
)
STANDS = (
    "Overall",
    "within systems",
    "within contexts",
    "with length",
    "length taken out",
    "with common words",
    "common words taken out",
    "with the authors'",
)


def page(found: Mapping[str, Any]) -> str:
    """Everything, a section a corpus."""
    larger = any("larger" in name for about in found.values() for name in about["forms"])
    sections = [INTRODUCTION, *([LARGER] if larger else [])]
    return "\n".join([*sections, *(_section(title, about) for title, about in found.items())])


def _section(title: str, about: Mapping[str, Any]) -> str:
    place = about["located"]
    names = list(place["pairs won"])
    systems = place["system means"]
    length = number(about["length with Overall"])
    return "\n".join(
        [
            f"## {title}, {about['n']} responses\n",
            f"Length alone: {length}. *Within*: after the mean of each system, or context, is taken off both.\n",
            table(
                ["likelihood of", *(name for name in STANDS if name in next(iter(about["forms"].values())))],
                [[name, *_cells(stands)] for name, stands in about["forms"].items()],
            ),
            "### Where they part\n",
            "Rank correlation with Overall in parts of the corpus:\n",
            table(
                ["responses of", "n", *names],
                [[part, str(of["n"]), *(number(of[n]) for n in names)] for part, of in place["subsets"].items()],
            ),
            "Whom each puts where: the mean of each system in deviations from the mean of all:\n",
            table(
                ["system", "rated Overall", *names],
                [[name, f"{of['Overall']:.2f}", *(number(of[n], 2) for n in names)] for name, of in systems.items()],
            ),
            "How often the better rated of two responses to one context is the likelier; and where variance lies:\n",
            table(
                ["", "a person and a system", "two systems", "variance between systems", "between contexts"],
                [
                    [
                        name,
                        *(f"{place['pairs won'][name][kind]:.2f}" for kind in ("a person and a system", "two systems")),
                        *(f"{place['variance between'][name][kind]:.2f}" for kind in ("systems", "contexts")),
                    ]
                    for name in names
                ],
            ),
            "How well each foresees what is said, in nats a token (tokens differ between models):\n",
            table(
                ["", "a person's responses", "systems' responses"],
                [[n, f"{v['person']:.2f}", f"{v['systems']:.2f}"] for n, v in about["nats a token"].items()],
            ),
        ]
    )


def _cells(stands: Mapping[str, Any]) -> list[str]:
    low, high = stands["interval"]
    first = f"{number(stands['Overall'])} [{number(low, 2)}, {number(high, 2)}]"
    return [first, *(number(stands[name]) for name in STANDS[1:] if name in stands)]


def number(value: float | None, digits: int = 3) -> str:
    """A correlation as papers print it, without the nought, and with a true minus sign.

    >>> number(-0.3721), number(1.0), number(None), number(-1.25, 2)
    ('−.372', '1.000', '', '−1.25')
    """
    if value is None or value != value:
        return ""
    text = f"{abs(value):.{digits}f}"
    short = text[1:] if text.startswith("0.") else text
    return f"−{short}" if value < 0 and float(text) else short


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
