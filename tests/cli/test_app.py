"""The command line: one JSON document on stdout, everything else on stderr, and honest exit statuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EXAMPLES, turnwise

ALL_COMMANDS = "score compare metaeval agreement fit select train pack data list reproduce".split()


def document(*arguments: str | Path, stdin: str | None = None) -> Any:
    finished = turnwise(*arguments, "--format", "json", stdin=stdin)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("command", ALL_COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    finished = turnwise(command, "--help")
    assert finished.returncode == 0
    assert "Usage" in finished.stdout


def test_score_prints_one_document(tmp_path: Path) -> None:
    found = document("score", EXAMPLES, "--metrics", "classic,bleu-4[corpus=true]")
    assert len(found["turns"]) == len(EXAMPLES.read_text().splitlines())
    assert "bleu-4[corpus=true]" in found["signatures"]
    assert {entry["system"] for entry in found["systems"]} == {"juniper", "kestrel", "marble", "tin-can"}


def test_score_reads_standard_input() -> None:
    found = document("score", "-", "--metrics", "length", stdin='{"response": "one two"}\n')
    assert found["turns"][0]["scores"] == {"length": 2.0}
    assert found["turns"][0]["system"] == "stdin"


def test_columns_are_mapped(tmp_path: Path) -> None:
    file = tmp_path / "chats.csv"
    file.write_text("reply,history,score\nhello there,hi,4\n")
    mapping = "response=reply,context=history,ratings.Overall=score"
    found = document("score", file, "--map", mapping, "--metrics", "length")
    assert found["turns"][0]["scores"] == {"length": 2.0}


@pytest.mark.slow
def test_metaeval_agreement_and_compare_print_rows() -> None:
    meta = document("metaeval", EXAMPLES, "--metrics", "f1,length", "--qualities", "Overall")
    assert [(row["metric"], row["quality"], row["corpus"]) for row in meta["rows"]] == [
        ("f1", "Overall", "chats"),
        ("length", "Overall", "chats"),
    ]
    rivals = turnwise(*("metaeval", EXAMPLES, "-m", "f1,length", "--against", "length", "--format", "csv"))
    assert rivals.stderr.endswith("CSV has the correlations alone; what --against asks for is in --format json\n")
    assert {row["quality"] for row in document("agreement", EXAMPLES)["rows"]} >= {"Overall", "Natural"}
    compared = document("compare", EXAMPLES, "--metrics", "f1", "--baseline", "juniper")
    promised = ["metric", "system", "baseline", "difference", "low", "high", "p", "verdict"]
    assert list(compared["rows"][0])[:10] == [*promised, "n", "basis"]
    table = turnwise("compare", EXAMPLES, "--metrics", "f1", "--baseline", "juniper", "--format", "csv").stdout
    assert table.startswith(",".join([*promised, "n", "basis"]))


def test_a_failed_gate_exits_with_one() -> None:
    gate = ("compare", EXAMPLES, "--baseline", "juniper", "--fail-if-worse")
    failed = turnwise(*gate, "f1@0")
    assert failed.returncode == 1
    assert "gate failed: tin-can" in failed.stderr
    assert turnwise(*gate, "f1@0.9").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("score", "absent.jsonl"), "absent.jsonl"),
        (("score", EXAMPLES, "--metrics", "blue-4"), "did you mean 'bleu-4'"),
        (("score", EXAMPLES, "--map", "response"), "FIELD=COLUMN"),
        (("score", EXAMPLES, "--corpus", "usrr"), "--corpus usrr: format 'usrr'"),
        (("compare", EXAMPLES, "--fail-if-worse", "f1@0.1"), "--baseline"),
        (("compare", EXAMPLES, "--baseline", "juniper", "--fail-if-worse", "f1"), "METRIC@MARGIN"),
        (("compare", EXAMPLES, "--baseline", "nobody"), "juniper"),
        (("metaeval", EXAMPLES, "--qualities", "Fun"), "Overall"),
        (("agreement", EXAMPLES, "--qualities", "Overall,Fun"), "Natural"),
        (("metaeval", EXAMPLES, "--exclude-system", "nobody"), "juniper"),
        (("score", EXAMPLES, "--format", "xml"), "--format"),
        (("score", EXAMPLES, "--seed", "-1"), "--seed"),
        (("score",), "turnwise score --help"),
        (("score", EXAMPLES, EXAMPLES), "given twice"),
        (("score", EXAMPLES, "--report", "/proc/none/report.html"), "cannot be written"),
        (("score", EXAMPLES, "--out", EXAMPLES), "cannot be written"),
        (("compare", EXAMPLES, "--baseline", "juniper", "--fail-if-worse", "length@1"), "no better or worse"),
    ],
)
def test_what_cannot_be_used_exits_with_two_and_one_line(arguments: tuple[Any, ...], words: str) -> None:
    finished = turnwise(*arguments)
    assert finished.returncode == 2
    assert words in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert finished.stdout == ""


def test_bad_rows_are_reported_and_the_rest_is_scored(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    rows = [
        b'{"response": "good"}',
        b'{"response": "good", ',
        b'{"context": ["no response"]}',
        b'{"response": 7}',
        b'{"response": "  "}',
        b'{"id": "twice", "response": "first"}',
        b'{"id": "twice", "response": "second"}',
        b'{"response": "\xff\xfe"}',
        b'{"response": "' + b"x" * 1_000_000 + b'"}',
        b'{"response": "\\ud800"}',
        b'{"response": "good", "ratings": {"Overall": [NaN]}}',
        b'{"response": "last"}',
    ]
    file.write_bytes(b"\n".join(rows) + b"\n")
    finished = turnwise("score", file, "--metrics", "length", "--format", "json")
    assert finished.returncode == 0
    turns = json.loads(finished.stdout)["turns"]
    assert [turn["error"] is None for turn in turns] == [n in {0, 5, 11} for n in range(12)]
    warnings = finished.stderr.splitlines()
    assert len(warnings) == 9
    assert [int(line.split(":")[2]) for line in warnings] == [2, 3, 4, 5, 7, 8, 9, 10, 11]
    assert all(" Fix: " in line for line in warnings)
    assert turnwise("score", file, "--metrics", "length", "--strict").returncode == 2


def test_csv_has_a_line_per_turn() -> None:
    finished = turnwise("score", EXAMPLES, "--metrics", "length", "--format", "csv")
    lines = finished.stdout.splitlines()
    assert lines[0].startswith("id,file,line,system")
    assert len(lines) == 1 + len(EXAMPLES.read_text().splitlines())


def test_tables_are_for_people() -> None:
    finished = turnwise("score", EXAMPLES, "--metrics", "f1")
    assert "juniper" in finished.stdout
    assert "↑" in finished.stdout


@pytest.mark.slow
def test_everything_is_written_where_asked(tmp_path: Path) -> None:
    out, report = tmp_path / "out", tmp_path / "report.html"
    finished = turnwise("score", EXAMPLES, "--metrics", "f1,length", "--out", out, "--report", report)
    assert finished.returncode == 0, finished.stderr
    assert {"result.json", "turns.parquet", "systems.csv", "charts"} <= {path.name for path in out.iterdir()}
    assert report.read_text().startswith("<!doctype html>")


def test_the_list_of_metrics_comes_from_the_metrics() -> None:
    names = [metric["name"] for metric in document("list", "metrics")["metrics"]]
    assert names[0] == "length"
    assert {"bleu-4", "meteor", "entropy-3"} <= set(names)


def test_the_list_of_metrics_says_what_models_can_answer(tmp_path: Path) -> None:
    """A checkpoint of a masked language model answers what asks for one, and nothing that asks for more."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"architectures": ["BertForMaskedLM"]}')
    lacks = {row["name"]: row["lacks"] for row in document("list", "metrics", "--models", tmp_path)["metrics"]}
    assert lacks["length"] == lacks["usr-mlm"] == lacks["mlm-nce"] == ""
    assert lacks["usr-dr-c"] == "dr-f, nup"
    assert "masked-lm" not in lacks["usr"]
    assert [row["role"] for row in document("list", "models", "--models", tmp_path)["models"]] == ["masked-lm"]
    assert "lacks" not in document("list", "metrics")["metrics"][0], "only where models were named"


