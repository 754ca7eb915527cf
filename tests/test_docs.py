"""The documentation says what the code does."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest

import turnwise

DOCS = Path(__file__).parent.parent / "docs"
OF_EXTRAS = {"torch", "transformers", "accelerate", "onnx", "ray", "pyarrow"}


MODULES = sorted(
    module.name for module in pkgutil.walk_packages(turnwise.__path__, "turnwise.") if "__main__" not in module.name
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as absent:
        if absent.name is None or absent.name.partition(".")[0] not in OF_EXTRAS:
            raise
        pytest.skip(f"{absent.name} is not installed; it comes with an extra")
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("page", ["metrics/index.md", "formats.md"])
def test_tables_are_those_of_the_code(page: str) -> None:
    specification = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert specification is not None
    assert specification.loader is not None
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    text = (DOCS / page).read_text(encoding="utf-8")
    assert hooks.on_page_markdown(text) == text, "run python docs/hooks.py"
