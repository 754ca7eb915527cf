"""The shipped WordNet table: what it says, and that it is what the build script makes of the distribution."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from turnwise.text import wordnet

ROOT = Path(__file__).parents[2]
DICT_DIR = Path(os.environ.get("WNSEARCHDIR", "/usr/share/wordnet"))


@pytest.fixture(scope="module")
def built() -> dict[str, list[str]]:
    if not (DICT_DIR / "data.noun").is_file():
        pytest.skip("set WNSEARCHDIR to the folder of a WordNet 3.0 distribution to run this test")
    return _build_script().build(DICT_DIR)


def _build_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wordnet_tool", ROOT / "tools" / "wordnet.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["index", "synsets", "exceptions"])
def test_the_shipped_table_is_the_built_one(built: dict[str, list[str]], name: str) -> None:
    assert wordnet._lines(name) == built[f"{name}.txt"]


def test_its_size_is_that_of_wordnet_3_0() -> None:
    # Figures of the wnstats page of WordNet 3.0.
    assert len(wordnet._lines("synsets")) == 117_659
    assert len(wordnet.lemmas()) == 147_306
    counts = {pos: sum(f" {pos} " in line for line in wordnet._lines("index")) for pos in wordnet.EVERY_POS}
    assert counts == {"n": 117_798, "v": 11_529, "a": 21_479, "r": 4_481}


def test_synsets_stand_in_the_order_of_senses() -> None:
    assert wordnet.synsets("dog", "n")[0] == ("dog", "domestic_dog", "Canis_familiaris")
    assert wordnet.synsets("big", "a")[:2] == [("large", "big"), ("big",)]
    assert wordnet.synsets("quick", "r") == [("promptly", "quickly", "quick")]
    assert wordnet.synsets("dog") == [*wordnet.synsets("dog", "n"), *wordnet.synsets("dog", "v")]
    assert wordnet.synsets("Dogs") == wordnet.synsets("dog")


def test_syntactic_markers_are_not_part_of_a_name() -> None:
    assert ("abounding", "galore") in wordnet.synsets("galore", "a")  # `abounding 0 galore(ip) 0` in data.adj
    assert not any("(" in line for line in wordnet._lines("synsets"))


@pytest.mark.parametrize(
    ("word", "pos", "expected"),
    [
        *(("churches", "n", "church"), ("aardwolves", "n", "aardwolf"), ("abaci", "n", "abacus")),
        *(("went", "v", "go"), ("running", "v", "run"), ("denied", "v", "deny"), ("nicest", "a", "nice")),
        *(("book", "n", "book"), ("book", "a", None), ("hardrock", "r", None), ("", "n", None)),
        *(("dogs", None, "dog"), ("went", None, "go"), ("happier", None, "happy"), ("New York", None, None)),
    ],
)
def test_morphy(word: str, pos: wordnet.Pos | None, expected: str | None) -> None:
    assert wordnet.morphy(word, pos) == expected


def test_synonyms_are_single_words_of_every_sense() -> None:
    assert wordnet.synonyms("automobile") == {"automobile", "auto", "car", "machine", "motorcar"}
    assert wordnet.synonyms("qwertyuiop") == frozenset()


def test_the_licence_lies_beside_the_table() -> None:
    notice = Path(wordnet.__file__).with_name("LICENSE.wordnet").read_text()
    assert "WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved." in notice
    assert 'PROVIDED "AS IS"' in notice
    assert notice.rstrip().endswith("LICENSEE agrees to preserve same.")


def test_opening_is_quick() -> None:
    code = (
        "import time; from turnwise.text import wordnet; start = time.process_time();"
        "wordnet.synonyms('dog'); print(time.process_time() - start)"
    )
    runs = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3))
    assert min(float(run.stdout) for run in runs) < 0.3
