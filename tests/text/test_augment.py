"""Tagging, inflection and substitution: a hand-tagged sample, nltk's forms, and the authors' released paraphrases."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.text.augment.inflect import PARTICIPLE, PAST, gerund, inflect, participle, past, plural
from turnwise.text.augment.substitute import KINDS, Slot, paraphrases, slots, substituted
from turnwise.text.augment.tag import frequency, readings, tag
from turnwise.text.tokenise import words
from turnwise.text.wordnet import base_forms, irregular_forms, lemmas, synsets

PENN = re.compile(r"[A-Z]+\$?|\.")


def sample() -> list[tuple[list[str], list[str]]]:
    """Sentences of the project's own, tagged by hand."""
    lines = (Path(__file__).with_name("tagged.txt")).read_text(encoding="utf-8").splitlines()
    pairs = [[item.rpartition("/")[::2] for item in line.split()] for line in lines]
    return [([word for word, _ in line], [penn for _, penn in line]) for line in pairs]


def coarse(penn: str) -> str:
    """What substitution asks: verb, noun, adjective, adverb, or none of them."""
    return penn[:2] if penn[:2] in ("VB", "NN", "JJ", "RB") and penn != "NNP" else ""


# --- the tagger -----------------------------------------------------------------------------------------


def test_accuracy_on_sentences_tagged_by_hand() -> None:
    pairs = [(given, found) for said, tags in sample() for given, found in zip(tags, tag(said), strict=True)]
    assert len(pairs) == 372
    assert sum(given == found for given, found in pairs) / len(pairs) >= 0.94
    assert sum(coarse(given) == coarse(found) for given, found in pairs) / len(pairs) >= 0.96


def test_context_halves_the_errors_of_the_likeliest_reading() -> None:
    wrong = Counter()
    for said, tags in sample():
        alone = [max(readings(word.lower()).items(), key=lambda item: item[1])[0] for word in said]
        wrong["alone"] += sum(given != found for given, found in zip(tags, alone, strict=True))
        wrong["in context"] += sum(given != found for given, found in zip(tags, tag(said), strict=True))
    assert wrong["in context"] <= wrong["alone"] / 2


@given(st.text(max_size=80))
def test_every_word_of_anything_has_a_tag(text: str) -> None:
    said = words(text)
    tags = tag(said)
    assert len(tags) == len(said)
    assert all(PENN.fullmatch(penn) for penn in tags)


@pytest.mark.parametrize(
    ("text", "place", "penn"),
    [
        ("I like tea", 1, "VBP"),
        ("People like you", 1, "IN"),
        ("my work is hard", 1, "NN"),
        ("I have to work", 3, "VB"),
        ("They have seen it", 2, "VBN"),
        ("They saw it", 1, "VBD"),
        ("She is coming", 2, "VBG"),
        ("We met in London", 3, "NNP"),
        ("we met in london", 3, "NNP"),
        ("There is tea", 0, "EX"),
        ("Put it there", 2, "RB"),
        ("They came and passed it", 3, "VBD"),
        ("They came , passed it", 3, "VBD"),
    ],
)
def test_words_that_may_be_several_things(text: str, place: int, penn: str) -> None:
    assert tag(text.split())[place] == penn


def test_frequencies_are_wordnets() -> None:
    assert round(frequency("love", "v") - 0.1 * len(synsets("love", "v"))) == 82
    assert round(frequency("love", "n") - 0.1 * len(synsets("love", "n"))) == 48


# --- forms ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "penn", "form"),
    [
        ("leaf", "NNS", "leaves"),
        ("bus", "NNS", "buses"),
        ("key", "NNS", "keys"),
        ("person", "NNS", "people"),
        ("body of water", "NNS", "bodies of water"),
        ("motor car", "NNS", "motor cars"),
        ("watch", "VBZ", "watches"),
        ("carry", "VBZ", "carries"),
        ("play", "VBZ", "plays"),
        ("plan", "VBD", "planned"),
        ("visit", "VBD", "visited"),
        ("refer", "VBD", "referred"),
        ("write", "VBN", "written"),
        ("die", "VBG", "dying"),
        ("agree", "VBG", "agreeing"),
        ("call up", "VBG", "calling up"),
        ("big", "JJR", "bigger"),
        ("nice", "JJS", "nicest"),
        ("lovely", "JJR", "more lovely"),
        ("expensive", "JJS", "most expensive"),
        ("tea", "NN", "tea"),
    ],
)
def test_inflection(base: str, penn: str, form: str) -> None:
    assert inflect(base, penn) == form


SINGLE = [lemma for lemma in lemmas() if re.fullmatch("[a-z]{3,9}", lemma)]


def undone(form: str) -> set[str]:
    """What a regular form can come from: by its ending, a doubled letter, an i for a y."""
    stem = re.sub("(ing|ed|es|s)$", "", form)
    return {stem, stem[:-1], stem + "e", re.sub("i$", "y", stem), re.sub("y$", "ie", stem)}


def test_forms_lead_back_to_their_base() -> None:
    """WordNet's own morphology finds the base of what we inflect.

    Where a form stands in its list of exceptions for another lemma (conning, of con and not of conn), it finds that;
    and it has not heard of some (blogging), which must be regular.
    """
    unheard = 0
    for lemma in SINGLE:
        verb = synsets(lemma, "v") and lemma in base_forms(lemma, "v")
        forms = [(gerund, "v"), (past, "v")] * bool(verb) + [(plural, "n")] * (lemma in base_forms(lemma, "n"))
        for make, pos in forms:
            form = make(lemma)
            found = base_forms(form, pos)
            if lemma not in found and not any(form in irregular_forms(other, pos) for other in found):
                assert lemma in undone(form) or form == "people", form
                unheard += 1
    assert unheard < 0.003 * len(SINGLE)


