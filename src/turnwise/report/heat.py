"""How surprising each word of a response was: a model's tokens joined to words and laid over the text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from turnwise.report.labels import number, printable

if TYPE_CHECKING:
    from turnwise.report.digest import Digest

Tokens = Sequence[tuple[str, float]]
# The shares of all words of a metric that lie below each step of colour.
SHARES = (0.5, 0.75, 0.9, 0.97)
# So many words are named as the most surprising ones.
NAMED = 3
UNKNOWN = ("[UNK]", "<unk>")
BYTES, MARKS = "Ġ", "Ġ▁"
CLOSING = frozenset(".,!?;:)]}%…’'")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, with its surprisal in nats; None where it was not judged."""

    text: str
    cost: float | None = None


def heat(response: str, tokens: Tokens) -> list[Piece]:
    """Return the response in pieces, each word that was judged with what its tokens cost together.

    Where the tokens are not those of the response alone, the text is put together from them.

    >>> heat("Snowboarding!", [("snow", 3.0), ("##boarding", 1.5), ("!", 0.5)])
    [Piece(text='Snowboarding', cost=4.5), Piece(text='!', cost=0.5)]
    """
    words = joined(tokens)
    return _laid_over(response, words) or _put_together(words)


@dataclass(slots=True)
class _Word:
    text: str
    cost: float
    spaced: bool


def joined(tokens: Tokens) -> list[_Word]:
    """Whole words of the pieces that a tokenizer makes: `##ing` continues a word, `Ġ` and `▁` begin one."""
    mark = next((token[0] for token, _ in tokens if token[:1] in MARKS and token), "")
    words: list[_Word] = []
    for token, cost in tokens:
        if mark:
            text, spaced = token.lstrip(mark), token.startswith(mark)
            continues = not spaced and _is_letter(text[:1]) and bool(words) and _is_letter(words[-1].text[-1:])
        else:
            text, spaced = token.removeprefix("##"), token not in CLOSING
            continues = token.startswith("##") and bool(words)
        if continues or (words and not text):
            words[-1].text += text
            words[-1].cost += cost
        else:
            words.append(_Word(text, cost, spaced))
    if mark == BYTES:
        for word in words:
            word.text = _from_bytes(word.text)
    return words


