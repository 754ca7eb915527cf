"""The engine on models that count what they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.engine import answer
from turnwise.engine.answer import batches
from turnwise.engine.cache import Cache
from turnwise.errors import TurnwiseError
from turnwise.models.kinds import Model, ModelSource, TokenRow
from turnwise.models.requests import Classify, Embed, MaskedLikelihood, Request, TokenScores


class Counting(Model):
    """A model whose answer to a text is its letters' codes; it notes every batch."""

    fingerprint, budget, ahead = "counting", 16, 0

    def __init__(self, capacity: int = 10**9, fault: Exception | None = None) -> None:
        self.seen: list[list[TokenRow]] = []
        self.capacity, self.fault = capacity, fault or MemoryError()

    def rows(self, request) -> list[TokenRow]:
        ids = tuple(map(ord, request.text))
        if isinstance(request, MaskedLikelihood):
            return [TokenRow(ids, places=(i,), wanted=(token,)) for i, token in enumerate(ids)]
        return [TokenRow(ids)]

    def run(self, rows: Sequence[TokenRow]) -> list[float]:
        if len(rows) * max(len(row.ids) for row in rows) > self.capacity:
            raise self.fault
        self.seen.append(list(rows))
        return [float(row.wanted[0] if row.wanted else sum(row.ids)) for row in rows]

    def answer(self, request, rows, results):
        if isinstance(request, MaskedLikelihood):
            return TokenScores(tuple(chr(row.wanted[0]) for row in rows), tuple(results))
        return {"sum": results[0]}


