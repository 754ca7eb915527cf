"""JSON Lines, and `.json` files that hold one list, as streams of objects with their line numbers."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Iterator

from turnwise.io.base import Reader, Records, kind, register
from turnwise.problems import Problem

BOM = codecs.BOM_UTF8
# A line or a value beyond this is no row of dialogue; reading on would fill the memory.
MAX_BYTES = 1 << 26
CHUNK = 1 << 16

_SIGNS = re.compile(r'["\[\]{},\n]|\\.', re.DOTALL)
_OPENS = {"}": "{", "]": "["}

_decode = json.JSONDecoder().decode
_decode_at = json.JSONDecoder().raw_decode


def numbered_lines(stream: io.BufferedReader, before: int = 0) -> Iterator[tuple[int, bytes | Problem]]:
    """Yield the lines of a file, split at line feeds alone, without the mark that may open a UTF-8 file."""
    number = before
    while line := stream.readline(MAX_BYTES):
        number += 1
        if number == 1 and line.startswith(BOM):
            line = line[len(BOM) :]
        if len(line) == MAX_BYTES and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_BYTES)
            yield number, Problem.of("line.long", "line", most=MAX_BYTES >> 20)
        else:
            yield number, line


def json_lines(stream: io.BufferedReader, before: int = 0) -> Records:
    """Yield one object a line; blank lines are skipped. `before` is how many lines have gone before these."""
    for number, line in numbered_lines(stream, before):
        if isinstance(line, Problem):
            yield number, line
        elif line and not line.isspace():
            yield number, parse_line(line)


def parse_line(line: bytes) -> object:
    """Return the object on a line, or the problem with it."""
    try:
        value = _decode(line.rstrip().decode())
    except UnicodeDecodeError as problem:
        return bad_byte(problem)
    except json.JSONDecodeError as problem:
        return _bad_syntax(problem, 0, "write one JSON object a line")
    except (ValueError, RecursionError) as problem:
        return _beyond(problem)
    return value if type(value) is dict else not_an_object(value)


def json_values(stream: io.BufferedReader) -> Records:
    """Yield the objects of one list, or one object after another however they are laid out, in little memory.

    After a syntax error reading goes on where the next object seems to start.
    """
    text = _Window(stream)
    listed = text.skip(" \t\r\n") == "["
    if listed:
        text.at += 1
    while (character := text.skip(" \t\r\n,")) and not (listed and character == "]"):
        line = text.line
        value = text.value()
        yield line, value if type(value) is dict or isinstance(value, Problem) else not_an_object(value)
        if isinstance(value, Problem) and not text.recover():
            return
    if not listed:
        return
    text.at += 1
    if not character:
        yield text.line, Problem.of("json.open", "json")
    elif text.skip(" \t\r\n"):
        yield text.line, Problem.of("json.trailing", "json")


def bad_byte(problem: UnicodeDecodeError) -> Problem:
    """Return where a line stops being UTF-8."""
    value = f"0x{problem.object[problem.start]:02x}"
    return Problem.of("encoding", "encoding", byte=problem.start + 1, value=value)


def not_an_object(value: object) -> Problem:
    """Return what to say of a value that is no row."""
    return Problem.of("row.type", "json", kind=kind(value))


def is_laid_out_over_lines(head: bytes) -> bool:
    """Return whether a file opens with a list, or with an object that the first line does not finish."""
    text = head.removeprefix(BOM).lstrip()
    if text.startswith(b"["):
        return True
    first, newline, _ = text.partition(b"\n")
    if not newline:
        return False
    line = first.decode(errors="replace").rstrip()
    try:
        _decode(line)
    except json.JSONDecodeError as problem:
        return problem.pos >= len(line)
    except (ValueError, RecursionError):
        return False
    return False


def _bad_syntax(problem: json.JSONDecodeError, start: int, fix: str) -> Problem:
    """Return what the parser wanted and found, and at which character of the value that starts at `start`."""
    got = repr(problem.doc[problem.pos]) if problem.pos < len(problem.doc.rstrip()) else "the end"
    what = problem.msg[0].lower() + problem.msg[1:].removesuffix(" at").removesuffix(" starting")
    return Problem.of("json.syntax", "json", what=what, at=problem.pos - start + 1, got=got, fix=fix)


def _beyond(problem: Exception) -> Problem:
    return Problem.of("json.deep" if isinstance(problem, RecursionError) else "json.digits", "json")


class _Window:
    """A sliding window on a file's text, with the line number of its reading position."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        # Bytes that are not UTF-8 come through as lone surrogates, which the row's own check then reports.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._size = CHUNK
        self._text, self._ended = "", False
        self.at, self.line = 0, 1
        # The blanks before a value on its line, unless something else stands there.
        self._indent: str | None = ""

    def skip(self, characters: str) -> str:
        """Move past some characters; the one that follows, or "" at the end of the file."""
        while True:
            while self.at < len(self._text):
                character = self._text[self.at]
                if character not in characters:
                    return character
                self.at += 1
                if character == "\n":
                    self.line += 1
                    self._indent = ""
                elif self._indent is not None:
                    self._indent = None if character == "," else self._indent + character
            if self._ended:
                return ""
            self._more()

    def value(self) -> object:
        """Return the JSON value that starts here, or the problem with it; moves past it."""
        while True:
            try:
                value, end = _decode_at(self._text, self.at)
            except json.JSONDecodeError as problem:
                if self._ended or not self._may_be_cut(problem):
                    return self._located(problem)
                self._more()
            except (ValueError, RecursionError) as problem:
                return _beyond(problem)
            else:
                self._move(end)
                self._indent = None
                self._size = CHUNK
                return value

    def recover(self) -> bool:
        """Move past a faulty value, to where the next one seems to start; returns whether there is such a place.

        That is behind the bracket that closes the value, or where another object starts that cannot be a part of it.
        A line break ends a string, so a stray quote spoils no more than its line.
        """
        indent, open_brackets, before, place = self._indent, "", "", self.at
        in_string = False
        while True:
            edge = len(self._text) - (0 if self._ended else len(indent or "") + 2)
            while (found := _SIGNS.search(self._text, place)) and found.start() < edge:
                sign, place = found[0], found.end()
                if sign == "\n":
                    in_string = False
                    own = indent is not None and "[" not in open_brackets
                    if own and open_brackets and self._text.startswith(f"{indent}{{", place):
                        return self._move(place)
                elif sign == '"' or in_string:
                    in_string ^= sign == '"'
                elif sign == "," and not open_brackets:
                    return self._move(place)
                elif sign == "{" and before == "," and open_brackets.endswith("{"):
                    return self._move(found.start())
                elif sign in "[{":
                    open_brackets += sign
                elif sign in _OPENS:
                    inside = open_brackets.rpartition(_OPENS[sign])
                    if not inside[1] and sign == "]":
                        return self._move(found.start())
                    open_brackets = inside[0]
                    if not open_brackets:
                        return self._move(place)
                if sign != "\n":
                    before = sign
            if self._ended:
                return False
            # The last character may be the first half of an escape.
            self._move(found.start() if found else max(place, len(self._text) - 1))
            self._more()
            place = 0

    def _move(self, place: int) -> bool:
        self.line += self._text.count("\n", self.at, place)
        self.at = place
        return True

    def _may_be_cut(self, problem: json.JSONDecodeError) -> bool:
        """Return whether more text could mend the error: it lies at the edge, or in a string that runs over it."""
        open_string = problem.msg.startswith("Unterminated string")
        at_edge = problem.pos >= len(self._text) - len("\\ud83d\\ude00")
        return (open_string or at_edge) and len(self._text) - self.at < MAX_BYTES

    def _located(self, problem: json.JSONDecodeError) -> Problem:
        line = self.line + self._text.count("\n", self.at, problem.pos)
        return _bad_syntax(problem, self.at, f"mend line {line} of the file")

    def _more(self) -> None:
        # Doubling keeps the work linear when one value is larger than the window.
        self._size = min(2 * self._size, MAX_BYTES)
        chunk = self._stream.read(self._size)
        self._ended = not chunk
        self._text = self._text[self.at :] + self._decoder.decode(chunk, final=self._ended)
        self.at = 0


register(
    Reader("jsonl", (".jsonl", ".ndjson"), lambda source: source.delimiter is None, lambda source: source.items,
           splittable=True, general=True, what="one example or one whole chat per line"),
    Reader("json", (".json",), None, lambda source: source.items,
           general=True, what="the same objects in one list, or one per line"),
)  # fmt: skip
