"""Words that cost a response its score: joined from tokens, laid over the text, and shown with their numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from tests.report.browser import Browser
from tests.report.results import score
from turnwise.report.digest import digest
from turnwise.report.heat import Piece, cut, heat, heats, level, most_surprising, steps_of
from turnwise.report.page import render, write_report

RESPONSE = "Snowboarding? I’m in – at the CAFÉ!"
PIECES = ["snow", "##board", "##ing", "?", "i", "’", "m", "in", "–", "at", "the", "cafe", "!"]


def costs(pieces: list[Piece]) -> list[tuple[str, float]]:
    return [(piece.text, piece.cost) for piece in pieces if piece.cost is not None]


def test_pieces_are_laid_over_the_response_as_it_was_written() -> None:
    pieces = heat(RESPONSE, [(token, 1.0) for token in PIECES])
    assert "".join(piece.text for piece in pieces) == RESPONSE
    expected = [("Snowboarding", 3.0), *((w, 1.0) for w in ["?", "I", "’", "m", "in", "–", "at", "the", "CAFÉ", "!"])]
    assert costs(pieces) == expected
    assert Piece(" ") in pieces


def test_byte_level_pieces_are_read_too() -> None:
    tokens = ["I", "'m", "Ġfl", "umm", "ox", "ed", "ĠcafÃ", "©", ".", "ĠðŁĺ", "Ģ"]
    pieces = heat("I'm flummoxed café. 😀", [(token, 0.5) for token in tokens])
    assert costs(pieces) == [("I", 0.5), ("'m", 0.5), ("flummoxed", 2.0), ("café", 1.0), (".", 0.5), ("😀", 1.0)]


def test_an_unknown_word_is_one_word() -> None:
    pieces = heat("so 😀😀 good!", [("so", 1.0), ("[UNK]", 9.0), ("good", 1.0), ("!", 1.0)])
    assert costs(pieces) == [("so", 1.0), ("😀😀", 9.0), ("good", 1.0), ("!", 1.0)]


def test_what_was_cut_off_is_not_judged() -> None:
    assert heat("one two three", [("one", 1.0)]) == [Piece("one", 1.0), Piece(" two three")]


def test_tokens_of_another_text_are_put_together() -> None:
    tokens = [(token, 1.0) for token in ["do", "you", "like", "do", "##gs", "?", "_", "go", "yes", "!"]]
    pieces = heat("Yes!", tokens)
    assert "".join(piece.text for piece in pieces) == "do you like dogs? _ go yes!"
    assert ("dogs", 2.0) in costs(pieces)


LETTERS = [chr(c) for c in range(97, 123)] + list(".,?!'-0123456789")


def wordpieces() -> Tokenizer:
    names = ["[UNK]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "##ing", "the", "cat"]
    tokenizer = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


WORDS = st.lists(st.text(alphabet="aZ tcÉ.!’😀\n-", max_size=8), max_size=6).map(" ".join)


@given(WORDS)
def test_nothing_is_lost_or_counted_twice(text: str) -> None:
    tokens = [(token, 1.0) for token in wordpieces().encode(text).tokens]
    pieces = heat(text, tokens)
    assert sum(cost for _, cost in costs(pieces)) == len(tokens)
    assert "".join(piece.text for piece in pieces) == text


@given(st.lists(st.tuples(st.text(max_size=4), st.floats(0, 50)), max_size=8), st.text(max_size=20))
def test_any_tokens_make_pieces(tokens: list[tuple[str, float]], response: str) -> None:
    pieces = heat(response, tokens)
    assert sum(cost for _, cost in costs(pieces)) == pytest.approx(sum(cost for _, cost in tokens))
    assert sum(len(piece.text) for piece in cut(pieces, 10)) <= 11


def test_steps_are_those_of_the_rarest_words() -> None:
    steps = steps_of([number / 10 for number in range(101)])
    assert steps == (5.0, 7.5, 9.0, 9.7)
    assert [level(cost, steps) for cost in (None, 0.0, 4.99, 4.996, 7.5, 9.69, 99)] == [0, 0, 0, 1, 2, 3, 4]
    assert steps_of([]) == steps_of([2.0]) == ()


def test_the_words_that_cost_most_are_named() -> None:
    assert most_surprising([Piece("a", 1.0), Piece(" "), Piece("b", 3.25), Piece("c", 2.0), Piece("d", 0.1)]) == (
        "“b” 3.2, “c” 2.0, “a” 1.0"
    )


ROWS = [
    {"response": text, "system": system, "context": ["hi"]}
    for system, text in (("a", "I adore <b>Axolotls</b>"), ("b", "yes"), ("a", "no idea whatsoever"), ("b", "oh well"))
]


def test_the_page_shows_every_word_with_its_number() -> None:
    html = render(digest(score(ROWS, ["letters", "words"])))
    (shown,) = {text for text in re.findall(r'<p class="response heat" dir="auto">(.*?)</p>', html) if "adore" in text}
    assert re.findall(r'<span class="h(\d)" title="(.*?) nats">(.*?)</span>', shown) == [
        ("0", "1.00", "I"),
        ("2", "5.00", "adore"),
        ("4", "15.00", "&lt;b&gt;Axolotls&lt;/b&gt;"),
    ]
    assert "“&lt;b&gt;Axolotls&lt;/b&gt;” 15.0, “adore” 5.0, “I” 1.0" in html
    # Of two metrics only one judges words.
    assert html.count('class="legend"') == 1
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])  # type: ignore[index]
    assert [metric.get("steps") for metric in data["metrics"]] == [[4.0, 5.0, 11.0, 13.8], None]
    assert data["turns"][1]["h"] == [[[0], [["yes", 3.0]], "“yes” 3.0"]]


def test_metrics_that_judged_the_same_tokens_share_their_words() -> None:
    found = digest(score(ROWS, ["letters", "letters again", "words"]))
    shared = heats(found, range(4), 1000).of(0)
    assert [keys for keys, _ in shared] == [["letters", "letters again"]]
    assert "<b>" in "".join(piece.text for piece in shared[0][1])


def test_a_long_response_is_cut() -> None:
    pieces = cut([Piece("a" * 30, 1.0), Piece(" "), Piece("b" * 30, 2.0)], 31)
    assert [piece.text for piece in pieces] == ["a" * 30, " ", "…"]


def test_the_details_of_a_turn_show_it_too(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report(score(ROWS, ["letters", "letters again", "words"]), tmp_path / "report.html", title=None))
    browser.click(".open-turn")
    spans = "[...document.querySelectorAll('.detail .heat span')].map((s) => [s.textContent, s.className, s.title])"
    assert browser.run(spans) == [
        ["I", "h0", "1.00 nats"],
        ["adore", "h2", "5.00 nats"],
        ["<b>Axolotls</b>", "h4", "15.00 nats"],
    ]
    assert browser.run("document.querySelector('.detail .heat').textContent") == "I adore <b>Axolotls</b>"
    assert "letters, letters again" in browser.run("document.querySelector('.detail .legend').textContent")
    colour = "getComputedStyle(document.querySelector('.detail .heat .h4')).backgroundColor"
    light = browser.run(colour)
    browser.click("#theme")
    assert browser.run(colour) != light != "rgba(0, 0, 0, 0)"
    assert browser.errors == []


@pytest.mark.parametrize("text", ["", " ", "\ud800", "a\x00b"])
def test_odd_responses_make_a_page(text: str) -> None:
    assert "</html>" in render(digest(score([{"response": text}, *ROWS], ["letters"])))
