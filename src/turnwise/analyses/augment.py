"""`augment`: write queries anew, for a dialogue system to answer; or drive the system, and measure its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Unpack, cast

from turnwise.analyses.drive import PER_QUERY, Asking, Driver, Ledger, Method, score_answers, unrelated_groups
from turnwise.analyses.evaluate import check_targets
from turnwise.analyses.result import Result, Rows
from turnwise.bots.base import Bot
from turnwise.bots.http import KEY_VARIABLE
from turnwise.bots.open import BotOptions, mark_of, open_bot
from turnwise.dialogue import Example
from turnwise.errors import TurnwiseError
from turnwise.files import write_text
from turnwise.io.read import describe
from turnwise.io.write import example_to_dict
from turnwise.options import Reading, Run, RunOptions, name_of, renamed
from turnwise.problems import Problem
from turnwise.text.augment.substitute import Sense, Style

Purposes = Literal["diversity", "consistency", "both"]

TOO_FEW = "too few different contexts for a group: it takes one more than `variants`"


class BotRunOptions(RunOptions, total=False):
    """The options of a run that asks a bot.

    `bot_model`: the model at an HTTP address. `bot_key`: the environment variable with its key. `timeout`: seconds to
    wait for an answer. `retries`: how often a failed prompt is sent again.
    """

    bot_model: str | None
    bot_key: str
    timeout: float
    retries: int


@dataclass(repr=False)
class Augmentation(Rows[dict[str, Any]]):
    """Rows that wait for their responses, or, where a bot was asked, rows with them and their scores."""

    result: Result | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the rows, and the document of the answers' scores if a bot gave them."""
        scores = {} if self.result is None else {"scores": self.result.to_dict()}
        return {"rows": self.rows, **scores}

    def lines(self) -> Iterator[str]:
        """The rows as JSON Lines."""
        return (json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows)

    def save(self, path: str | Path) -> Path:
        """Write the rows as JSON Lines."""
        check_targets(files=[Path(path)])
        _refuse_to_lose(Path(path), self.rows)
        return write_text(path, self.lines())


def augment(
    source: object,
    metrics: Sequence[str] | None = None,
    *,
    method: Method = "ws",
    purpose: Purposes | None = None,
    variants: int = PER_QUERY,
    sense: Sense = "first",
    style: Style = "repaired",
    bot: str | Bot | Callable[[Mapping[str, Any]], str] | None = None,
    system: str | None = None,
    save: str | Path | None = None,
    limit: int | None = None,
    **options: Unpack[BotRunOptions],
) -> Augmentation:
    """Ask every query in several ways, for metrics of groups of replies.

    Without a bot the rows wait for their responses, which your own system fills in. With one, every answer is kept in
    the file `save` at once, and a second run goes on where the first one ended.

    Args:
        source: The rows whose last turn of context is the query.
        metrics: The metrics that score a bot's answers; default: those that the purpose calls for.
        method: `ws` for WordNet synonyms, `ctg` for beams of a language model, `baseline` for unrelated queries.
        purpose: `diversity` puts each wording in the place of the query; `consistency` asks it after a first answer.
        variants: How many wordings each query gets.
        sense: Which WordNet senses of a word count.
        style: Whether words are inflected as the sentence needs them, or stand as the paper's code left them.
        bot: The system that answers: a function, a bot, or the address of one.
        system: The name of the bot in the results.
        save: The file of the rows, as JSON Lines.
        limit: How many contexts to use; default: all.
        options: The options of a run, by name: see `turnwise.options.RunOptions` and
            `turnwise.analyses.augment.BotRunOptions`.

    Returns:
        The rows, and with a bot the `Result` of its answers.

    >>> import turnwise as tw
    >>> made = tw.augment([{"context": ["Do you like big dogs?"], "response": "Yes."}], variants=2)
    >>> [row["context"][-1] for row in made.rows]
    ['Do you like big dogs?', 'Do you like big frumps?', 'Do you like large frumps?']
    """
    if variants < 1:
        raise TurnwiseError(f"`variants`: expected a whole number of at least 1, got {variants}")
    save = renamed(options, "out", "save", save)
    asked_by = BotOptions(
        timeout=options.pop("timeout", 60.0),
        model=options.pop("bot_model", None),
        key_variable=options.pop("bot_key", KEY_VARIABLE),
    )
    retries = options.pop("retries", 2)
    run = Run.of(**cast(RunOptions, options))
    if save is not None:
        check_targets(source, files=[Path(save)])
    examples, problems = _examples(source, run.reading)
    # What a bot that looks things up may find does not depend on how many contexts it is asked about.
    every = examples
    examples = examples if limit is None else _first_contexts(examples, limit)
    asking = Asking(method, variants, sense, style, run)
    if bot is None:
        if metrics is not None:
            raise TurnwiseError("`metrics` are for answers; add `bot`, or score the answered file")
        if save is not None and method != "baseline":
            # What is about to be made has no answers; beams of a language model are too dear to find that out later.
            _refuse_to_lose(Path(save), ())
        rows = list(_offline(examples, asking, purpose or "diversity"))
        if not rows:
            why = asking.notes() or [TOO_FEW]
            raise TurnwiseError(f"{name_of(source)}: there is nothing to ask; {'; '.join(why)}")
        made = Augmentation(rows, asking.notes(), problems)
        if save is not None:
            made.save(save)
        return made
    if save is None:
        raise TurnwiseError("`bot`: answers must be kept somewhere; give `save=FILE.jsonl`")
    wanted = purpose or "both"
    backend = run.backend
    asked_by = replace(asked_by, models=backend.models, device=backend.device, cache=backend.cache, seed=run.seed)
    opened = open_bot(bot, every, asked_by)
    try:
        ledger = Ledger(Path(save), system or opened.name, mark_of(bot, asked_by))
    except TurnwiseError:
        opened.close()
        raise
    driver = Driver(opened, ledger, _known_answers(examples), retries, run.progress)
    try:
        if method == "baseline":
            for group in unrelated_groups(examples, variants + 1, run.seed):
                driver.ask_all({context.context: context for context in group}.values())
        else:
            for query in asking.queries(examples):
                driver.ask_query(query, wanted)
        driver.finish()
    finally:
        opened.close()
        ledger.close()
    if not driver.rows:
        why = [f"the first failure: {driver.failures[0]}"] if driver.failures else asking.notes() or [TOO_FEW]
        asked = f"none of {len(driver.failures)} prompts was answered" if driver.failures else "there is nothing to ask"
        raise TurnwiseError("; ".join([f"{name_of(source)}: {asked}", *why]))
    result, notes = score_answers(
        driver.rows,
        metrics,
        ledger,
        purpose=wanted,
        unrelated=method == "baseline",
        run=run,
    )
    return Augmentation(driver.rows, [*asking.notes(), *driver.notes(), *notes], problems, result)


