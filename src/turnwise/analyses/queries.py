"""Queries asked in several ways: by synonyms, by what a language model would have said, or, as the baseline, in one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from turnwise.dialogue import Example
from turnwise.engine.score import context_key
from turnwise.io.write import example_to_dict
from turnwise.options import Run
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
