"""Pairs of utterances of one speaker that contradict, follow from or leave alone one another, made from dialogues.

No model is used: negation, antonyms, numbers, yes against no, two answers to the same question, and the wrong
answers of multiple-choice dialogues.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Literal

from turnwise.text import wordnet
from turnwise.text.inputs import spaced, unpunctuated, words_of
from turnwise.train.dialogues import Dialogue
from turnwise.train.sampling import TooLittleError

Label = Literal["contradiction", "neutral", "entailment"]
LABELS: tuple[Label, ...] = ("contradiction", "neutral", "entailment")

ANTONYMS = dict(
    pair.split("/")
    for pair in (
        "like/dislike love/hate good/bad great/terrible happy/sad easy/difficult cheap/expensive big/small "
        "hot/cold old/new young/old early/late always/never best/worst more/less much/little many/few "
        "before/after inside/outside open/closed full/empty fast/slow high/low long/short rich/poor right/wrong "
        "true/false remember/forget start/stop begin/end win/lose buy/sell agree/disagree possible/impossible "
        "married/single alone/together everyone/nobody everything/nothing healthy/sick safe/dangerous "
        "busy/free brother/sister mother/father son/daughter husband/wife boy/girl man/woman day/night "
        "morning/evening today/yesterday summer/winter north/south left/right up/down dog/cat coffee/tea "
        "city/village indoors/outdoors vegetarian/butcher teacher/student black/white red/blue"
    ).split()
)
ANTONYMS |= {b: a for a, b in ANTONYMS.items() if b not in ANTONYMS}

_AUXILIARY = re.compile(
    r"\b(am|is|are|was|were|can|could|will|would|should|have to|do|does|did|has|have been)\b"
    r"(?! n['’]?t| not|n['’]t)",
    re.I,
)
_NEGATED = re.compile(r"\b(\w+?)(?: ?n['’]t| not)\b", re.I)
_PLAIN_VERB = re.compile(
    r"\b(i|you|we|they) (like|love|want|need|have|know|think|live|work|enjoy|play|go|feel|hope|see|agree)\b",
    re.I,
)
_IRREGULAR = {"ca": "can", "wo": "will", "sha": "shall", "can": "can", "won": "will"}
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve twenty thirty fifty hundred".split()
_OPENING = r"^(?:oh |well |ah )?,? ?"
_YES = re.compile(
    _OPENING + r"(yes|yeah|yep|sure|of course|certainly|ok|okay|i'd love to|i would love|great|all right|definitely"
    r"|absolutely)\b",
    re.I,
)
_NO = re.compile(
    _OPENING + r"(no|nope|nah|not really|sorry|i'm sorry|i'm afraid|never|i don't|i do not|i can't)\b", re.I
)


@dataclass(frozen=True, slots=True)
class InferencePair:
    """An earlier utterance, a later one, and the label of their relation."""

    premise: str
    hypothesis: str
    label: Label
    source: str


def polarity(text: str) -> int:
    """Return +1 for an utterance that opens with consent, -1 for one that opens with refusal, 0 for any other.

    >>> polarity("Yes, please."), polarity("No , thanks ."), polarity("Tea.")
    (1, -1, 0)
    """
    tidy = re.sub(r"\s+([,.!?])", r"\1", text).replace(" ' ", "'").replace("’", "'").strip()
    return 1 if _YES.match(tidy) else -1 if _NO.match(tidy) else 0


def negate(text: str) -> str | None:
    """Return the negated text, by removing or inserting a "not"; None if neither is possible.

    >>> negate("I am at home."), negate("I can't swim."), negate("I like tea.")
    ('I am not at home.', 'I can swim.', "I don't like tea.")
    """
    found = _NEGATED.search(text)
    if found:
        verb = found[1]
        if verb.lower() in {"do", "does", "did"}:
            return " ".join((text[: found.start()] + text[found.end() :]).split())
        plain = _IRREGULAR.get(verb.lower(), verb)
        return text[: found.start()] + plain + text[found.end() :]
    if re.search(r"['’]m\b", text):
        return re.sub(r"(['’]m)\b", r"\1 not", text, count=1)
    verb_found = _PLAIN_VERB.search(text)
    auxiliary = _AUXILIARY.search(text)
    if auxiliary and (not verb_found or auxiliary.start() < verb_found.start()):
        return f"{text[: auxiliary.end()]} not{text[auxiliary.end() :]}"
    if verb_found:
        return f"{text[: verb_found.end(1)]} don't{text[verb_found.end(1) :]}"
    return None


def with_antonym(text: str, rng: Random) -> str | None:
    """Return one word replaced by its opposite."""
    words = text.split(" ")
    places = [i for i, word in enumerate(words) if word.lower().strip(".,!?") in ANTONYMS]
    if not places:
        return None
    place = rng.choice(places)
    bare = words[place].lower().strip(".,!?")
    words[place] = words[place].lower().replace(bare, ANTONYMS[bare])
    return " ".join(words)


def with_other_number(text: str, rng: Random) -> str | None:
    """Return one number replaced by another."""
    found = [*re.finditer(r"\b\d+\b", text), *re.finditer(rf"\b(?:{'|'.join(_NUMBERS[1:])})\b", text.lower())]
    if not found:
        return None
    old = rng.choice(found)
    if old[0].isdigit():
        new = str(max(0, int(old[0][:9]) + rng.choice((-3, -2, -1, 1, 2, 3, 10))) or 7)
        new = new if new != old[0] else f"{new}0"
    else:
        new = rng.choice([number for number in _NUMBERS[1:] if number != old[0]])
    return text[: old.start()] + new + text[old.end() :]


def with_other_answer(text: str, rng: Random) -> str | None:
    """Return a refusal for a consent, or a consent for a refusal; None for other texts."""
    sign = polarity(text)
    if not sign:
        return None
    refusals = (
        "no , thanks .",
        "no , i don't .",
        "no , i'm afraid not .",
        "i'm sorry , i can't .",
        "not really .",
    )
    consents = (
        "yes , please .",
        "yes , of course .",
        "sure , i would love to .",
        "yes , i do .",
        "ok , no problem .",
    )
    return rng.choice(refusals if sign > 0 else consents)


CHANGES: tuple[Callable[[str, Random], str | None], ...] = (
    lambda text, _: negate(text),
    with_antonym,
    with_other_number,
    with_other_answer,
)


def contradict(text: str, rng: Random) -> str | None:
    """Return the text changed by the first of the rules, in random order, that applies."""
    for change in rng.sample(CHANGES, len(CHANGES)):
        changed = change(text, rng)
        if changed and changed != text:
            return changed
    return None


def in_other_words(text: str, rng: Random, share: float = 0.3) -> str:
    """Return some words replaced by a synonym of their commonest sense.

    >>> in_other_words("I see a car .", Random(3), share=1.0)
    'I see a auto .'
    """
    return " ".join(_synonym(word, rng) if rng.random() < share else word for word in text.split())


def _synonym(word: str, rng: Random) -> str:
    others = _first_sense(word.lower())
    return rng.choice(others) if others else word


@lru_cache(maxsize=1 << 14)
def _first_sense(word: str) -> tuple[str, ...]:
    # An inflected word would lose its inflection, and a short one is more often grammar than meaning.
    senses = wordnet.synsets(word) if len(word) > 2 and wordnet.morphy(word) == word else []
    return tuple(sorted(name for name in senses[0] if name != word and "_" not in name)) if senses else ()


def restate(text: str, rng: Random) -> str:
    """Return a restatement: another spelling, one of its sentences, some synonyms, or an opening filler."""
    sentences = [s for s in re.split(r"(?<=[.!?])\s+", text) if len(s.split()) > 2]
    said = rng.choice(sentences) if len(sentences) > 1 and rng.random() < 0.5 else text
    if rng.random() < 0.5:
        said = in_other_words(said, rng)
    style = rng.choice((str, str.lower, spaced, unpunctuated))
    opening = rng.choice(("", "", "well , ", "i said ", "as i said , ", "oh , ", "i think "))
    return opening + (style(said) or said)


def same_speaker_pairs(dialogue: Dialogue) -> Iterator[tuple[str, str]]:
    """Yield each utterance with the same speaker's next one."""
    last: dict[str, str] = {}
    for turn in dialogue.turns:
        if turn.speaker in last:
            yield last[turn.speaker], turn.text
        last[turn.speaker] = turn.text


