"""The documentation says what the code does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.parametrize("page", ["metrics/index.md", "formats.md"])
def test_tables_are_those_of_the_code(page: str) -> None:
    specification = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert specification is not None
    assert specification.loader is not None
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    text = (DOCS / page).read_text(encoding="utf-8")
    assert hooks.on_page_markdown(text) == text, "run python docs/hooks.py"
