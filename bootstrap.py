"""Set up and run turnwise with nothing but Python and pip: `python3 bootstrap.py demo` or `... test`.

A virtual environment `.venv` is made beside this file, or reused; the system's Python is left alone. It is made
without its own pip (some systems ship Python without `ensurepip`), and filled by the pip that is at hand.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE / ".venv"
PROGRAMS = ENVIRONMENT / ("Scripts" if os.name == "nt" else "bin")
PYTHON = PROGRAMS / ("python.exe" if os.name == "nt" else "python")
PACK = "./packs/turnwise-mini"


def run(*command: str | Path) -> None:
    """Run a command here; end with its status if it fails."""
    status = subprocess.call([str(part) for part in command], cwd=HERE)
    if status:
        sys.exit(status)


def make_environment() -> None:
    """Make `.venv` unless there is one that works."""
    works = PYTHON.exists() and subprocess.call([str(PYTHON), "-c", ""]) == 0
    if not works:
        venv.create(ENVIRONMENT, clear=True, with_pip=False)


def install(*what: str) -> None:
    """Install into `.venv`, with a pip of its own for whoever activates it later."""
    make_environment()
    quiet = ("--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", PYTHON, "install", *quiet, "pip", *what)


def demo() -> None:
    """Install the package with its models and score the example conversations."""
    install(".", PACK)
    run(PROGRAMS / "turnwise", "score", "examples/chats.jsonl", "--report", "report.html")


def setup() -> None:
    """Install the package and its models for development."""
    install("--editable", ".[dev]", "--editable", PACK)


def test() -> None:
    """Install the package for development and run its tests."""
    setup()
    run(PYTHON, "-m", "pytest", *sys.argv[2:])


TASKS = {"demo": demo, "setup": setup, "test": test}

if __name__ == "__main__":
    task = TASKS.get(sys.argv[1] if len(sys.argv) > 1 else "")
    if task is None or not (3, 11) <= sys.version_info[:2] <= (3, 13):
        sys.exit(f"usage: python3 bootstrap.py {'|'.join(TASKS)}   (with Python 3.11, 3.12 or 3.13)")
    task()
