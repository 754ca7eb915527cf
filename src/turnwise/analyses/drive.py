"""Queries asked in several ways, and a system under test that answers them: a killed run goes on."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Literal

from turnwise.analyses.evaluate import Result, evaluated
from turnwise.bots.base import Bot, BotError, Prompt, ask
from turnwise.dialogue import Example
from turnwise.engine.aggregate import Summary
from turnwise.engine.score import Judged, context_key
from turnwise.errors import TurnwiseError
from turnwise.interrupts import deferred
from turnwise.io.source import PYTHON
from turnwise.io.write import example_to_dict
from turnwise.metrics.base import Score
from turnwise.metrics.registry import load_metric
from turnwise.options import Run
from turnwise.problems import Problem
from turnwise.text.augment.substitute import Sense, Style, paraphrases

Method = Literal["ws", "ctg", "baseline"]
Purpose = Literal["diversity", "consistency"]

AS_SAID = "as said"
PER_QUERY = 4


@dataclass(frozen=True, slots=True)
class Way:
    """One way to ask: its words, and how it was made."""

    text: str
    label: str


@dataclass(frozen=True, slots=True)
class Query:
    """A context whose last turn is asked in several ways, the first of them as it was said."""

    name: str
    example: Example
    ways: tuple[Way, ...]

    def asked(self, place: int) -> dict[str, Any]:
        """The context with its last turn in another way: a row of the group, without an answer."""
        way = self.ways[place]
        context = (*self.example.context[:-1], way.text)
        return self._row(f"{self.name}/{place}", context, self.example.speakers, "diversity", way, group=self.name)

    def asked_again(self, answer: str, place: int = 1) -> dict[str, Any]:
        """The whole context, its answer, and then the query once more in another way."""
        way = self.ways[place]
        speakers = self.example.speakers
        if speakers:
            # Whoever asked asks again.
            speakers = (*speakers, speakers[-2], speakers[-1])
        context = (*self.example.context, answer, way.text)
        return self._row(f"{self.name}/again{place}", context, speakers, "consistency", way)

    def _row(
        self,
        id_: str,
        context: tuple[str, ...],
        speakers: tuple[str, ...],
        purpose: Purpose,
        way: Way,
        group: str | None = None,
    ) -> dict[str, Any]:
        example = replace(self.example, id=id_, context=context, speakers=speakers, group=group)
        return unanswered(example) | {"purpose": purpose, "variant": way.label}


def unanswered(example: Example) -> dict[str, Any]:
    """An example as a row that waits for its response."""
    asked = replace(example, response="", references=(), ratings={}, raters=(), rated="turn")
    row = example_to_dict(asked)
    return {key: value for key, value in row.items() if key not in ("response", "system")}


@dataclass
class Asking:
    """How queries are made, and what could not be."""

    method: Method = "ws"
    variants: int = PER_QUERY
    sense: Sense = "first"
    style: Style = "repaired"
    run: Run = field(default_factory=Run)
    shortfalls: Counter[str] = field(default_factory=Counter)

    def queries(self, examples: Iterable[Example]) -> Iterator[Query]:
        """A query for every different context."""
        say_again = self._writer() if self.method == "ctg" else self._substituter()
        seen: set[int] = set()
        names: Counter[str] = Counter()
        for example in examples:
            if not example.context or not example.context[-1].strip():
                self.shortfalls["rows without a context to ask anew"] += 1
                continue
            if (key := context_key(example)) in seen:
                continue
            seen.add(key)
            ways = say_again(example)
            if len(ways) < self.variants:
                self.shortfalls[f"queries with fewer than {self.variants} other ways to ask"] += 1
            name = example.context_id or example.id
            names[name] += 1
            name = name if names[name] == 1 else f"{name}~{names[name]}"
            yield Query(name, example, (Way(example.context[-1], AS_SAID), *ways))

    def _substituter(self) -> Callable[[Example], list[Way]]:
        def substitute(example: Example) -> list[Way]:
            query, history = example.context[-1], example.context[:-1]

            def rank(texts: Sequence[str]) -> list[float]:
                return self._likelihoods(history, texts)

            said = paraphrases(query, self.variants, sense=self.sense, style=self.style, seed=self.run.seed, rank=rank)
            return [Way(paraphrase.text, f"ws {paraphrase.kind}") for paraphrase in said]

        return substitute

    def _likelihoods(self, history: Sequence[str], texts: Sequence[str]) -> list[float]:
        from turnwise.models import quality
        from turnwise.models.requests import TokenScores

        requests = [quality.coherence(history[-1], text) if history else quality.fluency(text) for text in texts]
        with self.run.backend.session() as session:
            answers = session.answer(requests)
        found = [answers[request] for request in requests]
        return [quality.total(answer) if isinstance(answer, TokenScores) else 0.0 for answer in found]

    def _writer(self) -> Callable[[Example], list[Way]]:
        from turnwise.bots.local import prompt_text
        from turnwise.bots.open import BotOptions, open_writer

        writer = open_writer(BotOptions(models=self.run.backend.models, device=self.run.backend.device))

        def write(example: Example) -> list[Way]:
            history = example.context[:-1]
            if not history:
                self.shortfalls["queries that open their conversation, so that nothing leads up to them"] += 1
                return []
            # Some more than wanted: the query itself may be among them, or what was said before, word for word.
            found = writer.beams(prompt_text(history), self.variants + 2)
            known = {turn.strip().lower() for turn in example.context}
            said = [beam.text for beam in found if beam.text.lower() not in known]
            return [Way(text, f"ctg beam {place}") for place, text in enumerate(said[: self.variants], start=1)]

        return write

    def notes(self) -> list[str]:
        """What fell short, in words."""
        return [f"{what}: {count}" for what, count in self.shortfalls.items()]


def unrelated_groups(examples: Sequence[Example], size: int, seed: int) -> list[list[Example]]:
    """The paper's baseline: groups of responses to different contexts, every system's to the same ones.

    No two contexts of a group come from one dialogue where that is known; what does not fill a group is left out.
    """
    by_context: dict[int, list[Example]] = {}
    for example in examples:
        by_context.setdefault(context_key(example), []).append(example)
    waiting = list(by_context.values())
    Random(seed).shuffle(waiting)
    groups: list[list[Example]] = []
    while len(waiting) >= size:
        members: list[list[Example]] = []
        for of_context in waiting:
            homes = {member[0].dialogue_id for member in members}
            if of_context[0].dialogue_id is None or of_context[0].dialogue_id not in homes:
                members.append(of_context)
            if len(members) == size:
                break
        if len(members) < size:
            break
        taken = {id(member) for member in members}
        waiting = [of_context for of_context in waiting if id(of_context) not in taken]
        name = f"unrelated-{len(groups)}"
        groups.append([replace(example, group=name) for member in members for example in member])
    return groups


# A bot that fails this often in a row is down, and asking on would only make a hole in the results.
GIVE_UP = 5
# How every row of a ledger begins.
FIRST = b'{"id": "'


class Ledger:
    """One bot's answered rows in a file of JSON Lines. Every row is on disk before the next one is asked for.

    `of` is what each row says of its bot: what it is called, and the mark that tells it from others of that name.
    """

    def __init__(self, path: Path, system: str, mark: str | None = None) -> None:
        self.path = path
        self.of = {"system": system} | ({} if mark is None else {"bot": mark})
        self.rows: dict[str, dict[str, Any]] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        except OSError as problem:
            raise TurnwiseError(f"{path}: cannot be written ({problem.strerror}); choose another place") from None
        self._file.seek(0)
        end = 0
        for number, line in enumerate(self._file, start=1):
            # A run that was killed may have left half a line; its answer is asked for again.
            if not line.endswith(b"\n") and FIRST.startswith(line[: len(FIRST)]):
                break
            self._take(line, number)
            end += len(line)
        self._file.truncate(end)

    def _take(self, line: bytes, number: int) -> None:
        try:
            row = json.loads(line)
            system = row.get("system")
            self.rows[row["id"]] = row | {"response": str(row["response"])}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise TurnwiseError(
                f"{self.path}:{number}: not a row that a bot answered; give `save` another file, or remove this one"
            ) from None
        # Files from before bots were marked have only the name to go by.
        if system != self.of["system"] or row.get("bot", self.of.get("bot")) != self.of.get("bot"):
            whose = f"'{system}'" if system != self.of["system"] else f"another bot that was called '{system}'"
            unmarked = f", or go on with it by `system={system}`" if "bot" not in row else ""
            raise TurnwiseError(
                f"{self.path}:{number}: an answer of {whose}; this file belongs to another run, "
                f"give `save` another one{unmarked}"
            )

    def answer(self, row: dict[str, Any]) -> str | None:
        """The answer to a row, if it is there already."""
        found = self.rows.get(row["id"])
        if found is None:
            return None
        if found.get("context") != row["context"]:
            raise TurnwiseError(
                f"{self.path}: '{row['id']}' was asked otherwise there; this file belongs to another run, "
                "give `save` another one"
            )
        return str(found["response"])

    def keep(self, row: dict[str, Any]) -> None:
        """Write an answered row."""
        self._before = self._file.seek(0, os.SEEK_END)
        self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        self.rows[row["id"]] = row

    def withdraw(self, id_: str) -> None:
        """Take the row back that was written last."""
        self._file.truncate(self._before)
        del self.rows[id_]

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


class Driver:
    """Asks a bot, row by row. `rows` are those that have an answer; `known` are the true answers to each context."""

    def __init__(
        self,
        bot: Bot,
        ledger: Ledger,
        known: Mapping[tuple[str, ...], tuple[str, ...]],
        retries: int = 2,
        progress: Iterator[None] | None = None,
    ) -> None:
        self._bot, self._ledger, self._known = bot, ledger, known
        self._retries, self._progress = retries, progress
        self.rows: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.kept = 0
        self._in_a_row = 0
        self._last: str | None = None

    def ask_query(self, query: Query, purpose: str) -> None:
        """Ask a query in all its ways, and once more after its answer."""
        hidden = self._known.get(query.example.context, ())
        places = range(len(query.ways)) if purpose != "consistency" else range(1)
        answers = [self._answer(query.asked(place), hidden) for place in places]
        if purpose != "diversity" and answers[0] is not None and len(query.ways) > 1:
            self._answer(query.asked_again(answers[0]), hidden)

    def ask_all(self, examples: Iterable[Example]) -> None:
        """Ask every context as it is."""
        for example in examples:
            self._answer(unanswered(example), self._known.get(example.context, ()))

    def _answer(self, row: dict[str, Any], hidden: tuple[str, ...]) -> str | None:
        answer = self._ledger.answer(row)
        if answer is not None:
            self.kept += 1
        else:
            context, facts, speakers = (tuple(row.get(field, ())) for field in ("context", "facts", "speakers"))
            answer = self._asked(row["id"], Prompt(context, facts, speakers, hidden))
            if answer is None:
                return None
            with deferred():
                self._ledger.keep(row | {"response": answer} | self._ledger.of)
                self._last = row["id"]
        self.rows.append(row | {"response": answer} | self._ledger.of)
        if self._progress is not None:
            next(self._progress)
        return answer

    def _asked(self, id_: str, prompt: Prompt) -> str | None:
        try:
            answer = ask(self._bot, prompt, retries=self._retries, withdraw=self._withdraw)
        except BotError as failure:
            self.failures.append(f"{id_}: {self._bot.name} {failure}")
            self._in_a_row += 1
            if self._in_a_row == GIVE_UP:
                raise TurnwiseError(
                    f"the bot failed {GIVE_UP} times in a row, the last time because it {failure}; its answers so far "
                    f"are in {self._ledger.path}, and the same command goes on from there"
                ) from None
            return None
        self._in_a_row = 0
        return answer

    def finish(self) -> None:
        """Withdraw the last answer if the bot shows that it may be that to another prompt."""
        try:
            self._bot.settle()
        except BotError as failure:
            self._withdraw(failure)

    def _withdraw(self, failure: BotError) -> None:
        """Take the last answer back: it may be that to another prompt. A second run asks for it again."""
        if self._last is not None:
            self._ledger.withdraw(self._last)
            self.rows = [row for row in self.rows if row["id"] != self._last]
            self.failures.append(f"{self._last}: {self._bot.name} {failure}; its answer is withdrawn")
            self._last = None

    def notes(self) -> list[str]:
        """What a reader of the results should know."""
        said = [f"{self.kept} answers were in {self._ledger.path} already"] if self.kept else []
        if self.failures:
            first = self.failures[0]
            said.append(f"{len(self.failures)} prompts got no answer and are left out; the first: {first}")
        return said


def score_answers(
    rows: Sequence[dict[str, Any]],
    metrics: Sequence[str] | None,
    ledger: Ledger,
    *,
    purpose: str,
    unrelated: bool,
    run: Run,
) -> tuple[Result | None, list[str]]:
    """Consistency of what was asked again, and everything else of what was asked in several ways."""
    notes = []
    if metrics is None:
        metrics = ["diversity", "consistency"] if purpose == "both" else [purpose]
        if "consistency" in metrics and "nli" not in run.backend.session().roles:
            metrics = [request for request in metrics if request != "consistency"]
            notes = ["no consistency: it needs a model for 'nli'; give `models`"]
    purposes: dict[str, list[str]] = {"diversity": [], "consistency": []}
    for request in metrics:
        purposes["consistency" if load_metric(request).name == "consistency" else "diversity"].append(request)
    results = []
    for purpose, requests in purposes.items():
        chosen = [row for row in rows if unrelated or row.get("purpose") == purpose]
        if requests and chosen:
            result = evaluated(chosen, requests, Run(backend=run.backend, seed=run.seed))
            results.append(_in_file(result, chosen, ledger))
    return _together(results, seed=run.seed), notes


def _in_file(result: Result, rows: Sequence[dict[str, Any]], ledger: Ledger) -> Result:
    """A result of rows that were handed over, with the place in the ledger where a reader finds each of them."""
    lines = {id_: number for number, id_ in enumerate(ledger.rows, start=1)}
    places = {f"{PYTHON.file}:{n}": f"{ledger.path}:{lines[row['id']]}" for n, row in enumerate(rows, start=1)}

    def located(problem: Problem) -> Problem:
        row, colon, field = problem.place.partition(": ")
        return replace(problem, place=places.get(row, row) + colon + field)

    judged = [
        replace(item, row=replace(item.row, file=str(ledger.path), line=lines.get(item.row.id, item.row.line)))
        for item in result.judged
    ]
    return replace(result, judged=judged, problems=[located(problem) for problem in result.problems])


def _together(results: Sequence[Result], *, seed: int) -> Result | None:
    """Results of different rows by different metrics as one; what a metric was not asked about has no score."""
    if not results:
        return None
    merged = {key: metric for result in results for key, metric in result.metrics.items()}
    judged: dict[str, Judged] = {}
    for result in results:
        for item in result.judged:
            known = judged[item.row.id].scores if item.row.id in judged else {}
            judged[item.row.id] = Judged(item.row, {**known, **item.scores})
    whole = [
        Judged(item.row, {key: item.scores.get(key, Score(None, note=Problem.of("score.not_asked"))) for key in merged})
        for item in judged.values()
    ]
    summary = Summary(merged)
    for item in whole:
        summary.add(item)
    problems = list(dict.fromkeys(line for result in results for line in result.problems))
    return replace(results[0], metrics=merged, judged=whole, system_values=summary.system_values(seed=seed),
                   summary=summary, problems=problems,
                   models={key: made for result in results for key, made in result.models.items()})  # fmt: skip
