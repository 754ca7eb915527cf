"""Porter's suffix stripping (1980) with the small repairs that nltk's stemmer makes by default."""

from __future__ import annotations

from functools import lru_cache

IRREGULAR = {
    **{form: form for form in ("sky", "news", "inning", "outing", "canning", "howe")},
    **{form: form for form in ("proceed", "exceed", "succeed")},
    **{"skies": "sky", "dying": "die", "lying": "lie", "tying": "tie"},
    **{"innings": "inning", "outings": "outing", "cannings": "canning"},
}

# In each table the first suffix that fits decides, whether or not what precedes it is long enough.
DERIVED = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")),
    *(("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous")),
    *(("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive")),
    *(("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble")),
    ("fulli", "ful"),
)
ADJECTIVAL = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic")),
    *(("ical", "ic"), ("ful", ""), ("ness", "")),
)
RESIDUAL = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
    *("ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


@lru_cache(maxsize=1 << 15)
def stem(word: str) -> str:
    """Return the stem of a word, in lower case.

    >>> [stem(word) for word in ("relational", "happily", "flies", "dies", "hopping")]
    ['relat', 'happili', 'fli', 'die', 'hop']
    """
    form = word.lower()
    if form in IRREGULAR:
        return IRREGULAR[form]
    if len(word) <= 2:
        return form
    for step in (_plural, _past, _final_y, _derived, _adjectival, _residual, _final_e, _final_ll):
        form = step(form)
    return form


def _shape(word: str) -> str:
    """Return one letter for each: c for a consonant, v for a vowel; y is a vowel after a consonant."""
    shape = "c"
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1] == "c" and len(shape) > 1)
        shape += "v" if vowel else "c"
    return shape[1:]


def _measure(word: str) -> int:
    """Return how often a run of consonants follows a run of vowels: Porter's m."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Return whether a word ends like `hop`, or is itself like `at`: an e may be missing from it."""
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")


def _plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix) and "v" in _shape(word[: -len(suffix)]):
            return _restore(word[: -len(suffix)])
    return word


def _restore(base: str) -> str:
    """Return a base without its -ed or -ing, spelt as it would stand alone."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if base[-2:-1] == base[-1] and _shape(base)[-1] == "c":
        return base if base[-1] in "lsz" else base[:-1]
    return base + "e" if _measure(base) == 1 and _ends_short(base) else base


def _final_y(word: str) -> str:
    consonant_before = len(word) > 2 and _shape(word[:-1])[-1] == "c"
    return word[:-1] + "i" if word.endswith("y") and consonant_before else word


def _derived(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _derived(word[:-2])
    if word.endswith("logi"):
        # The l counts as part of the stem, so that `geologi` is long enough.
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replace(word, DERIVED)


def _adjectival(word: str) -> str:
    return _replace(word, ADJECTIVAL)


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, replacement in rules:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return base + replacement if _measure(base) > 0 else word
    return word


def _residual(word: str) -> str:
    for suffix in RESIDUAL:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            fits = _measure(base) > 1 and (suffix != "ion" or base[-1] in "st")
            return base if fits else word
    return word


def _final_e(word: str) -> str:
    if not word.endswith("e"):
        return word
    base = word[:-1]
    measure = _measure(base)
    return base if measure > 1 or (measure == 1 and not _ends_short(base)) else word


def _final_ll(word: str) -> str:
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
