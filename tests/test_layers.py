"""A room imports only from rooms below it, so that each can be read, tested and replaced without those above."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import turnwise

ROOT = Path(turnwise.__file__).parent
# What each room may import from, beside `dialogue`, `errors` and `problems`, which every package may import.
BELOW = {
    "stats": set(),
    "io": set(),
    "text": {"stats"},
    "models": {"stats", "text", "io"},
    "metrics": {"stats", "text", "models"},
    "engine": {"stats", "text", "io", "models", "metrics"},
    "train": {"stats", "text", "io", "models", "engine"},
    "bots": {"stats", "text", "io", "models", "metrics", "engine"},
    "analyses": {"stats", "text", "io", "models", "metrics", "engine", "bots", "train"},
    "report": {"stats", "text", "io", "models", "metrics", "engine", "analyses"},
}
# What a user asks of an object (`metric.score(...)`, `result.save(...)`) is done by rooms above, when it is asked.
CONVENIENCES = {("metrics/base.py", "engine"), ("analyses/result.py", "report")}


@pytest.mark.parametrize("room", BELOW)
def test_imports_point_down(room: str) -> None:
    upward = {
        (path.relative_to(ROOT).as_posix(), imported)
        for path in (ROOT / room).rglob("*.py")
        for imported in rooms_imported(path)
        if imported in {*BELOW, "cli", "reproduce"} - BELOW[room] - {room}
    }
    assert upward - CONVENIENCES == set()


def rooms_imported(path: Path) -> set[str]:
    """The rooms that a file imports from, wherever in it."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("turnwise.")}


def test_functions_take_twelve_parameters_at_most() -> None:
    """Options belong together in a class; the commands of the command line spell them out."""
    found = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in ROOT.rglob("*.py")
        if "cli" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        if sum(
            given.arg not in ("self", "cls")
            for given in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        )
        > 12
    }
    assert found == set()


def test_a_name_means_one_class() -> None:
    """Two classes of one name send a reader to the wrong file."""
    places: dict[str, list[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_start_up_imports_nothing_heavy() -> None:
    """Neither `import turnwise` nor `turnwise --help` may import what takes long."""
    code = """if True:
        import sys
        import turnwise
        light = set(sys.modules)
        sys.argv = ["turnwise", "--help"]
        from turnwise.cli import main
        try:
            main()
        except SystemExit:
            pass
        heavy = {"numpy", "scipy", "polars", "altair", "jinja2", "torch", "onnxruntime", "rich"}
        print(sorted(heavy & set(sys.modules)), sorted({"typer", *heavy} & light), file=sys.stderr)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == "[] []\n"


# What holds of a package as a whole, or of several of its modules.
WHOLE = {"bots/test_asking", "bots/test_bots", "metrics/test_contract", "metrics/test_metric_pages"}
WHOLE |= {"models/test_invariance"}


def test_a_test_file_names_the_module_that_it_tests() -> None:
    """`tests/PACKAGE/test_MODULE_topic.py` tests `PACKAGE/MODULE.py`, or a module or folder inside of it."""
    lost = []
    for path in Path(__file__).parent.glob("*/test_*.py"):
        package, name = ROOT / path.parent.name, path.stem.removeprefix("test_")
        if not (package / "__init__.py").exists():
            continue
        folders = [folder for folder in package.iterdir() if (folder / "__init__.py").exists()]
        known = {module.stem for module in package.glob("*.py")} | {folder.name for folder in folders}
        if not any(f"{name}_".startswith(f"{module}_") for module in known):
            lost.append(f"{package.name}/{path.stem}")
    assert set(lost) == WHOLE
