"""Every format that can be read, as a table for people."""

from __future__ import annotations

from turnwise.io.corpora import CORPORA

_OWN = (
    ("JSON Lines", ".jsonl, .ndjson, .json", "one example or one whole chat per line"),
    ("JSON list", ".json", "the same objects in one list"),
    ("CSV, TSV", ".csv, .tsv", "columns by name, or by --map; ratings in columns ratings.QUALITY"),
    ("Parquet", ".parquet", "columns by name, or by --map; lists as they are"),
    ("compressed", ".gz, .xz, .zst", "any of the above but Parquet, read as they are"),
    ("standard input", "-", "JSON Lines, a JSON list, or CSV or TSV whose header names the response"),
)


def format_table() -> list[dict[str, str]]:
    """Name, files, content and source of every format; release formats are read with --corpus NAME."""
    own = [{"format": name, "files": files, "what": what, "cite": ""} for name, files, what in _OWN]
    released = [
        {"format": f"--corpus {corpus.name}", "files": corpus.files, "what": corpus.what, "cite": corpus.cite}
        for corpus in CORPORA.values()
    ]
    return own + released
