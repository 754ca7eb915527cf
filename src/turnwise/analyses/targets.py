"""Where results may be written: never over what a command reads, nor over a file of another kind."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

from turnwise.analyses.config import is_config
from turnwise.errors import TurnwiseError
from turnwise.io.remote import is_url
from turnwise.io.source import STDIN, resolve
from turnwise.problems import Problem

# What `Result.save` writes into its folder, and the rows that are ready while a run is under way.
RESULT, CHARTS, PARTIAL_TURNS = "result.json", "charts", "turns.partial.jsonl"
SAVED = (RESULT, "turns.parquet", "systems.csv", PARTIAL_TURNS)
# With less space than this on the disk no run is started.
LEAST_SPACE = 1 << 18
PAGES = (b"<!doctype html", b"<html")


def check_targets(
    source: object = None,
    *,
    folder: Path | None = None,
    files: Iterable[Path | None] = (),
    report: Path | None = None,
    config: Path | None = None,
) -> None:
    """Make sure, before any work is done, that results can be written where they are wanted.

    An output may not be one of the inputs in `source`, nor another output; a report may only take the place of a page,
    and a configuration that of a configuration.
    """
    written = [file for file in (*files, report, config) if file is not None]
    inside = [] if folder is None else [folder / name for name in SAVED]
    _refuse_inputs((*written, *inside), list(_paths(source)))
    for one, other in combinations((*written, *inside), 2):
        if _same(one, other):
            raise TurnwiseError(f"{one}: wanted for two outputs; give each a file of its own")
    if report is not None and not _is_free(report) and not _is_page(report):
        raise TurnwiseError(f"{report}: is there already and is not a report; choose another place, or remove it")
    if config is not None and not _is_free(config) and not is_config(config):
        raise TurnwiseError(f"{config}: is there already and is not a configuration; choose another, or remove it")
    if folder is not None:
        _check_folder(folder)
    for place in ([] if folder is None else [folder]) + written:
        try:
            _try(place, is_folder=place is folder)
        except OSError as problem:
            raise TurnwiseError(f"{place}: cannot be written ({problem.strerror}); choose another place") from None


def keep_work(files: Iterable[str | Path | None], *, overwrite: bool) -> None:
    """Refuse files that exist: votes, ballots and configurations are people's work, and cannot be made again."""
    for file in files:
        if file is not None and not overwrite and not _is_free(Path(file)):
            raise TurnwiseError(Problem.of("file.kept", str(file)))


def _check_folder(folder: Path) -> None:
    """Refuse a folder in which a result could not be put in place, after all the work."""
    if folder.exists() and not folder.is_dir():
        raise TurnwiseError(Problem.of("folder.unwritable", str(folder), reason="a file of this name exists"))
    for name in SAVED:
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            reason = "a folder has the name of an output file"
            raise TurnwiseError(Problem.of("folder.unwritable", str(folder / name), reason=reason))
    if (folder / CHARTS).exists() and not (folder / CHARTS).is_dir():
        reason = "a file has the name of an output folder"
        raise TurnwiseError(Problem.of("folder.unwritable", str(folder / CHARTS), reason=reason))
    if folder.exists() and shutil.disk_usage(folder).free < LEAST_SPACE:
        raise TurnwiseError(Problem.of("folder.unwritable", str(folder), reason="no space left on the disk"))


def _refuse_inputs(outputs: Iterable[Path], inputs: Sequence[Path]) -> None:
    for output in outputs:
        if any(_same(output, given) for given in inputs):
            raise TurnwiseError(f"{output}: is read by this command, and would be lost; write to another file")


def _paths(source: object) -> Iterator[Path]:
    """The files that an input stands for; whatever is wrong with it, its reader says."""
    requests = [source] if isinstance(source, str | Path) else source if isinstance(source, list | tuple) else []
    for request in requests:
        if isinstance(request, str | Path) and request != STDIN and not is_url(request):
            try:
                yield from (file.path for file in resolve([request]) if file.path is not None)
            except (TurnwiseError, OSError):
                continue


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, also through links. Devices take what everybody writes."""
    if one.exists() and other.exists():
        return one.is_file() and one.samefile(other)
    return one.resolve() == other.resolve()


def _is_free(file: Path) -> bool:
    return not file.is_file() or file.stat().st_size == 0


def _is_page(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(512).removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(PAGES)
    except OSError:
        return False


def _try(place: Path, *, is_folder: bool) -> None:
    if is_folder:
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    was_there = place.exists()
    with place.open("a"):
        pass
    if not was_there:
        place.unlink()
