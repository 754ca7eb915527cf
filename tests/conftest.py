"""Fixtures that several rooms share."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