class Only(ModelSource):
    """The same model for every role."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def model(self, role: str) -> Model:
        return self._model


def answer_requests(requests: Sequence[Request], model: Model, **options):
    return answer.answer_requests(requests, Only(model), **options)


def test_equal_requests_run_once() -> None:
    model = Counting()
    answers = answer_requests([Classify("ab"), Classify("ab"), Classify("c"), Classify("ab", role="vup")], model)
    assert len(answers) == 3
    assert sum(map(len, model.seen)) == 3
    assert answers[Classify("ab")] == {"sum": 195.0}


def test_requests_that_come_down_to_the_same_rows_share_them() -> None:
    class Parts(Counting):
        """The first letters of a text, or as many of its last as the span says: each in a row with the whole text."""

        def rows(self, request) -> list[TokenRow]:
            return super().rows(request)[slice(*request.span) if request.span else slice(None)]

    model = Parts()
    whole, part, other = MaskedLikelihood("abcd"), MaskedLikelihood("abcd", span=(2, 4)), MaskedLikelihood("xy")
    answers = answer_requests([whole, part, other], model)
    assert sum(map(len, model.seen)) == 6
    assert answers[whole] == TokenScores(tuple("abcd"), (97.0, 98.0, 99.0, 100.0))
    assert answers[part] == TokenScores(("c", "d"), (99.0, 100.0))


def test_answers_of_many_rows_come_back_in_order() -> None:
    model = Counting()
    texts = ["hello there", "a", "", "what a very long question this is"]
    answers = answer_requests([MaskedLikelihood(text) for text in texts], model)
    for text in texts:
        answer = answers[MaskedLikelihood(text)]
        assert "".join(answer.tokens) == text
        assert answer.log_probs == tuple(float(ord(letter)) for letter in text)


def test_the_longest_run_first() -> None:
    model = Counting()
    answer_requests([Classify("x" * n) for n in (1, 9, 3, 7)], model)
    lengths = [len(row.ids) for batch in model.seen for row in batch]
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize(
    "fault", [MemoryError(), RuntimeError("CUDA out of memory. Tried to"), RuntimeError("bad_alloc")]
)
def test_too_little_memory_halves_the_batch(fault: Exception) -> None:
    model = Counting(capacity=5, fault=fault)
    requests = [Classify(chr(97 + i) * 2) for i in range(20)]
    answers = answer_requests(requests, model)
    assert len(answers) == 20
    assert all(len(batch) <= 2 for batch in model.seen)
    assert model.budget < 16


def test_a_text_that_never_fits_is_said_plainly() -> None:
    with pytest.raises(TurnwiseError, match="one text of 9 tokens"):
        answer_requests([Classify("x" * 9)], Counting(capacity=5))


def test_other_faults_are_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="broken"):
        answer_requests([Classify("x" * 9)], Counting(capacity=5, fault=RuntimeError("broken")))


def test_known_answers_are_not_computed_again(tmp_path: Path) -> None:
    cache, first, second = Cache(tmp_path), Counting(), Counting()
    requests = [Classify("ab"), MaskedLikelihood("xyz"), MaskedLikelihood("")]
    before = answer_requests(requests, first, cache=cache)
    after = answer_requests([*requests, Classify("new")], second, cache=cache)
    assert {request: after[request] for request in requests} == before
    assert [row.ids for batch in second.seen for row in batch] == [tuple(map(ord, "new"))]


def test_another_model_does_not_get_these_answers(tmp_path: Path) -> None:
    cache, other = Cache(tmp_path), Counting()
    answer_requests([Classify("ab")], Counting(), cache=cache)
    other.fingerprint = "other"
    answer_requests([Classify("ab")], other, cache=cache)
    assert other.seen


def test_progress_adds_up(tmp_path: Path) -> None:
    requests = [Classify("x" * n) for n in range(1, 30)]
    for cached in (False, True):
        told: list[int] = []
        answer_requests(requests, Counting(), cache=Cache(tmp_path), progress=told.append)
        assert sum(told) == len(requests), cached


lists = st.lists(
    st.builds(
        TokenRow,
        ids=st.lists(st.just(1), min_size=1, max_size=12).map(tuple),
        prefix=st.sampled_from([(), (1,), (1, 2, 3), (2,) * 9]),
        group=st.integers(0, 1),
    ),
    max_size=40,
)


@given(lists, st.integers(1, 40))
@settings(max_examples=200)
def test_batches_hold_every_row_once_within_the_budget(rows: list[TokenRow], budget: int) -> None:
    made = list(batches(rows, budget))
    assert sorted(i for batch in made for i in batch) == list(range(len(rows)))
    for batch in made:
        members = [rows[i] for i in batch]
        assert len({row.group for row in members}) == 1
        prefixes = {row.prefix for row in members}
        cost = len(members) * max(len(r.ids) for r in members) + len(prefixes) * max(map(len, prefixes))
        assert cost <= budget or len(batch) == 1


def test_rows_with_one_prefix_stay_together() -> None:
    rows = [TokenRow((1,), prefix=(n % 3,) * 5) for n in range(12)]
    for batch in batches(rows, 9):
        assert len({rows[i].prefix for i in batch}) == 1


def test_embeddings_of_layers_do_not_mix() -> None:
    assert Embed("a", layer=-1) != Embed("a", layer=-2)
    assert [len(b) for b in batches([TokenRow((1,), group=-1), TokenRow((1,), group=-2)], 100)] == [1, 1]


def test_a_model_that_takes_batches_ahead_gives_the_same_answers_and_its_errors() -> None:
    texts = [f"text {'x' * (number % 13)}" for number in range(60)]
    requests = [MaskedLikelihood(text) for text in texts] + [Classify(text) for text in texts]
    here, there = Counting(), Counting()
    there.ahead = 3
    assert answer_requests(requests, there) == answer_requests(requests, here)
    # In batches of its own: the first run while the rows of the next are made.
    every = [sorted((row.ids, row.places) for batch in model.seen for row in batch) for model in (there, here)]
    assert every[0] == every[1]
    assert len(there.seen) >= len(here.seen) > 1
    failing = Counting(capacity=8, fault=ValueError("broken"))
    failing.ahead = 3
    with pytest.raises(ValueError, match="broken"):
        answer_requests(requests, failing)


def test_memory_that_does_not_suffice_shows_when_a_batch_is_waited_for() -> None:
    class Later(Counting):
        """Begins anything, and fails only when asked for what it found."""

        ahead = 3

        def begin(self, rows: Sequence[TokenRow]):
            return lambda: self.run(rows)

    texts = [f"text {'x' * (number % 13)}" for number in range(60)]
    requests = [Classify(text) for text in texts]
    tight = Later(capacity=20)
    tight.budget = 200
    assert answer_requests(requests, tight) == answer_requests(requests, Counting())
    assert tight.budget < 200
