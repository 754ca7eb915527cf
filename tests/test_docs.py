"""The documentation says what the code does."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import pkgutil
import re
import shlex
from pathlib import Path

import pytest
import typer

import turnwise
from turnwise.cli.app import app
from turnwise.models.pack import DEFAULT_PACK, installed_packs, load_pack

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
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


@pytest.mark.parametrize("page", ["python.md", "statistics.md"])
def test_examples_on_pages_run(page: str) -> None:
    result = doctest.testfile(str(DOCS / page), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def pages() -> list[Path]:
    """What people read: the README and every page that is not made by a run."""
    return [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if "results" not in page.parts)]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not link.startswith("http"):
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_are_those_of_the_command_line(page: Path) -> None:
    """Every `turnwise COMMAND --option` of a page, in a block or in a line, is one that there is."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    blocks = [line for language, block in fenced if not language for line in block.splitlines()]
    shown = [line for line in blocks if line.startswith("turnwise ")]
    shown += [" ".join(code.split()) for code in re.findall(r"`(turnwise [a-z][^`]*)`", text)]
    root = typer.main.get_command(app)
    for line in shown:
        words = shlex.split(line, comments=True)[1:]
        command = root
        while words and hasattr(command, "commands") and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        assert command is not root, line
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known, line


def test_tables_of_results_were_made_with_the_bundled_weights() -> None:
    if DEFAULT_PACK not in installed_packs():
        pytest.skip("the pack turnwise-mini is not installed")
    pack = load_pack()
    pages = sorted((DOCS / "results" / "reproduce").glob("*.md"))
    assert pages
    for page in pages:
        assert f"({pack.label(pack.roles)})" in page.read_text(encoding="utf-8"), f"{page.name}: make it again"
    measured = json.loads((DOCS / "results" / "models.json").read_text(encoding="utf-8"))
    assert measured["models"] == {role: pack.fingerprint(role) for role in pack.roles}
