"""What `import turnwise` offers is explained in its docstrings and on the page about Python."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path
from typing import get_type_hints

import pytest

import turnwise
from turnwise.analyses.result import Result

PAGE = Path(__file__).parent.parent / "docs" / "python.md"
EXPORTS = [name for name in turnwise.__all__ if name != "__version__"]
FUNCTIONS = [name for name in EXPORTS if inspect.isfunction(getattr(turnwise, name))]
# What a command makes is a file, a model or a list of plain records, not a table of results.
PLAIN = {"build_pack", "list_metrics", "load_config", "load_metric", "load_pack", "reproduce_paper", "save_config"}
PLAIN |= {"train_model", "verify"}


@pytest.mark.parametrize("name", EXPORTS)
def test_docstrings_open_with_a_verb_and_show_an_example(name: str) -> None:
    text = inspect.getdoc(getattr(turnwise, name)) or ""
    first = text.split()[0]
    assert first[0].isupper()
    assert first not in {"A", "An", "The", "Everything", "How", "One", "What"}
    assert doctest.DocTestParser().get_examples(text), "no example"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_explain_every_parameter_and_what_comes_back(name: str) -> None:
    function = getattr(turnwise, name)
    text = inspect.getdoc(function) or ""
    given = text.partition("Args:\n")[2].partition("Returns:\n")[0]
    assert re.findall(r"^    (\w+):", given, re.MULTILINE) == list(inspect.signature(function).parameters)
    assert "Returns:\n" in text


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - PLAIN))
def test_results_have_a_frame_and_a_document(name: str) -> None:
    function = getattr(turnwise, name)
    made = Result if name == "merge" else get_type_hints(function, {**vars(inspect.getmodule(function))})["return"]
    assert callable(made.to_dict)
    assert isinstance(made.frame, property)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_page_about_python_has_every_function(name: str) -> None:
    assert f"`tw.{name}(" in PAGE.read_text(encoding="utf-8")
