"""CSV, TSV, Parquet and frames: columns by name, cells that hold lists, and the mapping."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwise.dialogue import Example, Row
from turnwise.errors import TurnwiseError
from turnwise.io import tables
from turnwise.io.read import read_rows
from turnwise.problems import Problem


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def good(rows: list[Row]) -> list[Example]:
    assert [row.error for row in rows] == [None] * len(rows)
    return [row.example for row in rows if row.example]


# --- CSV and TSV ----------------------------------------------------------------------------------------


def test_cells_become_fields(tmp_path: Path) -> None:
    file = write(
        tmp_path / "bot.csv",
        "id,context,response,references,ratings.Overall,ratings.Fluency,speakers,colour\r\n"
        '1,"[""Hi!"", ""Hello.""]",Fine.,Good.,4,"[1, null]","[""A"", ""B"", ""A""]",blue\r\n'
        '2,"Hi!\nHello.","Well, ""fine"".","a\n\nb", ,,,red\r\n'
        "\r\n"
        ",,Fine.,,,,,\r\n",
    )
    rows = list(read_rows(file))
    assert [row.line for row in rows] == [2, 3, 8]
    assert good(rows) == [
        Example(
            "Fine.",
            ("Hi!", "Hello."),
            ("Good.",),
            id="1",
            system="bot",
            speakers=("A", "B", "A"),
            ratings={"Overall": (4.0,), "Fluency": (1.0, None)},
        ),
        Example('Well, "fine".', ("Hi!", "Hello."), ("a", "b"), id="2", system="bot"),
        Example("Fine.", id="bot:8", system="bot"),
    ]


def test_tabs(tmp_path: Path) -> None:
    (found,) = good(list(read_rows(write(tmp_path / "a.tsv", "\ufeffresponse\tcontext\nFine, thanks.\tHi!\n"))))
    assert (found.response, found.context) == ("Fine, thanks.", ("Hi!",))


def test_a_chat_in_a_cell(tmp_path: Path) -> None:
    cell = json.dumps([{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello."}])
    buffer = io.StringIO()
    csv.writer(buffer).writerows([["messages", "ratings"], [cell, '{"Overall": [3]}']])
    (found,) = good(list(read_rows(write(tmp_path / "a.csv", buffer.getvalue()))))
    assert (found.response, found.ratings, found.rated) == ("Hello.", {"Overall": (3.0,)}, "dialogue")


def test_the_mapping(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "reply,history,response,overall_score\nFine.,Hi!,a label,4\n")
    mapping = {"response": "reply", "context": "history", "ratings.Overall": "overall_score"}
    (found,) = good(list(read_rows(file, mapping=mapping)))
    assert found == Example("Fine.", ("Hi!",), id="a:2", system="a", ratings={"Overall": (4.0,)})


def test_the_mapping_holds_for_json_too(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", '{"reply": "Fine.", "score": 4, "ratings": {"Fluency": 2}}\n{"other": "x"}\n')
    first, second = read_rows(file, mapping={"response": "reply", "ratings.Overall": "score"})
    assert first.example is not None
    assert first.example.ratings == {"Fluency": (2.0,), "Overall": (4.0,)}
    assert second.error == Problem.of("response.missing", "response")


@pytest.mark.parametrize(
    ("text", "mapping", "error"),
    [
        ("reply,history\na,b\n", {}, "a.csv: no column 'response'; its columns are reply, history; name the right one"),
        ("reply\na\n", {"response": "text"}, "a.csv: no column 'text' to read response from; its columns are reply$"),
        (
            "response\na\n",
            {"answer": "response"},
            "^`mapping=answer=response`: 'answer' is not a field; the fields are",
        ),
        ("response\na\n", {"ratings.": "response"}, "'ratings.' is not a field"),
        ("response,response\na,b\n", {}, "a.csv: two columns are called 'response'; rename one of them"),
        (b"resp\xffonse\na\n", {}, "a.csv:1: the header cannot be read: encoding: byte 5"),
    ],
)
def test_a_table_that_cannot_be_used(tmp_path: Path, text: str, mapping: dict[str, str], error: str) -> None:
    with pytest.raises(TurnwiseError, match=error):
        list(read_rows(write(tmp_path / "a.csv", text), mapping=mapping))


@pytest.mark.parametrize(
    ("record", "place", "code"),
    [
        (b"a,b,c", "cells", "csv.cells"),
        (b"a", "cells", "csv.cells"),
        (b",x", "response", "response.blank"),
        (b'"a"b,x', "csv", "csv.quoting"),
        (b"caf\xe9,x", "encoding", "encoding"),
        (b'"a\nb\xff",x', "encoding", "encoding"),
        (b"a,four", "ratings.Overall", "rating.type"),
        (b"a,nan", "ratings.Overall", "rating.finite"),
        (b"x" * 200_000 + b",1", "csv", "csv.long"),
    ],
)
def test_a_faulty_record_costs_itself_only(tmp_path: Path, record: bytes, place: str, code: str) -> None:
    file = write(tmp_path / "a.csv", b"response,ratings.Overall\nok,1\n" + record + b"\nok,2\n")
    rows = list(read_rows(file))
    assert [row.error is None for row in rows] == [True, False, True]
    assert rows[1].line == 3
    assert rows[1].error is not None
    assert (rows[1].error.place, rows[1].error.code) == (place, code)
    assert rows[2].line == 4 + record.count(b"\n")


def test_an_open_quote_is_found(tmp_path: Path) -> None:
    rows = list(read_rows(write(tmp_path / "a.csv", 'response\na\n"b\nc\n')))
    assert [(row.line, row.error is None) for row in rows] == [(2, True), (3, False), (4, True)]
    assert rows[1].error == Problem.of("csv.open", "csv")


@pytest.mark.parametrize("later", ["fine", 'he said "no"', '"quoted"', '"over\ntwo lines"'])
def test_a_stray_quote_costs_its_own_line(tmp_path: Path, later: str) -> None:
    lines = [f"{number}\treply {number}" for number in range(1000)]
    lines[499] = '"499\treply 499'
    lines[700] = f"700\t{later}"
    rows = list(read_rows(write(tmp_path / "a.tsv", "id\tresponse\n" + "\n".join(lines) + "\n")))
    assert [row.line for row in rows if row.error] == [501]
    read = good([row for row in rows if not row.error])
    assert [found.id for found in read] == [str(number) for number in range(1000) if number != 499]
    assert read[699].response == later.strip('"') or "said" in later


def test_lines_that_a_quote_swallowed_are_counted(tmp_path: Path) -> None:
    lines = 'id,response\n1,a\n"2,b\n3,c\n4"\n5,e\n'
    rows = list(read_rows(write(tmp_path / "a.csv", lines)))
    assert [(row.line, row.error is None) for row in rows] == [(2, True), (3, False), (6, True)]
    assert rows[1].error == Problem.of("csv.swallowed", "cells", width="2 cells", cells="1 cell", lines=3)


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=1, max_size=20)


@given(st.lists(st.tuples(CELL.filter(str.strip), st.lists(CELL, max_size=3)), min_size=1, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_the_csv_module_writes_is_read_back(tmp_path: Path, records: list[tuple[str, list[str]]]) -> None:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(["response", "context"])
    writer.writerows((response, json.dumps(context)) for response, context in records)
    rows = list(read_rows(write(tmp_path / "a.csv", buffer.getvalue())))
    assert [(found.response, list(found.context)) for found in good(rows)] == records


# --- Parquet and frames ---------------------------------------------------------------------------------

TABLE: dict[str, Any] = {
    "id": [1, 2, 3],
    "context": [["Hi!", "Hello."], [], None],
    "response": ["Fine.", "Well.", None],
    "ratings.Overall": [[4, None], [5, 3], None],
    "ratings.Fluency": [1.5, None, 2.0],
    "unused": [object.__name__] * 3,
}


def check(rows: list[Row], system: str) -> None:
    assert [row.line for row in rows] == [1, 2, 3]
    assert good(rows[:2]) == [
        Example(
            "Fine.",
            ("Hi!", "Hello."),
            id="1",
            system=system,
            ratings={"Overall": (4.0, None), "Fluency": (1.5,)},
        ),
        Example("Well.", id="2", system=system, ratings={"Overall": (5.0, 3.0)}),
    ]
    assert (rows[2].id, rows[2].error is None) == ("3", False)


def test_parquet(tmp_path: Path) -> None:
    pl.DataFrame(TABLE).write_parquet(tmp_path / "bot.parquet")
    check(list(read_rows(tmp_path / "bot.parquet")), "bot")


def test_frames() -> None:
    check(list(read_rows(pl.DataFrame(TABLE))), "system")
    check(list(read_rows(pl.DataFrame(TABLE).lazy())), "system")
    check(list(read_rows(pd.DataFrame(TABLE))), "system")


def test_structs_and_decimals(tmp_path: Path) -> None:
    pl.DataFrame(
        {
            "messages": [[{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello."}]],
            "ratings": [{"Overall": [4.0], "Absent": None}],
            "ratings.Mean": [Decimal("3.25")],
        }
    ).write_parquet(tmp_path / "a.parquet")
    (found,) = good(list(read_rows(tmp_path / "a.parquet")))
    assert (found.response, found.ratings) == ("Hello.", {"Overall": (4.0,), "Mean": (3.25,)})


def test_parquet_comes_in_batches_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BATCH", 7)
    frame = pl.DataFrame({"reply": [f"r{n}" for n in range(50)], "big": ["x" * 1000] * 50})
    frame.write_parquet(tmp_path / "a.parquet", row_group_size=11)
    rows = list(read_rows(tmp_path / "a.parquet", mapping={"response": "reply"}))
    assert [(row.line, example.response) for row, example in zip(rows, good(rows), strict=True)] == [
        (n + 1, f"r{n}") for n in range(50)
    ]


def test_a_mapped_frame_column_that_is_absent() -> None:
    with pytest.raises(TurnwiseError, match=r"<python>: no column 'x' to read response from; its columns are a$"):
        list(read_rows(pl.DataFrame({"a": ["b"]}), mapping={"response": "x"}))


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense PAR1", b"not parquet at all, only text"])
def test_a_broken_parquet_file(tmp_path: Path, content: bytes) -> None:
    file = write(tmp_path / "a.parquet", content)
    with pytest.raises(TurnwiseError, match=r"a.parquet: not a readable Parquet file \(.*\); write it again$"):
        list(read_rows(file))


def test_a_truncated_parquet_file(tmp_path: Path) -> None:
    pl.DataFrame({"response": [f"r{n}" for n in range(1000)]}).write_parquet(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    # The footer survives, the data before it does not.
    write(tmp_path / "a.parquet", whole[:4] + b"\0" * (len(whole) // 2) + whole[4 + len(whole) // 2 :])
    with pytest.raises(TurnwiseError, match=r"a.parquet: not a readable Parquet file"):
        list(read_rows(tmp_path / "a.parquet"))


def test_pandas_does_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    frame = pd.DataFrame({"response": ["a b", "c"], "system": ["x", None], "ratings.Overall": [4.0, float("nan")]})
    rows = list(read_rows(frame))
    assert [row.example and row.example.response for row in rows] == ["a b", "c"]
    assert [row.example and row.example.system for row in rows] == ["x", "system"]


def test_a_pandas_frame_of_mixed_cells_costs_only_the_bad_ones() -> None:
    rows = list(read_rows(pd.DataFrame({"response": ["a", 3, {"b": 1}]})))
    assert [row.error is None for row in rows] == [True, False, False]


def test_a_release_format_is_no_table(tmp_path: Path) -> None:
    pl.DataFrame(TABLE).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(TurnwiseError, match=r"^`corpus=usr`: reads files named .*, and .* is a table"):
        list(read_rows(tmp_path / "a.parquet", corpus="usr"))
    with pytest.raises(TurnwiseError, match=r"^`corpus=usr`: reads files named .*, and .* is a table"):
        read_rows(pl.DataFrame(TABLE), corpus="usr")


# --- Python objects -------------------------------------------------------------------------------------


def test_python_objects() -> None:
    (one,) = good(list(read_rows({"response": "a"})))
    assert one == Example("a", id="row:1", system="system")
    assert good(list(read_rows(iter([{"response": "a"}, Example("b", id="x")]))))[1] == Example("b", id="x")
    (unnamed,) = good(list(read_rows([Example("a", system="bot")])))
    assert (unnamed.id, unnamed.system) == ("row:1", "bot")


def test_arrays_and_their_numbers() -> None:
    row = {
        "id": np.int64(7),
        "context": np.array(["Hi!"], dtype=object),
        "response": np.str_("a"),
        "ratings": {"Overall": np.array([4, 5]), "Fluency": np.float32(0.5)},
    }
    (found,) = good(list(read_rows([row])))
    expected = {"Overall": (4.0, 5.0), "Fluency": (0.5,)}
    assert found == Example("a", ("Hi!",), id="7", system="system", ratings=expected)


def test_a_list_with_something_else_in_it() -> None:
    bad, fine = read_rows([3, {"response": "a"}])
    assert str(bad.error) == 'json: expected an object, got a number. Fix: write {"response": "..."}.'
    assert fine.error is None


@pytest.mark.parametrize(
    ("data", "error"), [([], "an empty list cannot be read"), (3, "a value of type int cannot be read")]
)
def test_what_is_no_input(data: object, error: str) -> None:
    with pytest.raises(TurnwiseError, match=error):
        read_rows(data)


# --- what a red team found --------------------------------------------------------------------------------


def test_a_damaged_parquet_file_is_never_more_than_one_line(tmp_path: Path) -> None:
    pl.DataFrame({"response": [f"r{n}" for n in range(100)], "context": [["a"]] * 100}).write_parquet(tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    file = tmp_path / "a.parquet"
    for seed in range(300, 600):
        random, damaged = Random(seed), bytearray(whole)
        for _ in range(random.choice([1, 2, 4])):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        file.write_bytes(damaged)
        with suppress(TurnwiseError):
            list(read_rows(file))


def test_a_table_of_many_columns_is_read_in_linear_time(tmp_path: Path) -> None:
    def seconds(columns: int) -> float:
        names = [f"ratings.q{n}" if n % 2 else f"x{n}" for n in range(columns)]
        text = ",".join(["response", *names]) + "\n" + ",".join(["a", *("1" for _ in names)]) + "\n"
        file = write(tmp_path / "a.csv", text)
        start = time.perf_counter()
        (row,) = read_rows(file)
        assert row.example is not None
        assert len(row.example.ratings) == columns // 2
        return time.perf_counter() - start

    seconds(1000)
    assert seconds(50_000) < 60 * max(seconds(5_000), 0.005)
    with pytest.raises(TurnwiseError, match=r"its columns are x0, .* \(1,000 in all\)") as caught:
        list(read_rows(write(tmp_path / "b.csv", ",".join(f"x{n}" for n in range(1000)))))
    assert len(str(caught.value)) < 400
