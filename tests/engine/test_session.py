"""A session opens models and the cache once, when they are needed, and closes the cache."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnwise as tw
from turnwise.engine import session as sessions
from turnwise.engine.session import RELAXED, Session, relaxed_gc
from turnwise.metrics.registry import load_metric
from turnwise.models import pack
from turnwise.models.requests import Classify

ROWS = [{"response": "yes , i do", "context": ["do you like tea ?"], "facts": ["tea is hot ."]}]


@pytest.mark.slow
def test_a_run_reads_the_manifest_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[str] = Counter()
    real = Path.open

    def counted(path: Path, *args: Any, **options: Any) -> Any:
        read[path.name] += 1
        return real(path, *args, **options)

    sessions._shared.cache_clear()
    pack._read.cache_clear()
    monkeypatch.setattr(Path, "open", counted)
    tw.evaluate(ROWS, "usr,usl-h,coherence", cache="off")
    assert read[pack.MANIFEST] == 1
    load_metric("nup").score(response="Yes.", context=["Tea?"])
    assert read[pack.MANIFEST] == 1


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    with Session(tmp_path / "absent", cache=tmp_path / "cache") as session:
        assert session.labels({"length": load_metric("length")}) == {}
    assert not (tmp_path / "cache").exists()


def test_models_are_shared_and_the_cache_is_closed(tmp_path: Path) -> None:
    request = Classify("hi", "hello", role="nup")
    with Session(cache=tmp_path) as session:
        source, answers = session.source, session.answer([request])
        assert session.cache is not None
        assert len(session.cache) == 1
    with Session(source, cache=tmp_path) as again:
        assert again.answer([request]) == answers
    assert Session(cache="off").source is source
    assert Session(cache="off").roles == frozenset(source.roles)
    assert "cache" not in session.__dict__


def test_an_interrupt_notes_what_is_kept_only_if_something_is(tmp_path: Path) -> None:
    def interrupted(where: str) -> None:
        with Session(cache=where) as session:
            session.answer([])
            raise KeyboardInterrupt

    for where, notes in (("off", []), (str(tmp_path), [sessions.KEPT])):
        with pytest.raises(KeyboardInterrupt) as caught:
            interrupted(where)
        assert getattr(caught.value, "__notes__", []) == notes


@pytest.fixture
def own_gc() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@relaxed_gc()
def fail() -> None:
    assert gc.get_threshold() == RELAXED
    raise ValueError("stop")


@pytest.mark.usefixtures("own_gc")
def test_garbage_is_collected_less_often_within_and_as_before_afterwards() -> None:
    gc.set_threshold(700, 10, 10)
    with pytest.raises(ValueError, match="stop"):
        fail()
    assert gc.get_threshold() == (700, 10, 10)
    tw.evaluate([{"response": "hello there"}], "length")
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.usefixtures("own_gc")
@pytest.mark.parametrize("own", [(0, 10, 10), (2_000_000, 5, 5)])
def test_a_choice_of_ones_own_is_kept(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with relaxed_gc():
        assert gc.get_threshold() == own
