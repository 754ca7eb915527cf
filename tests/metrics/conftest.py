"""Rated corpora as examples, toy models, and nltk's own WordNet reader to compare with."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.metrics.toy_models import checkpoints, toy, toy_pack  # noqa: F401  (fixtures)
from turnwise.dialogue import Example

Corpus = Callable[[str], list[Example]]


@pytest.fixture(scope="session")
def corpus(data_dir: Path) -> Corpus:
    """Reads one rated corpus by name."""

    def read(name: str) -> list[Example]:
        with (data_dir / "human" / f"{name}.jsonl").open(encoding="utf-8") as lines:
            return [_example(json.loads(line)) for line in lines]

    return read


def _example(record: dict[str, Any]) -> Example:
    return Example(
        id=record["id"],
        response=record["response"],
        context=tuple(record.get("context", ())),
        references=tuple(record.get("references", ())),
        system=record["system"],
        group=record.get("group"),
        ratings={quality: tuple(given) for quality, given in record.get("ratings", {}).items()},
    )


@pytest.fixture(scope="session")
def nltk_wordnet(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """nltk's reader on the files of a WordNet 3.0 distribution, without the corpora that nltk downloads."""
    source = Path(os.environ.get("WNSEARCHDIR", "/usr/share/wordnet"))
    if not (source / "data.noun").is_file():
        pytest.skip("set WNSEARCHDIR to the folder of a WordNet 3.0 distribution to run this test")
    import nltk
    from nltk.corpus.reader import WordNetCorpusReader

    class EnglishReader(WordNetCorpusReader):  # type: ignore[misc]
        def map_wn(self, version: str = "wordnet") -> None:
            """The map between versions serves other languages, and needs a second WordNet."""

    folder = tmp_path_factory.mktemp("wordnet")
    for pattern in ("data.*", "index.*", "*.exc", "cntlist.rev"):
        for path in source.glob(pattern):
            shutil.copy(path, folder)
    # Distributions leave this file out; nltk wants one line for each of 45 names that nothing here asks for.
    names = [f"{number:02d}\tname{number}\t1\n" for number in range(45)]
    (folder / "lexnames").write_text("".join(names))
    nltk.data.path.append(str(folder))
    with pytest.warns(UserWarning, match="multilingual"):
        reader = EnglishReader(str(folder), None)
    yield reader
    nltk.data.path.remove(str(folder))
