"""Forms of English words: a base and a Penn Treebank tag to the form that the tag asks for."""

from __future__ import annotations

import re
from functools import cache

from turnwise.text.wordnet import irregular_forms

# Verbs whose past and participle are not made with -ed: base, past, participle where it differs.
_IRREGULAR = """
arise arose arisen|awake awoke awoken|bear bore borne|beat beat beaten|become became become|begin began begun
bend bent|bet bet|bid bid|bind bound|bite bit bitten|bleed bled|blow blew blown|break broke broken|breed bred
bring brought|broadcast broadcast|build built|burst burst|buy bought|cast cast|catch caught|choose chose chosen
cling clung|come came come|cost cost|creep crept|cut cut|deal dealt|dig dug|do did done|draw drew drawn
drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|find found
fit fit|flee fled|fling flung|fly flew flown|forbid forbade forbidden|forget forgot forgotten|forgive forgave forgiven
freeze froze frozen|get got gotten|give gave given|go went gone|grind ground|grow grew grown|hang hung|have had
hear heard|hide hid hidden|hit hit|hold held|hurt hurt|keep kept|kneel knelt|know knew known|lay laid|lead led
leave left|lend lent|let let|lie lay lain|light lit|lose lost|make made|mean meant|meet met|mistake mistook mistaken
overcome overcame overcome|pay paid|put put|quit quit|read read|ride rode ridden|ring rang rung|rise rose risen
run ran run|say said|see saw seen|seek sought|sell sold|send sent|set set|shake shook shaken|shed shed
shine shone|shoot shot|show showed shown|shrink shrank shrunk|shut shut|sing sang sung|sink sank sunk|sit sat
sleep slept|slide slid|spend spent|spin spun|spit spat|split split|spread spread|spring sprang sprung|stand stood
steal stole stolen|stick stuck|sting stung|stride strode stridden|strike struck
swear swore sworn|sweep swept|swim swam swum|swing swung
take took taken|teach taught|tear tore torn|tell told|think thought|throw threw thrown|tread trod trodden
understand understood|undertake undertook undertaken|upset upset|wake woke woken|wear wore worn|weave wove woven
weep wept|win won|wind wound|withdraw withdrew withdrawn|write wrote written
"""
PAST: dict[str, str] = {}
PARTICIPLE: dict[str, str] = {}
for _entry in _IRREGULAR.replace("\n", "|").strip("|").split("|"):
    _base, _past, *_rest = _entry.split()
    PAST[_base], PARTICIPLE[_base] = _past, (_rest or [_past])[0]
# Nouns that WordNet's list of exceptions gives several plurals, or none that people use.
_PLURALS = dict(
    pair.split("/")
    for pair in (
        "person/people child/children man/men woman/women foot/feet tooth/teeth mouse/mice goose/geese life/lives "
        "wife/wives knife/knives leaf/leaves half/halves shelf/shelves wolf/wolves thief/thieves loaf/loaves "
        "bus/buses gas/gases fish/fish sheep/sheep deer/deer series/series species/species"
    ).split()
)
_COMPARED = {"good": ("better", "best"), "bad": ("worse", "worst"), "far": ("farther", "farthest"),
             "little": ("less", "least"), "much": ("more", "most"), "well": ("better", "best")}  # fmt: skip

_SIBILANT = re.compile(r"(?:s|x|z|ch|sh)$")
_CONSONANT_Y = re.compile(r"[^aeiou]y$")
# One short stressed syllable: its last consonant is doubled.
_DOUBLED = re.compile(r"^y?[^aeiouy]*[aeiou][bdgklmnprt]$")
_VOWELS = re.compile(r"[aeiouy]+")


def inflect(base: str, tag: str) -> str:
    """Return the form of a base that a tag asks for; of several words, that of the one which carries the ending.

    >>> [inflect(*pair) for pair in (("body of water", "NNS"), ("call up", "VBD"), ("stop", "VBG"), ("happy", "JJR"))]
    ['bodies of water', 'called up', 'stopping', 'happier']
    """
    words = base.split(" ")
    if len(words) > 1:
        place = _head(words, tag)
        return " ".join([*words[:place], inflect(words[place], tag), *words[place + 1 :]])
    make = {"NNS": plural, "VBZ": _third_person, "VBD": past, "VBN": participle, "VBG": gerund}.get(tag)
    if make is not None:
        return make(base)
    if tag in ("JJR", "JJS", "RBR", "RBS"):
        return _compared(base, superlative=tag.endswith("S"))
    return base