def test_irregular_verbs_are_wordnets() -> None:
    for base in PAST:
        for form in (PAST[base], PARTICIPLE[base]):
            assert base in base_forms(form, "v"), form
    assert (past("go"), participle("go")) == ("went", "gone")


# --- substitution ---------------------------------------------------------------------------------------


def released_groups(data_dir: Path) -> list[tuple[list[str], list[list[str]]]]:
    """The authors' groups: the query's words, and the five ways in which each group has them."""
    groups: dict[str, list[list[str]]] = defaultdict(list)
    with (data_dir / "human" / "holistic_diversity_ws.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            groups[row["group"]].append(row["context"][0].split(" "))
    # Every word stands as it was in three of the five.
    return [
        ([Counter(column).most_common(1)[0][0] for column in zip(*ways, strict=True)], ways) for ways in groups.values()
    ]


def test_the_released_rule_makes_every_released_substitution(data_dir: Path) -> None:
    """Whatever the authors put in place of a word is what the rule says for one of its parts of speech."""
    from turnwise.text.augment.substitute import _released

    changed = [
        (said, column[i])
        for query, ways in released_groups(data_dir)
        for said, column in zip(query, zip(*ways, strict=True), strict=True)
        for i in range(5)
        if column[i] != said
    ]
    assert len(changed) == 1430
    assert all(any(_released(said, pos) == [new] for pos in ("v", "n", "a", "r")) for said, new in changed)


def test_the_tagger_agrees_with_the_authors(data_dir: Path) -> None:
    """Which of the words that they changed we would change too, and as the same part of speech."""
    from turnwise.text.augment.substitute import _released

    agree = total = 0
    for query, ways in released_groups(data_dir):
        for said, penn, column in zip(query, tag(query), zip(*ways, strict=True), strict=True):
            new = {word for word in column if word != said}
            if new:
                kinds = {"VB": ("v",), "NN": ("n",), "JJ": ("a", "r"), "RB": ("a", "r")}.get(coarse(penn), ())
                agree += any(_released(said, pos) == [word] for pos in kinds for word in new)
                total += 1
    assert total == 715
    assert agree / total > 0.93


def test_released_style_of_the_first_released_group() -> None:
    query = "a good rest is all you need , and drink more water ."
    said = [paraphrase.text for paraphrase in paraphrases(query, style="released")]
    assert said[0] == "a good rest be all you necessitate , and toast more water ."
    assert said[1] == "a good remainder is all you need , and drink more body_of_water ."
    assert len(said) == len(KINDS)
    assert [paraphrase.text for paraphrase in paraphrases("Oh!", style="released")] == ["oh!"] * 4


def test_form_case_and_article_are_kept() -> None:
    said = {paraphrase.kind: paraphrase.text for paraphrase in paraphrases("Doctors purchased an old automobile.")}
    assert said["verbs"] == "Doctors bought an old automobile."
    assert said["nouns"].startswith(("Docs", "Physicians"))
    slot = Slot(3, 6, "modifiers", ("hourly", "used"))
    assert substituted("An old car", [(slot, "used")]) == "A used car"
    assert substituted("An old car", [(slot, "hourly")]) == "An hourly car"


def test_grammar_and_names_are_left_alone() -> None:
    exchanged = "I have to go to London, and you can't be there."
    assert slots(exchanged) == []
    assert paraphrases(exchanged) == []


def test_a_name_of_several_words_is_left_alone() -> None:
    assert [slot.start for slot in slots("New York is bigger than Big Ben.")] == [12]


def test_what_shouts_goes_on_shouting() -> None:
    said = {paraphrase.kind: paraphrase.text for paraphrase in paraphrases("SHE BOUGHT A CAR")}
    assert (said["verbs"], said["nouns"]) == ("SHE PURCHASED A CAR", "SHE BOUGHT AN AUTO")


@pytest.mark.parametrize("text", ["It is bigger.", "It is the best.", "my older brother", "He ran faster."])
def test_what_is_compared_is_compared_once(text: str) -> None:
    words = {word for slot in slots(text) for word in slot.candidates}
    assert not [word for word in words if re.search(r"(?:er|st)(?:er|est)$|^(?:more|most) \w+(?:er|est)$", word)]


def test_the_seed_decides_what_is_drawn() -> None:
    text = "The happy child quickly ate a big cake in the small garden."
    draws = [[p.text for p in paraphrases(text, sense="random", seed=seed)] for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


def test_a_language_model_may_choose() -> None:
    text = "She bought a small car."
    asked: list[str] = []

    def prefers_long(texts):
        asked.extend(texts)
        return [float(len(said)) for said in texts]

    said = paraphrases(text, 1, sense="likely", rank=prefers_long)[0].text
    (verb,) = [slot for slot in slots(text) if slot.kind == "verbs"]
    assert said == substituted(text, [(verb, max(verb.candidates[:6], key=len))])
    assert len(asked) == len(verb.candidates[:6])


@given(st.text(max_size=60) | st.sampled_from([" ".join(said) for said, _ in sample()]), st.integers(1, 6))
def test_paraphrases_differ_from_the_text_and_each_other(text: str, count: int) -> None:
    said = [paraphrase.text for paraphrase in paraphrases(text, count)]
    assert len(said) <= count
    assert len({text, *said}) == len(said) + 1