def test_the_list_of_metrics_names_the_form_that_models_can_answer(tmp_path: Path) -> None:
    classifier = "BertForSequenceClassification"
    for name, architecture in {"nup": classifier, "vup": classifier, "lm": "BertForMaskedLM"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    rows = {row["name"]: row for row in document("list", "metrics", "--models", tmp_path)["metrics"]}
    assert rows["usl-h"]["lacks"] == "dr-f"
    assert rows["usl-h"]["instead"] == "usl-h[sensible=nup]"
    assert rows["nup"]["instead"] == rows["usr"]["instead"] == ""
    listed = turnwise("list", "metrics", "--models", tmp_path)
    able = sum(not row["lacks"] or bool(row["instead"]) for row in rows.values())
    assert f"{able} of {len(rows)} metrics can be computed" in listed.stderr


def test_every_command_is_summed_up_in_full() -> None:
    lines = turnwise("--help").stdout.partition("Commands:")[2].strip().splitlines()
    assert not [line for line in lines if line.rstrip().endswith("...")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["score", "--metrix", "f1"], "No such option: --metrix"),
        (["score"], "see 'turnwise score --help'"),
        (["data", "get"], "see 'turnwise data get --help'"),
        (["pack", "verfy"], "Did you mean 'verify'"),
        (["list", "metric"], "'metric' is not one of 'metrics', 'models', 'formats'; see 'turnwise list --help'"),
        (["list", "formats", "--models", "turnwise-mini"], "--models goes with"),
        (["list", "metrics", "--models", "nowhere"], "pack 'nowhere' is not known"),
        (["score", EXAMPLES, "-m", "length", "--map", "response=nothing"], "response: missing"),
        (["score", EXAMPLES, "-m", "length", "--shard", "5/3"], "'5/3' is not I/N"),
        (["score", EXAMPLES, "-m", "length", "--corpus", "nope"], "--corpus nope: format 'nope' is not known"),
    ],
)
def test_wrong_use_is_answered_in_one_line(arguments: list[str | Path], said: str) -> None:
    finished = turnwise(*arguments)
    assert finished.returncode == 2
    assert said in finished.stderr
    assert finished.stderr.count("\n") == 1, finished.stderr