def answers_by_question(dialogues: Iterable[Dialogue]) -> dict[tuple[str, ...], list[str]]:
    """Return the answers to each question that was asked at least twice, by its words."""
    answers: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for dialogue in dialogues:
        for asked, answered in zip(dialogue.turns, dialogue.turns[1:], strict=False):
            last = re.split(r"(?<=[.!])\s+", asked.text.strip())[-1]
            words = words_of(last)
            if last.endswith("?") and 3 <= len(words) <= 12 and 2 <= len(answered.text.split()) <= 25:
                answers[tuple(words)].append(answered.text)
    return {question: said for question, said in answers.items() if len(set(said)) > 1}


def overlap(a: str, b: str) -> float:
    """Return the number of shared words, divided by the size of the smaller set."""
    first, second = set(words_of(a)), set(words_of(b))
    return len(first & second) / max(1, min(len(first), len(second)))


def two_answers(answers: Sequence[str], rng: Random) -> InferencePair | None:
    """Return two people's answers to one question as a pair, with the label that rules find."""
    first, second = rng.sample(list(answers), 2)
    signs = polarity(first), polarity(second)
    if signs[0] * signs[1] < 0:
        return InferencePair(first, second, "contradiction", "opposite answers")
    if signs[0] * signs[1] > 0:
        return InferencePair(first, second, "entailment", "same answers")
    if any(signs):
        return None
    shared = overlap(first, second)
    if shared >= 0.75:
        return InferencePair(first, second, "entailment", "same answer")
    return InferencePair(first, second, "contradiction", "other answer") if shared < 0.3 else None


