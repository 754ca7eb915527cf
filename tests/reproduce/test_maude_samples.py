"""MAUDE's samples: what is written once is kept, and true responses lie no distance below themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnwise.models.generate import Writer
from turnwise.models.pack import Pack
from turnwise.reproduce.maude_samples import KINDS, RANDOM, TRUE, replies_to, spread, variants
from turnwise.reproduce.workspace import Workspace


@pytest.fixture
def space(mini_data: Path, toy_pack: Pack, tmp_path: Path) -> Workspace:
    return Workspace(mini_data, tmp_path / "work", str(toy_pack.folder), cache=str(tmp_path / "cache"), limit=4)


def test_replies_are_written_once(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = [("do you like tea ?",), ("yes", "what do you play ?")]
    first = replies_to(space, contexts)
    assert first is not None
    assert len(first) == 2
    monkeypatch.setattr(Writer, "sample", lambda *_, **__: pytest.fail("it was written before"))
    assert replies_to(space, contexts) == first


def test_a_sample_is_the_same_every_time_and_has_what_was_asked_for(space: Workspace) -> None:
    two = variants(space, "frames_train", 3, (TRUE, RANDOM))
    assert two == variants(space, "frames_train", 3, (TRUE, RANDOM))
    assert list(two) == [TRUE, RANDOM]
    assert {one.dialogue for one in two[TRUE]} == {0, 1, 2}
    assert len(two[TRUE]) == len(two[RANDOM]) == 3 * 6
    for one in two[RANDOM]:
        others = {true.response for true in two[TRUE] if true.dialogue != one.dialogue}
        assert one.response in others
    assert set(variants(space, "frames_train", 3)) <= set(KINDS)


def test_true_responses_lie_no_distance_below_themselves(space: Workspace) -> None:
    answers = variants(space, "frames_train", 4, (TRUE, RANDOM))
    # Two dialogues that begin alike are still two.
    answers[TRUE][6] = answers[TRUE][6]._replace(context=answers[TRUE][0].context)
    found = spread(space, answers, ["length"])["length"]
    true, random = found[TRUE]["delta"], found[RANDOM]["delta"]
    assert (true.value, true.low, true.n) == (0.0, None, 24)
    means = [found[kind]["mean"].value for kind in (TRUE, RANDOM)]
    assert random.value == pytest.approx((means[0] or 0) - (means[1] or 0))
    assert random.low is not None
    assert random.high is not None
    assert random.low <= (random.value or 0) <= random.high