@pytest.mark.slow
def test_an_interrupt_keeps_the_rows_so_far_and_exits_with_130() -> None:
    command = [sys.executable, "-m", "turnwise", "score", "-", "--metrics", "length", "--format", "json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stdin is not None
        # A pipe holds far less than this, so once it is written most rows have been read; the input stays open.
        running.stdin.write("".join(json.dumps({"id": str(n), "response": "one two"}) + "\n" for n in range(40_000)))
        running.stdin.flush()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted after" in err
    assert 0 < len(json.loads(out)["turns"]) <= 40_000


def test_brackets_in_names_are_no_markup(tmp_path: Path) -> None:
    names = ("a[t=0.7]", "a[t=1.0]", "b[/INST]")
    rows = [{"response": f"hi there {n}", "system": name} for n, name in enumerate(names)]
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    finished = turnwise("score", file, "--metrics", "length,distinct-1")
    assert finished.returncode == 0, finished.stderr
    assert all(name in finished.stdout for name in names)


def test_a_bare_command_shows_help_that_can_be_read() -> None:
    for command in ((), ("pack",), ("data",)):
        finished = turnwise(*command)
        assert finished.returncode == 2
        assert len(finished.stderr.splitlines()) > 5
        assert "Commands" in finished.stderr


@pytest.mark.slow
@pytest.mark.parametrize("margin", ["nan", "inf", "-1", "x"])
def test_a_gate_without_a_real_margin_is_refused(margin: str) -> None:
    finished = turnwise(
        "compare", EXAMPLES, "--baseline", "juniper", "--metrics", "f1", "--fail-if-worse", f"f1@{margin}"
    )
    assert finished.returncode == 2
    assert "METRIC@MARGIN" in finished.stderr


@pytest.mark.slow
def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    finished = turnwise("metaeval", EXAMPLES, "--metrics", "bleu-4[corpus=true],f1,fbd", "--qualities", "Overall")
    assert finished.returncode == 0, finished.stderr
    assert "left out: fbd: of whole systems" in finished.stderr
    (tmp_path / "human").mkdir()
    finished = turnwise("reproduce", "usr", "--data", tmp_path, "--out", tmp_path / "pages", "--tables", "1,99")
    assert finished.returncode == 2
    assert "there is no '99'; there are: 1, 2" in finished.stderr
    (tmp_path / "good.jsonl").write_text('{"response": "hi"}\n')
    (tmp_path / "bad.jsonl").write_text('{"response": 3}\n')
    finished = turnwise("compare", tmp_path / "good.jsonl", tmp_path / "bad.jsonl", "--metrics", "length")
    assert finished.returncode == 2
    assert "bad.jsonl: no row can be used" in finished.stderr


def test_files_of_one_name_are_counted_together_and_it_is_said(tmp_path: Path) -> None:
    for folder in ("v1", "v2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "log.jsonl").write_text('{"response": "hi"}\n' * 2)
    finished = turnwise("score", tmp_path / "v1", tmp_path / "v2", "--metrics", "length")
    assert finished.returncode == 0
    assert "are counted as one system, log, by their names" in finished.stderr
    finished = turnwise("compare", tmp_path / "v1", tmp_path / "v2", "--metrics", "length")
    assert "the sources are compared instead" in finished.stderr
    assert "counted as one system" not in finished.stderr


@pytest.mark.slow
def test_misspelt_fields_are_said_by_every_command(tmp_path: Path) -> None:
    file = tmp_path / "typo.jsonl"
    rows = [{"contxt": ["hi"], "response": f"a {n}", "system": f"s{n % 2}", "ratings": {"Q": n}} for n in range(8)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for command in ("score", "compare", "metaeval"):
        finished = turnwise(command, file, "--metrics", "classic")
        assert finished.returncode == 0, finished.stderr
        assert "note: the field 'contxt' is not known and not read; did you mean 'context'?" in finished.stderr
        assert finished.stderr.count("left out of classic: f1") == 1


@pytest.mark.slow
def test_an_interval_is_only_promised_where_there_is_one(tmp_path: Path) -> None:
    rows = [{"response": "one" + n * " two", "context": [f"turn {n}"]} for n in range(2)]
    file = tmp_path / "chats.jsonl"
    for kept, words in ((1, "where there are two contexts or more, a 95 % interval"), (2, "each value with its 95 %")):
        file.write_text("".join(json.dumps(row) + "\n" for row in rows[:kept]))
        assert words in turnwise("score", file, "--metrics", "length").stderr


def test_an_interrupt_says_what_is_kept_only_if_something_is(tmp_path: Path) -> None:
    program = """if True:
        import sys
        import turnwise.cli as cli, turnwise.cli.app as app
        from turnwise.engine.session import Session
        def interrupted():
            with Session(cache=sys.argv[1]) as session:
                session.answer([])
                raise KeyboardInterrupt
        app.run = interrupted
        cli.main()
    """
    for where, said in (("off", False), (str(tmp_path), True)):
        command = [sys.executable, "-c", program, where]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert finished.returncode == 130
        assert finished.stderr.startswith("turnwise: interrupted")
        assert ("is kept" in finished.stderr) == said


@pytest.mark.slow
def test_the_weights_of_each_rater_are_shown(tmp_path: Path) -> None:
    asked = ("fit", EXAMPLES, "--metrics", "length,f1", "--per-rater", "--overwrite", "--save", tmp_path / "mine.toml")
    finished = turnwise(*asked)
    assert finished.returncode == 0, finished.stderr
    shown = finished.stdout.partition("Each rater alone")[2].partition("Agreement with")[0].split()
    fitted = document(*asked)["raters"]
    assert [row["rater"] for row in fitted] == ["ana", "ben", "chi"]
    for row in fitted:
        cells = [row["rater"], str(row["n"]), *(f"{weight:+.3f}" for weight in row["weights"].values())]
        place = shown.index(row["rater"])
        assert shown[place : place + len(cells)] == cells


def test_a_gate_that_cannot_be_checked_shows_what_to_mend(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    marble = [row for row in rows if row["system"] == "marble"]
    for row in marble[:5]:
        row["response"] = " "
    file = tmp_path / "gate.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    gate = ("compare", file, "--metrics", "f1", "--baseline", "juniper", "--fail-if-worse", "f1@0.02")
    # Blank replies are the worst ones, unless they are to be skipped: then too little is known.
    assert turnwise(*gate).returncode == 1
    finished = turnwise(*gate, "--missing", "skip")
    assert finished.returncode == 2
    assert finished.stderr.count("response: blank") == 5
    assert "Compared with juniper" in finished.stdout
    assert finished.stderr.rstrip().endswith("33% of the rows of marble have no score; mend the input")