class InferencePairs:
    """Draws labelled pairs from dialogues, about a third of each label."""

    def __init__(self, dialogues: Sequence[Dialogue]) -> None:
        self._asked = list(answers_by_question(dialogues).values())
        self._written = [dialogue for dialogue in dialogues if dialogue.wrong]
        self._able = [dialogue for dialogue in dialogues if any(True for _ in same_speaker_pairs(dialogue))]
        if not self._able:
            raise TooLittleError("dialogues: expected one in which a speaker has two turns, got none")

    def draw(self, rng: Random) -> InferencePair:
        """Return one pair."""
        if self._asked and rng.random() < 0.35:
            answered = two_answers(rng.choice(self._asked), rng)
            if answered:
                return answered
        if self._written and rng.random() < 0.12:
            dialogue = rng.choice(self._written)
            return InferencePair(dialogue.turns[-1].text, rng.choice(dialogue.wrong), "contradiction", "written answer")
        return _pair_of_one_dialogue(self._able, rng)


def _pair_of_one_dialogue(pool: Sequence[Dialogue], rng: Random) -> InferencePair:
    while True:
        dialogue = rng.choice(pool)
        earlier, later = rng.choice(list(same_speaker_pairs(dialogue)))
        label = rng.choice(LABELS)
        if label == "neutral":
            return _neutral(dialogue, earlier, later, rng)
        facts = _short_facts(dialogue)
        said = rng.choice(facts) if facts and rng.random() < 0.4 else earlier
        if label == "entailment":
            return InferencePair(said, restate(said, rng), label, "restated")
        changed = None if said.endswith("?") else contradict(said, rng)
        if changed:
            return InferencePair(said, restate(changed, rng) if rng.random() < 0.5 else changed, label, "changed")


def _short_facts(dialogue: Dialogue) -> list[str]:
    return [line for lines in dialogue.facts.values() for line in lines if len(line.split()) < 20]


def _neutral(dialogue: Dialogue, earlier: str, later: str, rng: Random) -> InferencePair:
    lines = _short_facts(dialogue)
    if len(lines) > 1 and rng.random() < 0.3:
        first, second = rng.sample(lines, 2)
        return InferencePair(first, second, "neutral", "two facts")
    return InferencePair(earlier, later, "neutral", "consecutive")
