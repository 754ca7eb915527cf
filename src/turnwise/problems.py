"""Why a row, a score or a value is missing: a code for programs, and one text for people."""

from __future__ import annotations

from dataclasses import dataclass

# Every code with its text; the details of a problem fill the braces. Programs and tests match codes, never texts.
TEXTS: dict[str, str] = {
    "other": "{text}",
    # Folders that a run writes to.
    "folder.owned": "another run writes here ({owner}). Fix: wait for it, or choose another folder.",
    "folder.unwritable": "cannot be written ({reason}). Fix: choose another folder.",
    # Parts of a run: shards and partitions.
    "part.absent": "no part of a run ({reason}). Fix: make it with `shard`.",
    "part.version": "scored by another version of turnwise. Fix: score this part again.",
    "part.damaged": "{file}: {fault}. Fix: score this part again.",
    "part.partial": "expected a whole part of a run, got an interrupted one. Fix: score this part again.",
    "file.kept": "the file exists and may hold people's work. Fix: choose another file, or set `overwrite`.",
    # What `verify` finds.
    "verify.nothing": "expected a result, shard, cache or pack, found none. Fix: check the path.",
    "result.unfinished": "a save was cut short. Fix: run the command again; it first finishes the save.",
    "result.damaged": "{file}: {fault}. Fix: run the command again.",
    "result.version": "written by version 0.1, without hashes. Fix: run the command again.",
    "result.running": "{file} exists, so a run is under way or was killed. Fix: wait for it, or run it again.",
    "result.partial": "expected a complete result, got that of an interrupted run. Fix: run the command again.",
    "cache.damaged": "{count:,} answers are damaged or of version 0.1. Fix: none needed; they are computed again.",
    # Rows that cannot be read: lines of a file.
    "line.long": "expected at most {most} MiB, got a longer line. Fix: write one object a line.",
    "encoding": "byte {byte} of the line ({value}) is not UTF-8. Fix: save the file as UTF-8.",
    "json.syntax": "{what} at character {at}, got {got}. Fix: {fix}.",
    "json.deep": "nested too deeply. Fix: write one plain JSON object a line.",
    "json.digits": "a number with too many digits. Fix: write one plain JSON object a line.",
    "json.open": "the list is never closed. Fix: the file seems cut off; make it again.",
    "json.trailing": "text after the end of the list. Fix: put everything inside the list.",
    "csv.cells": "expected {width}, got {cells}. Fix: quote cells that hold delimiters or line breaks.",
    "csv.swallowed": "expected {width}, got {cells} over {lines} lines. "
    'Fix: close the quote that opens here; write a quote inside as "".',
    "csv.long": "a cell of more than {most:,} characters. Fix: close the quote that opens it, or shorten it.",
    "csv.open": 'a quote that opens here is never closed. Fix: close it; write a quote inside as "".',
    "csv.quoting": 'wrong quoting ({reason}). Fix: quote the whole cell; write a quote inside as "".',
    # Rows that cannot be read: fields.
    "row.type": 'expected an object, got {kind}. Fix: write {{"response": "..."}}.',
    "response.missing": "missing. Fix: give every row the text to judge.",
    "response.blank": "blank. Fix: give the reply's text, or remove the row.",
    "response.long": "expected at most {most:,} characters, got {length:,}. Fix: shorten it.",
    "text.type": "expected text, got {kind}. Fix: write a string.",
    "text.surrogate": "half a surrogate pair (U+{value}){byte} at character {at}. "
    "Fix: write the whole character, or remove it.",
    "texts.type": 'expected a list of texts, got {kind}. Fix: write ["...", "..."].',
    "name.type": "expected a name, got {kind}. Fix: write it as a string.",
    "name.missing": "no name. Fix: name everybody in the list.",
    "names.type": 'expected a list of names, got {kind}. Fix: write ["...", "..."].',
    "speakers.count": "expected {turns}, one for each turn, got {names}. "
    "Fix: name every context turn and then the response.",
    "ratings.type": 'expected an object, got {kind}. Fix: write {{"Overall": [4, 5, null]}}.',
    "ratings.count": "expected {raters}, one for each rater, got {ratings}. Fix: write null where one is missing.",
    "rating.type": "expected a number, got {kind} ({got}). Fix: write a number, or null for a missing rating.",
    "rating.finite": "expected a finite number, got {got}. Fix: write a number, or null for a missing rating.",
    "rated.unknown": "expected turn or dialogue, got {got}.",
    "id.repeated": "{id} occurs a second time for system {system} in this file. "
    "Fix: give every row its own id, or none.",
    # Rows that cannot be read: chat messages.
    "messages.type": 'expected a list, got {kind}. Fix: write [{{"role": "user", ...}}].',
    "messages.empty": "no assistant message with something before it. Fix: give at least a user message and a reply.",
    "message.type": 'expected an object, got {kind}. Fix: write {{"role": "user", "content": "..."}}.',
    "message.role": "expected user or assistant, got {got}.",
    "message.part": 'expected an object, got {kind}. Fix: write {{"type": "text", "text": "..."}}.',
    # Rows that cannot be read: items of a release.
    "item.missing": "missing. Fix: check that the corpus named is this file's.",
    "item.type": "expected {expected}, got {kind}. Fix: take the file as its authors released it.",
    "item.empty": "no responses. Fix: take the file as its authors released it.",
    "item.shape": "{reason}. Fix: take the file as its authors released it.",
    "item.speaker": '{reason}. Fix: begin every turn with "User:" or "System:".',
    # What the rows of a run have in common.
    "row.more": "{count:,} more rows could not be read",
    "score.missing": "{note}: no score from {metrics} for {count} of {rows} rows (first here); "
    "mend the rows or drop the metric",
    "value.missing": "{note}: no value of {metric}",
    "system.joined": "{first} and {second} are counted as one system, {system}, by their names; give rows a system",
    "dialogue.joined": "counted into a dialogue of an earlier file with the same id, system and first words "
    "({rows}, the first here); give dialogues of their own other ids",
    # Why a score is missing, or what it leaves out.
    "score.no_context": "no context",
    "score.no_facts": "no facts",
    "score.no_group": "no group",
    "score.no_references": "no references",
    "score.blank_response": "the response is blank",
    "score.no_earlier_turn": "no earlier turn of the same speaker",
    "score.no_tokens": "no token to judge",
    "score.no_words": "no words",
    "score.few_words": "fewer than {n} words",
    "score.no_reference_words": "no words in the references",
    "score.no_vectors": "no word of the {whose} has a vector",
    "score.no_cutoff": "the low quantile is 0, so there is nothing to normalise by",
    "score.average_counted": "no facts: an average {part} was counted",
    "score.unreferenced_alone": "no references, so its unreferenced part alone",
    "score.part_unscored": "{why} ({part})",
    "score.parts_unscored": "{all}",
    "score.not_asked": "not what this was asked for",
    "score.judged_together": "{metric} judges many responses together; use evaluate",
    "score.metric_failed": "{error} in the metric ({text})",
    "score.not_finite": "the metric gave {value}, which is no number",
    # Why a system or a group has no value.
    "value.few_responses": "one response has no spread; give at least two",
    "value.few_vectors": "{n} vectors are fewer than the {clusters} clusters",
    "value.single_replies": "no group has two replies",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """Name what is wrong, and where.

    `place` is a file and line, a field or an option; `details` fill the text of the code.

    >>> str(Problem.of("other", "chats.jsonl:3", text="odd"))
    'chats.jsonl:3: odd'
    """

    code: str
    place: str = ""
    details: tuple[tuple[str, str | int | float], ...] = ()

    @classmethod
    def of(cls, code: str, place: str = "", **details: str | int | float) -> Problem:
        """Return the problem of this code; a code that is not in `TEXTS` is a mistake of the caller."""
        if code not in TEXTS:
            raise KeyError(code)
        return cls(code, place, tuple(details.items()))

    def __str__(self) -> str:
        text = " ".join(TEXTS[self.code].format(**dict(self.details)).split())
        return f"{self.place}: {text}" if self.place else text


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, for messages.

    >>> counted(1, "turn"), counted(1200, "turn")
    ('1 turn', '1,200 turns')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
