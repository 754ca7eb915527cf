"""A registry finds built-in things, things added in code and things of installed packages, and imports late."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, add_entry_points
from turnwise.errors import TurnwiseError
from turnwise.metrics import registry
from turnwise.plugins import Registry

GROUP = "turnwise.test"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a module and its entry points visible, as an installer does."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(module: str, code: str, *points: str, group: str = GROUP) -> None:
        (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
        add_entry_points(tmp_path, module, {group: dict(point.split(" = ") for point in points)})

    return write


def things() -> Registry[object]:
    return Registry("thing", GROUP)


def test_a_lazy_thing_is_imported_when_it_is_asked_for(install) -> None:
    install("late_one", "THING = 7")
    found = things()
    found.add("seven", "late_one:THING")
    assert found.names() == ["seven"]
    assert "late_one" not in sys.modules
    assert found.get("seven") == 7


def test_a_decorator_registers_and_returns_its_class() -> None:
    found = things()

    @found.register("plain")
    class Plain: ...

    assert found.get("plain") is Plain
    assert dict(found.items()) == {"plain": Plain}


def test_entry_points_are_loaded_on_first_need(install) -> None:
    install("brings_two", "A, B = 1, 2", "a = brings_two:A", "b = brings_two:B")
    found = things()
    found.add("own", 0)
    assert found.get("own") == 0
    assert "brings_two" not in sys.modules
    assert (found.get("a"), found.names()) == (1, ["own", "a", "b"])


def test_a_broken_plugin_costs_only_those_who_ask(install) -> None:
    install("raises_here", "raise RuntimeError('no\\nluck')", "bad = raises_here:X")
    found = things()
    found.add("own", 0)
    assert found.names() == ["own"]
    assert found.get("own") == 0
    with pytest.raises(TurnwiseError, match=r"'bad' is not known; plugin 'bad': .*RuntimeError: no luck") as caught:
        found.get("bad")
    assert "\n" not in str(caught.value)


def test_a_lazy_thing_that_cannot_be_loaded_is_one_line_and_left_out_of_the_list() -> None:
    found = things()
    found.add("gone", "no_such_module_at_all:X")
    with pytest.raises(TurnwiseError, match="thing 'gone': cannot be loaded"):
        found.get("gone")
    assert dict(found.items()) == {}


def test_an_unknown_name_gets_the_near_ones() -> None:
    found = things()
    for name in ("bleu-1", "bleu-2", "rouge"):
        found.add(name, 1)
    with pytest.raises(TurnwiseError, match="did you mean 'bleu-2' or 'bleu-1'"):
        found.get("blue-2")
    with pytest.raises(TurnwiseError, match="known: bleu-1, bleu-2, rouge"):
        found.get("xyz")


def test_a_plugin_may_not_replace_a_built_in_name(install) -> None:
    install("wants_f1", "THING = object", "f1 = wants_f1:THING")
    found = things()
    found.add("f1", "turnwise.errors:TurnwiseError")
    with pytest.raises(TurnwiseError, match="'f1': the name belongs to turnwise"):
        found.add("f1", 3)
    assert found.names() == ["f1"]
    assert found.get("f1") is TurnwiseError
    with pytest.raises(TurnwiseError, match=r"plugin 'f1': .*the name belongs to turnwise"):
        found.get("f2")


def test_the_second_plugin_of_a_name_is_refused(install) -> None:
    install("comes_first", "X = 1", "same = comes_first:X")
    install("comes_second", "X = 2", "same = comes_second:X")
    found = things()
    assert found.get("same") in (1, 2)
    with pytest.raises(TurnwiseError, match="plugin 'same'"):
        found.get("other")


METRIC = """
from dataclasses import dataclass
from typing import ClassVar
from turnwise.metrics.base import Metric, Score
{decorator}
@dataclass(frozen=True, kw_only=True)
class Letters(Metric):
    summary: ClassVar[str] = "letters"
    cite: ClassVar[str] = ""
    def judge(self, example, answers=()):
        return Score(float(len(example.response)))
"""
DECORATED = 'from turnwise.metrics.registry import register\n@register({"letters": {}, "letters-too": {}})'


@pytest.mark.parametrize(
    ("decorator", "point"),
    [
        (DECORATED, "mine = letters_plugin"),
        (DECORATED, "x = letters_plugin:Letters"),
        ("", "letters = letters_plugin:Letters"),
    ],
)
def test_a_metric_of_another_package(install, tmp_path: Path, decorator: str, point: str) -> None:
    install("letters_plugin", METRIC.format(decorator=decorator), point, group="turnwise.metrics")
    ask = "import turnwise as tw; print(tw.load_metric('letters').score(response='abc').value)"
    done = subprocess.run([sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "3.0", done.stderr


LOUD = METRIC.format(decorator="print('imported')").replace(
    "        return", "        print('judging')\n        return"
)


def turnwise(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnwise", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_a_plugin_that_takes_a_built_in_name_is_refused_and_named(install, tmp_path: Path) -> None:
    install("steals", METRIC.format(decorator=""), "f1 = steals:Letters", group="turnwise.metrics")
    done = turnwise("list", "metrics", "--format", "json", folder=tmp_path)
    assert [row["summary"] for row in json.loads(done.stdout)["metrics"] if row["name"] == "f1"] != ["letters"]
    assert done.stderr.count("\n") == 1
    assert "plugin 'f1': steals:Letters" in done.stderr
    assert "the name belongs to turnwise" in done.stderr


def test_a_plugin_that_ends_the_program_does_not_end_it(install, tmp_path: Path) -> None:
    install("leaves", "raise SystemExit(0)", "mine = leaves:X", group="turnwise.metrics")
    listed = turnwise("list", "metrics", folder=tmp_path)
    assert (listed.returncode, "rouge-l" in listed.stdout, "plugin 'mine'" in listed.stderr) == (0, True, True)
    gate = ("--baseline", "juniper", "--fail-if-worse", "mine@0.1")
    failed = turnwise("compare", EXAMPLES, *gate, folder=tmp_path)
    assert (failed.returncode, "SystemExit" in failed.stderr) == (2, True)


def test_a_metric_that_ends_the_program_is_no_success(install, tmp_path: Path) -> None:
    code = METRIC.format(decorator="").replace("        return", "        raise SystemExit(0)\n        return")
    install("leaves_late", code, "mine = leaves_late:Letters", group="turnwise.metrics")
    done = turnwise("score", EXAMPLES, "--metrics", "mine", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "SystemExit" in done.stderr


def test_what_a_plugin_prints_stays_out_of_the_result(install, tmp_path: Path) -> None:
    install("loud", LOUD, "loud = loud:Letters", group="turnwise.metrics")
    done = turnwise("score", EXAMPLES, "--metrics", "loud", "--format", "json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["systems"]
    assert "imported" in done.stderr
    assert "judging" in done.stderr


def test_names_are_listed_in_one_order_whatever_was_imported_first() -> None:
    code = "import turnwise.metrics.maude; from turnwise.metrics.registry import METRICS; print(METRICS.names())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(registry.METRICS.names())
