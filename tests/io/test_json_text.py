"""JSON Lines and JSON lists: what comes out of good and bad text, line by line."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.dialogue import Row
from turnwise.errors import TurnwiseError
from turnwise.io import json_text
from turnwise.io.base import Problem
from turnwise.io.json_text import json_lines, json_values
from turnwise.io.read import describe, read_rows


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def summary(rows: list[Row]) -> list[tuple[int, str | None]]:
    return [(row.line, row.example.response if row.example else None) for row in rows]


# --- JSON Lines -----------------------------------------------------------------------------------------

BAD_LINES = [
    (b'{"response": "a"', "json", "json.syntax"),
    (b'{"response": a}', "json", "json.syntax"),
    (b'{"response": "a"} {}', "json", "json.syntax"),
    (b'{"response": "a\tb"}', "json", "json.syntax"),
    (b'{"response": "a', "json", "json.syntax"),
    (b"hello", "json", "json.syntax"),
    (b"[1, 2]", "json", "row.type"),
    (b'"text"', "json", "row.type"),
    (b"null", "json", "row.type"),
    (b'{"response": "caf\xe9"}', "encoding", "encoding"),
    (b'{"response": "\xed\xa0\x80"}', "encoding", "encoding"),
    (b'{"response": "\\ud83d"}', "response", "text.surrogate"),
    (b"[" * 100_000, "json", "json.deep"),
    (b'{"response": ' + b"1" * 5000 + b"}", "json", "json.digits"),
    (b'{"response": "a", "ratings": {"Overall": [NaN]}}', "ratings.Overall", "rating.finite"),
    (b"\x00", "json", "json.syntax"),
]


@pytest.mark.parametrize(("line", "place", "code"), BAD_LINES)
def test_no_line_can_kill_the_stream(tmp_path: Path, line: bytes, place: str, code: str) -> None:
    good = b'{"response": "good"}\n'
    file = write(tmp_path / "a.jsonl", good + line + b"\n" + good)
    rows = list(read_rows([file]))
    assert summary(rows) == [(1, "good"), (2, None), (3, "good")]
    assert rows[1].error is not None
    assert (rows[1].error.place, rows[1].error.code) == (place, code)
    assert str(describe(rows[1])) == f"{file}:2: {rows[1].error}"


@given(st.lists(st.binary(max_size=30).filter(lambda line: b"\n" not in line), max_size=6))
@settings(deadline=None)
def test_rows_in_are_rows_out_whatever_the_bytes(lines: list[bytes]) -> None:
    found = list(json_lines(io.BufferedReader(io.BytesIO(b"\n".join(lines)))))
    if lines:
        lines[0] = lines[0].removeprefix(json_text.BOM)
    assert [number for number, _ in found] == [number for number, line in enumerate(lines, 1) if line.strip()]
    assert all(isinstance(value, dict | Problem) for _, value in found)


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    text = "a\u2028b\u2029c\u0085d\x0b\x0c\x1c\x1e"
    row = json.dumps({"response": text}, ensure_ascii=False)
    file = write(tmp_path / "a.jsonl", f'{row}\r\n{{"response": "next"}}')
    assert summary(list(read_rows(file))) == [(1, text), (2, "next")]


def test_a_mark_at_the_start_and_blank_lines(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"response": "a"}\n\n  \r\n{"response": "b"}')
    assert summary(list(read_rows(file))) == [(1, "a"), (4, "b")]
    only_the_mark = write(tmp_path / "b.jsonl", b'\xef\xbb\xbf\n{"response": "b"}')
    assert summary(list(read_rows(only_the_mark))) == [(2, "b")]


def test_an_endless_line_is_one_faulty_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "MAX_BYTES", 1 << 20)
    file = write(tmp_path / "a.jsonl", b"x" * (3 << 20) + b'\n{"response": "b"}')
    rows = list(read_rows(file))
    assert summary(rows) == [(1, None), (2, "b")]
    assert str(rows[0].error) == "line: expected at most 1 MiB, got a longer line. Fix: write one object a line."


def test_utf_16_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", '{"response": "a"}'.encode("utf-16"))
    with pytest.raises(TurnwiseError, match=r"written as UTF-16; save it as UTF-8"):
        list(read_rows(file))


def test_piped_parquet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"PAR1...")))
    with pytest.raises(TurnwiseError, match=r"<stdin>: Parquet cannot be read like this; save it as a file"):
        list(read_rows("-"))


# --- JSON lists -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_file_may_hold_a_list(tmp_path: Path, indent: int | None) -> None:
    file = write(tmp_path / "a.json", json.dumps([{"response": "a"}, {"response": "b"}], indent=indent))
    rows = list(read_rows(file))
    assert summary(rows) == ([(1, "a"), (1, "b")] if indent is None else [(2, "a"), (5, "b")])
    assert [row.id for row in rows] == (["a:1", "a:1.2"] if indent is None else ["a:2", "a:5"])


def test_a_json_file_may_hold_lines_or_one_object(tmp_path: Path) -> None:
    lines = write(tmp_path / "a.json", '{"response": "a"}\n{"response": }\n{"response": "b"}\n')
    assert summary(list(read_rows(lines))) == [(1, "a"), (2, None), (3, "b")]
    single = write(tmp_path / "b.json", json.dumps({"response": "a", "context": ["x"]}, indent=2))
    assert summary(list(read_rows(single))) == [(1, "a")]


@pytest.mark.parametrize(
    ("text", "lines", "code"),
    [
        (
            '[{"response": "a"},\n{"response": }]',
            [1, 2],
            "json.syntax",
        ),
        ('[{"response": "a"},\n3,\n{"response": "b"}]', [1, 2, 3], "row.type"),
        ('[{"response": "a"}', [1, 1], "json.open"),
        ('[{"response": "a"}]\nmore', [1, 2], "json.trailing"),
        ('[{"response": "a"},\n{"response": "b', [1, 2], "json.syntax"),
    ],
)
def test_faulty_lists(tmp_path: Path, text: str, lines: list[int], code: str) -> None:
    rows = list(read_rows(write(tmp_path / "a.json", text)))
    assert [row.line for row in rows] == lines
    assert rows[1].error is not None
    assert rows[1].error.code == code


def test_a_syntax_error_says_where_it_is(tmp_path: Path) -> None:
    (row,) = read_rows(write(tmp_path / "a.jsonl", '{"response": a}'))
    found = "json: expecting value at character 14, got 'a'. Fix: write one JSON object a line."
    assert str(row.error) == found


def test_bad_bytes_in_a_list_are_found(tmp_path: Path) -> None:
    rows = list(read_rows(write(tmp_path / "a.json", b'[{"response": "caf\xe9"}, {"response": "b"}]')))
    assert summary(rows) == [(1, None), (1, "b")]
    assert "a byte that is not UTF-8 (0xe9)" in str(rows[0].error)


JSON_ROWS = st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=40) | st.floats(allow_nan=False)))


@given(JSON_ROWS, st.sampled_from([None, 0, 2]), st.integers(1, 40), st.booleans())
@settings(deadline=None)
def test_lists_of_any_layout_are_read_through_any_window(
    rows: list[dict[str, Any]], indent: int | None, chunk: int, ascii_only: bool
) -> None:
    text = json.dumps(rows, indent=indent, ensure_ascii=ascii_only).encode()
    before, json_text.CHUNK = json_text.CHUNK, chunk
    try:
        found = list(json_values(io.BufferedReader(io.BytesIO(text))))
    finally:
        json_text.CHUNK = before
    assert [value for _, value in found] == rows
    numbers = [line for line, _ in found]
    assert numbers == sorted(numbers)


# --- one bad element of a list ----------------------------------------------------------------------------

GOOD = '{"response": "good"}'
BAD_ELEMENTS = [
    '{"response": }',
    '{"response": "a',
    '{"response": "a", "b": "c}',
    '{"response": "a""}',
    '{"response" "a"}',
    "{response: 'a'}",
    '{"response": "a", "ratings": {"x": [1, }}',
    '{"response": "a", "context": ["b"}',
    "nul",
    '{"response": NaN1}',
]


@pytest.mark.parametrize("bad", BAD_ELEMENTS)
@pytest.mark.parametrize("pattern", ["[{},\n{},\n{}]", "[\n  {},\n  {},\n  {}\n]\n"])
def test_one_bad_element_costs_itself_only(tmp_path: Path, bad: str, pattern: str) -> None:
    for place in range(3):
        elements = [GOOD] * 3
        elements[place] = bad
        file = write(tmp_path / "a.json", pattern.replace("{}", "%s") % tuple(elements))
        found = [row.example is not None for row in read_rows(file)]
        # A string that is never closed may hide the end of the list, but no other element.
        assert found[:3] == [element == GOOD for element in elements]
        assert not any(found[3:])


@pytest.mark.parametrize("bad", ['{"response": }', '{"response" "a"}', "nul", '{"response": "a"'])
def test_one_bad_element_of_a_list_on_one_line(tmp_path: Path, bad: str) -> None:
    rows = read_rows(write(tmp_path / "a.json", f"[{GOOD}, {bad}, {GOOD}]"))
    assert [row.example is not None for row in rows] == [True, False, True]


def test_a_bad_element_with_objects_inside_costs_one_row(tmp_path: Path) -> None:
    elements = [json.dumps({"response": "a", "more": [{"b": 1}, {"c": {"d": 2}}]}, indent=2) for _ in range(4)]
    elements[1] = elements[1].replace('"b": 1', '"b": ')
    rows = list(read_rows(write(tmp_path / "a.json", "[" + ",\n".join(elements) + "]")))
    assert [row.example is not None for row in rows] == [True, False, True, True]
    assert [row.line for row in rows] == [1, 14, 27, 40]


def test_bad_elements_are_passed_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "CHUNK", 64)
    elements = [GOOD if number % 2 else f'{{"response": "{"x" * number}", "a": {number}; }}' for number in range(400)]
    rows = list(read_rows(write(tmp_path / "a.json", "[" + ",\n".join(elements) + "]")))
    assert [row.example is not None for row in rows] == [bool(number % 2) for number in range(400)]
    assert [row.line for row in rows] == list(range(1, 401))
