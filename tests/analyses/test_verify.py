"""`verify` finds whatever differs from what a run wrote."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.analyses.evaluate import score_part
from turnwise.analyses.part import Shard
from turnwise.analyses.shards import save_part
from turnwise.engine.cache import Cache
from turnwise.files import Save
from turnwise.options import Run

ROWS = [{"response": f"one two {n}", "system": "ab"[n % 2], "context": [f"hi {n // 2}"]} for n in range(20)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tw.evaluate(ROWS, "length").save(tmp_path_factory.mktemp("result"))


@pytest.fixture
def result(saved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved, tmp_path / "result")


def codes(folder: Path) -> list[str]:
    return [problem.code for problem in tw.verify(folder)]


def test_a_result_is_whole_as_it_was_saved(result: Path) -> None:
    assert codes(result) == []


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("change", [append, flip, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("name", ["result.json", "turns.parquet", "systems.csv", "charts/ranking.svg"])
def test_a_file_that_is_missing_or_changed_is_found(result: Path, name: str, change: Callable[[Path], object]) -> None:
    change(result / name)
    assert codes(result) == ["result.damaged"]
    assert name in str(tw.verify(result)[0])


def test_a_chart_of_an_earlier_run_is_found(result: Path) -> None:
    (result / "charts" / "scatter.svg").touch()
    assert codes(result) == ["result.damaged"]


def test_a_run_under_way_is_found(result: Path) -> None:
    (result / "turns.partial.jsonl").touch()
    assert codes(result) == ["result.running"]


def test_a_partial_result_is_not_whole(tmp_path: Path) -> None:
    found = tw.evaluate(ROWS, "length")
    found.interrupted = True
    assert codes(found.save(tmp_path / "out")) == ["result.partial"]


def test_a_save_that_was_cut_short_is_found(result: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.files._finish", lambda _: None)
    with Save(result) as save:
        save.path("result.json").touch()
        save.commit("result.json")
    assert codes(result) == ["result.unfinished"]


def test_a_shard_and_a_cache_are_checked(tmp_path: Path) -> None:
    part = score_part(ROWS, "length", Run.of(cache="off"), shard=Shard(1, 1), spool=tmp_path / "shard")
    save_part(part, Shard(1, 1), tmp_path / "shard")
    assert codes(tmp_path / "shard") == []
    flip(tmp_path / "shard" / "turns-00000.parquet")
    assert codes(tmp_path / "shard") == ["other"]
    Cache(tmp_path / "cache").close()
    assert codes(tmp_path / "cache") == []
    (tmp_path / "cache" / "answers.sqlite").write_bytes(b"not a database" * 100)
    assert codes(tmp_path / "cache") == ["other"]


def test_a_pack_is_checked(tmp_path: Path) -> None:
    pack = shutil.copytree(tw.load_pack().folder, tmp_path / "pack")
    assert codes(pack) == []
    append(next(path for path in sorted(pack.rglob("*")) if path.suffix in (".onnx", ".bin", ".gz", ".npz")))
    assert codes(pack) == ["other"]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tw.TurnwiseError) as caught:
        tw.verify(tmp_path)
    assert caught.value.code == "verify.nothing"


def test_the_command_prints_a_line_each_and_exits_with_2(result: Path, saved: Path) -> None:
    flip(result / "turns.parquet")
    (result / "systems.csv").unlink()
    command = [sys.executable, "-m", "turnwise", "verify"]
    whole = subprocess.run([*command, str(saved)], capture_output=True, text=True, check=False)
    assert (whole.returncode, whole.stdout) == (0, f"{saved}: whole and unchanged (result)\n")
    both = subprocess.run([*command, str(saved), str(result)], capture_output=True, text=True, check=False)
    assert both.returncode == 2
    assert len(both.stdout.splitlines()) == 2
    assert both.stdout.endswith("(1 more)\n")