def _head(words: list[str], tag: str) -> int:
    """Return which of several words is inflected: a verb is the first, a noun the last, or the one before "of"."""
    if tag.startswith("V"):
        return 0
    of = next((i for i, word in enumerate(words) if word in ("of", "in", "de", "to")), None)
    return of - 1 if tag == "NNS" and of else len(words) - 1


def plural(noun: str) -> str:
    """More than one.

    >>> [plural(noun) for noun in ("day", "baby", "box", "tooth", "analysis")]
    ['days', 'babies', 'boxes', 'teeth', 'analyses']
    """
    if noun in _PLURALS:
        return _PLURALS[noun]
    irregular = irregular_forms(noun, "n")
    if len(irregular) == 1:
        return irregular[0]
    return _with_s(noun)


def _third_person(verb: str) -> str:
    return {"be": "is", "have": "has", "do": "does", "go": "goes"}.get(verb) or _with_s(verb)


def _with_s(word: str) -> str:
    if _CONSONANT_Y.search(word):
        return word[:-1] + "ies"
    return word + ("es" if _SIBILANT.search(word) else "s")


def past(verb: str) -> str:
    """Return the past tense.

    >>> [past(verb) for verb in ("try", "stop", "bake", "visit", "go", "mend")]
    ['tried', 'stopped', 'baked', 'visited', 'went', 'mended']
    """
    return PAST.get(verb) or _with_ed(verb)


def participle(verb: str) -> str:
    """Return the past participle."""
    return PARTICIPLE.get(verb) or _with_ed(verb)


def _with_ed(verb: str) -> str:
    # Verbs that double a consonant in a later syllable are in WordNet's list: "preferred".
    doubled = [form for form in irregular_forms(verb, "v") if form == f"{verb}{verb[-1:]}ed"]
    if doubled:
        return doubled[0]
    if verb.endswith("e"):
        return verb + "d"
    if _CONSONANT_Y.search(verb):
        return verb[:-1] + "ied"
    return _double(verb) + "ed"


def gerund(verb: str) -> str:
    """Return the form in -ing.

    >>> [gerund(verb) for verb in ("lie", "make", "see", "run", "prefer", "open")]
    ['lying', 'making', 'seeing', 'running', 'preferring', 'opening']
    """
    doubled = [form for form in irregular_forms(verb, "v") if form == f"{verb}{verb[-1:]}ing"]
    if doubled:
        return doubled[0]
    # Die, and whatever ends in lie, tie or vie; but birdieing.
    if verb.endswith("ie") and (len(verb) < 4 or verb.endswith(("lie", "tie", "vie"))):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "ie", "oe", "ye")) and verb != "be":
        return verb[:-1] + "ing"
    return _double(verb) + "ing"


def _double(word: str) -> str:
    return word + word[-1] if _DOUBLED.search(word) else word


def _compared(word: str, *, superlative: bool) -> str:
    if word in _COMPARED:
        return _COMPARED[word][superlative]
    syllables = len(_VOWELS.findall(word.removesuffix("e")))
    if syllables > 2 or (syllables == 2 and not word.endswith(("y", "le", "ow", "er"))) or word.endswith("ly"):
        return f"{'most' if superlative else 'more'} {word}"
    ending = "est" if superlative else "er"
    if _CONSONANT_Y.search(word):
        return word[:-1] + "i" + ending
    return word + ending[1:] if word.endswith("e") else _double(word) + ending


@cache
def past_readings() -> dict[str, frozenset[str]]:
    """Return which of past and participle an irregular form can be.

    >>> sorted(past_readings()["came"]), sorted(past_readings()["told"])
    (['VBD'], ['VBD', 'VBN'])
    """
    found: dict[str, set[str]] = {}
    for base in PAST:
        for form, tag in ((PAST[base], "VBD"), (PARTICIPLE[base], "VBN")):
            found.setdefault(form, set()).add(tag)
    return {form: frozenset(tags) for form, tags in found.items()}
