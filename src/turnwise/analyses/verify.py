"""`verify`: is the result, shard, cache or pack in a folder whole and unchanged?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from turnwise.analyses.result import SEAL
from turnwise.analyses.shards import PART, check_part
from turnwise.analyses.targets import CHARTS, PARTIAL_TURNS, RESULT, SAVED
from turnwise.engine.cache import FILE, damaged_answers
from turnwise.engine.state import STATE, Saved
from turnwise.errors import TurnwiseError
from turnwise.files import STAGE, fault_of, is_unfinished
from turnwise.models.pack import MANIFEST, load_pack
from turnwise.problems import Problem

Check = Callable[[Path], Iterator[Problem]]


def verify(path: str | Path) -> list[Problem]:
    """Check the files that turnwise wrote into a folder: a result, a shard, a cache or a pack.

    Args:
        path: The folder. One without such files raises `TurnwiseError`.

    Returns:
        One problem for each damaged, missing or unfinished file; an empty list if all are whole.

    >>> import tempfile, turnwise as tw
    >>> folder = tempfile.mkdtemp()
    >>> saved = tw.evaluate([{"response": "Yes, I like tea."}], "length").save(folder)
    >>> tw.verify(folder)
    []
    """
    folder = Path(path)
    return [problem for kind in kinds_in(folder) for problem in _problems(KINDS[kind][1], folder)]


def kinds_in(folder: Path) -> list[str]:
    """Return the kinds of things that a folder holds."""
    found = [kind for kind, (marks, _) in KINDS.items() if any((folder / mark).exists() for mark in marks)]
    if not found:
        raise TurnwiseError(Problem.of("verify.nothing", str(folder)))
    return found


def _problems(check: Check, folder: Path) -> Iterator[Problem]:
    try:
        yield from check(folder)
    except TurnwiseError as problem:
        yield Problem.of("other", text=str(problem))


def _check_result(folder: Path) -> Iterator[Problem]:
    """Yield what is wrong with a result; `result.json` holds the hashes of all its files, and its own."""
    if is_unfinished(folder):
        yield Problem.of("result.unfinished", str(folder))
        return
    if not (folder / RESULT).is_file():
        yield Problem.of("result.damaged", str(folder), file=RESULT, fault="missing")
        return
    content = (folder / RESULT).read_bytes()
    text, seal, end = content.rpartition(SEAL.encode())
    try:
        result = json.loads(content)
        hashes, state = dict(result["files"]), str(result["state"])
    except (ValueError, RecursionError):
        yield Problem.of("result.damaged", str(folder), file=RESULT, fault="not JSON")
        return
    except (KeyError, TypeError):
        yield Problem.of("result.version", str(folder))
        return
    if not seal or end != f'{hashlib.sha256(text).hexdigest()}"}}\n'.encode():
        yield Problem.of("result.damaged", str(folder), file=RESULT, fault="damaged or swapped")
        return
    for name, sha256 in hashes.items():
        if fault := fault_of(folder / name, sha256):
            yield Problem.of("result.damaged", str(folder), file=name, fault=fault)
    if (folder / PARTIAL_TURNS).exists():
        yield Problem.of("result.running", str(folder), file=PARTIAL_TURNS)
    own = [*(folder / name for name in SAVED), *(folder / CHARTS).glob("*")]
    for path in own:
        name = path.relative_to(folder).as_posix()
        if path.exists() and name not in (*hashes, RESULT, PARTIAL_TURNS):
            yield Problem.of("result.damaged", str(folder), file=name, fault="not of this result")
    if state != "complete":
        yield Problem.of("result.partial", str(folder))


def _check_shard(folder: Path) -> Iterator[Problem]:
    check_part(Saved(folder / PART if (folder / PART / STATE).exists() else folder))
    yield from ()


def _check_cache(folder: Path) -> Iterator[Problem]:
    if count := damaged_answers(folder / FILE):
        yield Problem.of("cache.damaged", str(folder), count=count)


def _check_pack(folder: Path) -> Iterator[Problem]:
    pack = load_pack(folder)
    for name in pack.manifest.files:
        pack.read(name)
    yield from ()


# Each kind with the files that give it away, and its check.
KINDS: dict[str, tuple[tuple[str, ...], Check]] = {
    "result": ((*SAVED, STAGE), _check_result),
    "shard": ((STATE, f"{PART}/{STATE}"), _check_shard),
    "cache": ((FILE,), _check_cache),
    "pack": ((MANIFEST,), _check_pack),
}
