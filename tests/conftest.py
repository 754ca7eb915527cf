"""Fixtures that several packages share."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: the first example of a test may have to open a table or a model, or share the machine with other tests.
# Every run draws the same examples, so that a change is judged by what it changes;
# `--hypothesis-profile=fuzz` draws new ones, and more of them.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, max_examples=1000)
settings.load_profile("steady")

EXAMPLES = Path(__file__).parent.parent / "examples" / "chats.jsonl"


def add_entry_points(folder: Path, name: str, points: Mapping[str, Mapping[str, str]]) -> None:
    """Write what an installer writes beside a package, so that its entry points are found once `folder` is a path."""
    about = folder / f"{name}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    groups = ([f"[{group}]", *(f"{key} = {value}" for key, value in of.items())] for group, of in points.items())
    (about / "entry_points.txt").write_text("\n".join(chain(*groups)) + "\n", encoding="utf-8")


def turnwise(
    *arguments: str | Path, stdin: str | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in this process; return its exit status and what it printed."""
    from turnwise.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    words = [str(word) for word in arguments]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(sys, "argv", ["turnwise", *words])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((stdin or "").encode())))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        if folder is not None:
            patch.chdir(folder)
        handlers = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            for number, handler in handlers:
                signal.signal(number, handler)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, int(ended.value.code or 0), *texts)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of answers for this run of the tests and the processes it starts; the user's own is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of rated corpora; it is not part of the project, so tests that need it may be skipped."""
    folder = os.environ.get("TURNWISE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set TURNWISE_DATA to the folder of rated corpora to run this test")
    return Path(folder)
