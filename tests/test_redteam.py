"""The short form of `python -m tests.redteam`."""

from __future__ import annotations

import pytest

from tests.redteam.__main__ import ATTACKS, harm, run


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_does_no_harm(name: str) -> None:
    assert not harm(run([name], short=True))