def _byte_letters() -> dict[str, int]:
    """Byte-level tokenizers write every byte as a letter that can be seen."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + place): byte for place, byte in enumerate(unseen)}


BYTE_LETTERS = _byte_letters()


def _is_letter(character: str) -> bool:
    """Return whether a word may go on here; a byte beyond ASCII is a part of some letter."""
    return character.isalnum() or BYTE_LETTERS.get(character, 0) > 127


def _from_bytes(text: str) -> str:
    if not all(letter in BYTE_LETTERS for letter in text):
        return text
    return bytes(BYTE_LETTERS[letter] for letter in text).decode("utf-8", "replace")


def _laid_over(response: str, words: Iterable[_Word]) -> list[Piece] | None:
    """Return the pieces of the response where the words stand in it one after the other, or None."""
    plain, origin = _plain_letters(response)
    pieces: list[Piece] = []
    place = end = 0
    for word in words:
        while place < len(plain) and plain[place].isspace():
            place += 1
        size = _unknown_size(plain, place) if word.text in UNKNOWN else len(wanted := _plain_letters(word.text)[0])
        if not size or (word.text not in UNKNOWN and plain[place : place + size] != wanted):
            return None
        start, stop = origin[place], origin[place + size - 1] + 1
        pieces += [Piece(response[end:start])] if start > end else []
        pieces.append(Piece(response[start:stop], word.cost))
        place, end = place + size, stop
    return pieces + ([Piece(response[end:])] if end < len(response) else [])


def _plain_letters(text: str) -> tuple[str, list[int]]:
    """Letters as tokenizers see them (lower case, no accents), and which character of the text each comes from."""
    letters, origin = [], []
    for place, character in enumerate(text.replace("’", "'")):
        for letter in unicodedata.normalize("NFD", character.lower()):
            if unicodedata.category(letter) not in {"Mn", "Cf"}:
                letters.append(letter)
                origin.append(place)
    return "".join(letters), origin


def _unknown_size(text: str, place: int) -> int:
    """Return how far a word reaches that the tokenizer does not know; a mark is a word by itself."""
    end = place
    while end < len(text) and not text[end].isspace() and not unicodedata.category(text[end]).startswith("P"):
        end += 1
    return max(end - place, int(place < len(text)))


def _put_together(words: Sequence[_Word]) -> list[Piece]:
    pieces: list[Piece] = []
    for word in words:
        pieces += [Piece(" ")] if word.spaced and pieces else []
        pieces.append(Piece(word.text, word.cost))
    return pieces


def cut(pieces: Iterable[Piece], most: int) -> list[Piece]:
    """Pieces that a page can hold: printable, and so many characters at most."""
    kept: list[Piece] = []
    for piece in pieces:
        if most <= 0:
            return [*kept, Piece("…")]
        kept.append(Piece(printable(piece.text[:most]), piece.cost))
        most -= len(piece.text)
    return kept


def steps_of(costs: Sequence[float]) -> tuple[float, ...]:
    """Return the least surprisal of each step of colour, so that the rarest words of a metric stand out most.

    >>> steps_of([0.0, 0.25, 2.0, 3.0, 4.0]), steps_of([1.0, 1.0])
    ((2.0, 3.0, 3.6, 3.9), ())
    """
    if not costs or min(costs) == max(costs):
        return ()
    return tuple(max(0.01, round(edge, 1 if edge >= 1 else 2)) for edge in np.quantile(costs, SHARES).tolist())


def shown_step(step: float) -> str:
    """Return a step as it stands in the legend.

    >>> shown_step(2.0), shown_step(0.25)
    ('2.0', '0.25')
    """
    return number(step, 1 if step >= 1 else 2)


def level(cost: float | None, steps: Sequence[float]) -> int:
    """Return the step of colour of a word: 0 for an ordinary one."""
    return 0 if cost is None else sum(round(cost, 2) >= step for step in steps)


@dataclass(frozen=True)
class Heats:
    """The pieces of turns by place and metric, and each metric's steps of colour."""

    pieces: dict[tuple[int, str], list[Piece]]
    steps: dict[str, tuple[float, ...]]

    def of(self, place: int) -> list[tuple[list[str], list[Piece]]]:
        """Return what a turn has to show, each with the metrics that share it."""
        shared: dict[int, tuple[list[str], list[Piece]]] = {}
        for key in self.steps:
            if (pieces := self.pieces.get((place, key))) is not None:
                shared.setdefault(id(pieces), ([], pieces))[0].append(key)
        return list(shared.values())


def heats(found: Digest, chosen: Iterable[int], most: int) -> Heats:
    """Return the chosen turns in pieces, by every metric that judged their tokens."""
    pieces: dict[tuple[int, str], list[Piece]] = {}
    costs: dict[str, list[float]] = {}
    for place in chosen:
        turn, known = found.turns[place], dict[Tokens, list[Piece]]()
        for key in found.judging_turns:
            if tokens := turn.scores[key].tokens:
                if tokens not in known:
                    known[tokens] = cut(heat(turn.example.response, tokens), most)
                pieces[place, key] = known[tokens]
                costs.setdefault(key, []).extend(p.cost for p in known[tokens] if p.cost is not None)
    return Heats(pieces, {key: steps_of(of) for key, of in costs.items()})


def most_surprising(pieces: Iterable[Piece]) -> str:
    """Return the words that cost most, with their numbers, for those who see no colours.

    >>> most_surprising([Piece("The", 0.25), Piece(" "), Piece("axolotl", 9.875)])
    '“axolotl” 9.9, “The” 0.2'
    """
    judged = [(piece.text, piece.cost) for piece in pieces if piece.cost is not None]
    first = sorted(judged, key=lambda word: -word[1])[:NAMED]
    return ", ".join(f"“{text}” {number(cost, 1)}" for text, cost in first)
