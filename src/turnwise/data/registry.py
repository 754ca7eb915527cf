"""The public corpora that turnwise knows: where each is, under which licence, and what its files must be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from turnwise.errors import TurnwiseError

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a corpus: where it is, where it belongs, and what it must be as far as that is known for certain.

    A release that turnwise can read is also written as native rows (`native`); an archive is unpacked into a folder.
    """

    url: str
    to: str
    sha256: str | None = None
    size: int | None = None
    native: str | None = None
    corpus: str | None = None
    unpack: str | None = None


@dataclass(frozen=True, slots=True)
class PublicCorpus:
    """A corpus and its public address. Without files it has to be fetched by hand, or is not public."""

    name: str
    what: str
    licence: str
    page: str
    files: tuple[RemoteFile, ...]

    def to_dict(self) -> dict[str, object]:
        """One record of `turnwise data list --format json`."""
        return {
            "name": self.name, "what": self.what, "licence": self.licence, "page": self.page,
            "files": [
                {"url": one.url, "to": one.to, "sha256": one.sha256 or UNKNOWN, "size": one.size or UNKNOWN}
                for one in self.files
            ],
        }  # fmt: skip

    def file_records(self) -> list[dict[str, object]]:
        """The lines of `turnwise data list --format csv`: one a file, or one alone where there is nothing to fetch."""
        about: dict[str, object] = {"name": self.name, "what": self.what}
        about |= {"licence": self.licence, "page": self.page}
        return [
            about | {"url": one.url, "to": one.to, "sha256": one.sha256 or UNKNOWN, "size": one.size or UNKNOWN}
            for one in self.files or (RemoteFile("", ""),)
        ]


@cache
def public_corpora() -> dict[str, PublicCorpus]:
    """Every corpus by name."""
    content = json.loads(files("turnwise.data").joinpath("corpora.json").read_text(encoding="utf-8"))
    return {
        one["name"]: PublicCorpus(
            one["name"], one["what"], one["licence"], one["page"], tuple(RemoteFile(**file) for file in one["files"])
        )
        for one in content["corpora"]
    }


def find_corpus(name: str) -> PublicCorpus:
    """The corpus of this name."""
    known = public_corpora()
    if name not in known:
        raise TurnwiseError(f"no public corpus is called '{name}'; there are: {', '.join(known)}")
    return known[name]