def _refuse_to_lose(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows that wait for their responses must not take the place of those that have them."""
    if not file.is_file():
        return
    kept = {(row["id"], row.get("response")) for row in rows}
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                lost = bool(row.get("response")) and (row.get("id"), row["response"]) not in kept
            except (ValueError, AttributeError, TypeError):
                found = "is there already and holds something else"
                raise TurnwiseError(f"{file}: {found}; give `save` another file") from None
            if lost:
                raise TurnwiseError(
                    f"{file}:{number}: has an answer, which would be lost; give `save` another file, or remove this one"
                )


def _examples(source: object, reading: Reading) -> tuple[list[Example], list[Problem]]:
    examples, problems = [], []
    for row in reading.rows(source):
        if row.example is not None:
            examples.append(row.example)
        elif reading.strict:
            raise TurnwiseError(describe(row))
        else:
            problems.append(describe(row))
    if not examples:
        why = f"no row can be used; the first: {problems[0]}" if problems else "there are no rows"
        raise TurnwiseError(f"{name_of(source)}: there is nothing to ask; {why}")
    return examples, problems


def _known_answers(examples: Sequence[Example]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Everything that the input says was answered to each context."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    for example in examples:
        known[example.context] = (*known.get(example.context, ()), example.response, *example.references)
    return known


def _first_contexts(examples: Sequence[Example], limit: int) -> list[Example]:
    """The rows of the first so many contexts."""
    kept = set(list(dict.fromkeys(example.context for example in examples))[:limit])
    return [example for example in examples if example.context in kept]


def _offline(examples: Sequence[Example], asking: Asking, purpose: Purposes) -> Iterator[dict[str, Any]]:
    """Rows for a system that is not at hand: it reads the file, and writes its response into every row."""
    if asking.method == "baseline":
        for group in unrelated_groups(examples, asking.variants + 1, asking.run.seed):
            yield from (example_to_dict(example) for example in group)
        return
    answered: dict[tuple[str, ...], list[Example]] = {}
    for example in examples:
        answered.setdefault(example.context, []).append(example)
    for query in asking.queries(examples):
        if purpose != "consistency":
            yield from (query.asked(place) for place in range(len(query.ways)))
        if purpose != "diversity" and len(query.ways) > 1:
            # Each system is held to its own answer.
            for own in answered[query.example.context]:
                row = query.asked_again(own.response)
                yield row | {"id": f"{row['id']}/{own.system}", "system": own.system}
