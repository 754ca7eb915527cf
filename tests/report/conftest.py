"""What the report's tests share: a scored file, and a browser where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser, find_chromium
from tests.report.results import EXAMPLES, score
from turnwise.analyses.evaluate import Result


@pytest.fixture(scope="session")
def chats() -> Result:
    """The example conversations: four systems, six rated qualities, references and facts."""
    return score([EXAMPLES])


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium found; install one (on Debian: apt-get install chromium) to run this test")
    with Browser(executable, Path(tmp_path_factory.mktemp("profile"))) as running:
        yield running
