"""`agreement`: how far the raters agree with each other, in every form that the papers report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Unpack

import numpy as np

from turnwise.analyses.evaluate import check_qualities
from turnwise.analyses.ratings import named_twice, rated_unit, rater_names
from turnwise.analyses.result import Rows
from turnwise.dialogue import Example, Row
from turnwise.engine.score import cluster_key
from turnwise.errors import TurnwiseError
from turnwise.io.read import describe, names_apart
from turnwise.options import Run, RunOptions
from turnwise.problems import Problem, counted
from turnwise.stats import agreement as forms


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One form of agreement on one quality of one corpus."""

    corpus: str
    quality: str
    method: str
    n_items: int
    n_raters: int
    value: float | None
    low: float | None
    high: float | None


NO_RATINGS = '; add a field such as "ratings": {"Overall": [4, 5, 3]}'


class Undefined:
    """Pairs and raters that a mean leaves out, because somebody never varied."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, int, int], list[str]] = {}

    def see(self, quality: str, form: str, found: forms.AgreementValue) -> None:
        """Note what is left out of one value."""
        if found.undefined and found.value is not None:
            self._forms.setdefault((quality, found.undefined, found.averaged), []).append(form)

    def remarks(self) -> Iterator[str]:
        """One line for each quality and number."""
        for (quality, undefined, averaged), names in self._forms.items():
            of = "raters" if all(name.startswith("leave-one-out") for name in names) else "pairs"
            share = f"{undefined} of {averaged} {of}"
            yield f"{quality}: {share} left out of {', '.join(names)}, undefined where all ratings are the same"


class Agreement(Rows[AgreementRow]):
    """Agreement of the raters."""


def agreement(
    source: object,
    *,
    qualities: Sequence[str] | None = None,
    **options: Unpack[RunOptions],
) -> Agreement:
    """Measure how far raters agree, per quality: slot pairs, rater pairs, leave-one-out, kappas, alphas.

    Args:
        source: Rated rows: a path or several, dicts, Examples or a frame. Each file is a corpus with its own raters.
        qualities: The rated qualities to measure; default: all.
        options: The options of a run, by name: see `turnwise.options.RunOptions`.

    Returns:
        One row per corpus, quality and coefficient.

    >>> import turnwise as tw
    >>> replies = {"Yes.": [5, 5], "No.": [1, 2], "Maybe.": [3, 3]}
    >>> rows = [{"context": ["Tea?"], "response": r, "ratings": {"Overall": given}} for r, given in replies.items()]
    >>> found = tw.agreement(rows).frame.filter(method="alpha-interval")
    >>> round(found["value"].item(), 3)
    0.935
    """
    run = Run.of(**options)
    problems: list[Problem] = []
    files: dict[str, list[Row]] = {}
    for row in run.reading.rows(source):
        if row.example is None:
            if run.reading.strict:
                raise TurnwiseError(describe(row))
            problems.append(describe(row))
        else:
            files.setdefault(row.file, []).extend([row] if row.example.ratings else [])
    examples = {file: _one_per_dialogue(rated) for file, rated in files.items()}
    found = (quality for rated in examples.values() for example in rated for quality in example.ratings)
    known = list(dict.fromkeys(found))
    if not known:
        why = f"; the first problem: {problems[0]}" if problems else ""
        raise TurnwiseError(f"no row has ratings{why or NO_RATINGS}")
    check_qualities(known, qualities)
    chosen = [quality for quality in known if qualities is None or quality in qualities]
    names = names_apart(files)
    rows: list[AgreementRow] = []
    notes: list[str] = []
    for file, rated in examples.items():
        if not rated:
            notes.append(f"{names[file]}: no ratings")
            continue
        undefined = Undefined()
        rows += [row for quality in chosen for row in _rows(names[file], quality, rated, run.seed, undefined)]
        remarks = chain(_not_named(rated, chosen), undefined.remarks())
        notes += [*(f"{names[file]}: {note}" for note in remarks), *named_twice(files[file])]
    if not rows:
        raise TurnwiseError("every item has at most one rating; agreement needs two raters per item")
    return Agreement(rows, notes, problems)


def _one_per_dialogue(rows: list[Row]) -> list[Example]:
    """Ratings of a whole dialogue stand on each of its turns; they are one judgement, and count once."""
    kept: dict[object, Example] = {}
    for position, example in enumerate(row.example for row in rows if row.example):
        kept.setdefault(rated_unit(example, position), example)
    return list(kept.values())


def _not_named(examples: list[Example], qualities: Sequence[str]) -> Iterator[str]:
    """Where only some rows say who rated: what is then missing or other than expected."""
    alike: dict[tuple[int, int], list[str]] = {}
    for quality in qualities:
        items = _rated(examples, quality)
        unnamed = sum(not example.raters for example in items)
        if 0 < unnamed < len(items):
            alike.setdefault((unnamed, len(items)), []).append(quality)
    for (unnamed, of), names in alike.items():
        lacking = f"{unnamed} of {counted(of, 'row')} with ratings of {', '.join(names)} {_have(unnamed)} no raters"
        yield f"{lacking}: each slot counts as one rater, and rater-pairs are left out; name the raters of every row"


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _rated(examples: list[Example], quality: str) -> list[Example]:
    return [example for example in examples if len(example.ratings.get(quality, ())) > 0]


def _rows(corpus: str, quality: str, examples: list[Example], seed: int, undefined: Undefined) -> list[AgreementRow]:
    items = _rated(examples, quality)
    slots = max((len(example.ratings[quality]) for example in items), default=0)
    if slots < 2:
        return []
    if all(sum(rating is not None for rating in example.ratings[quality]) < 2 for example in items):
        return []
    ratings = np.full((len(items), slots), np.nan)
    raters = np.full((len(items), slots), None, dtype=object)
    for position, example in enumerate(items):
        given = example.ratings[quality]
        ratings[position, : len(given)] = [np.nan if rating is None else rating for rating in given]
        raters[position, : len(given)] = rater_names(example, len(given))
    clusters = np.array([cluster_key(example) for example in items], dtype=np.int64)
    named = all(example.raters for example in items)
    rows = []
    for form in forms.FORMS:
        # Without names a slot is all there is to go by, and pairs of raters are the pairs of slots again.
        if not named and form.startswith("rater-pairs"):
            continue
        found = forms.agreement(form, ratings, raters if named else None, clusters, seed=seed)
        undefined.see(quality, form, found)
        numbers = (found.n_items, found.n_raters, found.value, found.low, found.high)
        rows.append(AgreementRow(corpus, quality, form, *numbers))
    return rows
