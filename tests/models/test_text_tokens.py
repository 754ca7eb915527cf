"""Texts to ids: templates, cutting, and text that no tokenizer expects."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from turnwise.models.pack import load_pack
from turnwise.models.requests import Continuation, MaskedLikelihood, Window
from turnwise.models.text import Tokens, lengths_within, rectangle

sizes = st.integers(0, 60)
bounds = st.none() | st.integers(0, 70)


@given(sizes, sizes, st.integers(2, 4), bounds, bounds, bounds)
def test_lengths_stay_within_every_bound(a: int, b: int, special: int, total, first, second) -> None:
    kept_a, kept_b = lengths_within(a, b, special, Window(total, first, second), 64)
    assert 0 <= kept_a <= min(a, a if first is None else first)
    assert 0 <= kept_b <= min(b, b if second is None else second)
    limit = 64 if total is None else min(64, total)
    assert kept_a + kept_b <= max(0, limit - special)
    if a + b + special <= limit and first is None and second is None:
        assert (kept_a, kept_b) == (a, b)


def tokens(checkpoints: dict[str, Path], role: str = "encoder") -> Tokens:
    return Tokens.from_bytes((checkpoints[role] / "tokenizer.json").read_bytes(), 96)


def test_pairs_have_the_models_template(checkpoints: dict[str, Path]) -> None:
    reader = tokens(checkpoints)
    encoding = reader.encode("i like tea", "why", None)
    assert encoding.tokens == ["[CLS]", "i", "like", "tea", "[SEP]", "why", "[SEP]"]
    assert encoding.type_ids == [0, 0, 0, 0, 0, 1, 1]


def test_an_empty_first_text_leaves_the_second_alone(checkpoints: dict[str, Path]) -> None:
    reader = tokens(checkpoints)
    encoding = reader.encode(" ", "why not", None)
    assert encoding.tokens == ["[CLS]", "why", "not", "[SEP]"]
    assert set(encoding.type_ids) == {0}


def test_the_context_keeps_its_end_and_the_response_its_beginning(checkpoints: dict[str, Path]) -> None:
    reader = tokens(checkpoints)
    encoding = reader.encode("i like the tea", "yes we do", Window(first=2, second=2))
    assert encoding.tokens == ["[CLS]", "the", "tea", "[SEP]", "yes", "we", "[SEP]"]
    encoding = reader.encode("i like the tea", "yes we do", Window(first=2, second=2, keep="start"))
    assert encoding.tokens[1:3] == ["i", "like"]


def test_bounds_together_leave_a_short_partners_room_to_the_other(checkpoints: dict[str, Path]) -> None:
    reader = tokens(checkpoints)
    window = Window(50, 25, 25, together=True)
    assert len(reader.encode("tea " * 40, "yes " * 5, window).ids) == 48
    # What the special tokens leave no room for is the end of the longer text.
    context = "why " + "tea " * 43 + "piano"
    cut = reader.encode(context, "yes " * 5, window).tokens
    assert (len(cut), cut[1], cut.count("tea"), "piano" in cut) == (50, "why", 41, False)
    cut = reader.encode(context + " tea" * 9, "yes " * 5, window).tokens
    assert (cut[1:16].count("tea"), cut[16], len(cut)) == (15, "piano", 33)


def test_a_line_may_keep_its_last_tokens(checkpoints: dict[str, Path]) -> None:
    reader = tokens(checkpoints)
    window = Window(4, keep="last")
    assert reader.encode("i like the tea", None, window).tokens == ["like", "the", "tea", "[SEP]"]
    assert reader.encode("the tea", None, window).tokens == ["[CLS]", "the", "tea", "[SEP]"]
    assert len(reader.encode("tea " * 200, None, Window(keep="last")).ids) == 96


def test_odd_text_is_read_all_the_same(checkpoints: dict[str, Path]) -> None:
    reader = tokens(checkpoints)
    for text in ("\ud800 tea", "", "\x00", "🎹" * 300, "[MASK] [SEP]"):
        assert len(reader.encode(text, text, None).ids) <= 96


def test_texts_read_ahead_are_read_as_ever(checkpoints: dict[str, Path]) -> None:
    reader, ahead = tokens(checkpoints), tokens(checkpoints)
    texts = ["i like tea", "\ud800 tea", "why not", "i like tea", "", "café"]
    ahead.read_ahead(texts)
    # Cut short once, and asked for again, and more often than it was read.
    short = Window(second=2)
    for text in [*texts, *texts]:
        for window in (short, None):
            assert ahead.encode(text, None, window).ids == reader.encode(text, None, window).ids


@given(st.lists(st.tuples(st.lists(st.integers(1, 9), max_size=6).map(tuple), st.integers(1, 3)), max_size=6))
def test_rows_are_laid_out_each_as_it_is(given_rows: list[tuple[tuple[int, ...], int]]) -> None:
    rows = [row for row, times in given_rows for _ in range(times)]
    types = [row[: len(row) // 2] for row in rows]
    batch = rectangle(rows, types)
    width = max(map(len, rows), default=0)
    assert batch.ids.shape == batch.mask.shape == batch.types.shape == (len(rows), width)
    for place, (row, kinds) in enumerate(zip(rows, types, strict=True)):
        assert batch.ids[place].tolist() == [*row, *[0] * (width - len(row))]
        assert batch.mask[place].tolist() == [1] * len(row) + [0] * (width - len(row))
        assert batch.types[place].tolist() == [*kinds, *[0] * (width - len(kinds))]


def test_spans_pick_the_tokens_to_mask(small_pack: Path) -> None:
    model = load_pack(small_pack).model("masked-lm")
    line = "do you like tea _eos yes , we do"
    start = line.index("yes")
    names = model.tokens.tokenizer.id_to_token

    def asked(request: MaskedLikelihood) -> list[str]:
        return [names(row.wanted[0]) for row in model.rows(request)]

    assert asked(MaskedLikelihood(line, span=(start, len(line)))) == ["yes", ",", "we", "do"]
    assert asked(MaskedLikelihood("do you", "yes we do", span=(0, 9))) == ["yes", "we", "do"]
    assert asked(MaskedLikelihood("do you", "yes we do")) == ["do", "you", "yes", "we", "do"]
    assert asked(MaskedLikelihood("")) == []


def test_continuations_judge_every_token_of_the_response(small_pack: Path) -> None:
    model = load_pack(small_pack).model("causal-lm")
    (row,) = model.rows(Continuation("i like", " tea"))
    assert model.answer(None, [row], [[-1.0]]).tokens == ("Ġtea",)
    assert row.prefix[0] == 0
    (row,) = model.rows(Continuation("", "like tea", begin=False))
    assert row.prefix == ()
    assert row.ids[0] != 0
    assert model.rows(Continuation("i like", "")) == []
    (row,) = model.rows(Continuation("x" * 500, " tea" * 200))
    assert len(row.prefix) + len(row.ids) <= 128
