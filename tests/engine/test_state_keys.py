"""Names that files of earlier versions hold: a renamed class or field must not orphan a pack, a cache or a shard."""

from __future__ import annotations

import pytest

from turnwise.engine.answer import request_key
from turnwise.engine.state import StateWriter
from turnwise.models.requests import Classify, Continuation, Converse, Embed, Lookup, MaskedLikelihood, Request, Window
from turnwise.stats.frechet import Moments

# Written by version 0.1; `converse` by version 0.2.
KEYS = {
    "embed": (Embed("a", "b", "cls", (3, -1), Window(first=5)), "68d2ab986f356f0ab929ca4aed7429c1"),
    "masked": (MaskedLikelihood("a", span=(0, 1)), "115105417aa28146e538f5a25df44cfd"),
    "continuation": (Continuation("a", "b"), "851b03f23741943698aecbe82256c3ea"),
    "classify": (Classify("a", "b"), "c25b3b508951788bca15cd412263dccf"),
    "converse": (Converse(("a", "b"), "c"), "b4a0a6967c9aadb34b07df5487bf35de"),
    "lookup": (Lookup(("a",)), "a7fa5d62515b29f76ea0bba9756f739f"),
}


@pytest.mark.parametrize("name", KEYS)
def test_a_request_has_the_key_of_version_0_1(name: str) -> None:
    request: Request
    request, key = KEYS[name]
    assert request_key("0f", request).hex() == key


def test_a_window_is_named_as_in_version_0_1() -> None:
    window = Window(64, 30, 30, "last", together=True)
    assert window.key == "Window(total=64, first=30, second=30, keep='last')"


def test_a_shard_names_its_statistics_as_in_version_0_1() -> None:
    assert StateWriter({}).write(Moments.of([[1.0], [2.0]]))["is"] == "Moments"
