"""A run on a real Ray cluster: the result of one machine, also when a worker is killed and when a run goes on."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnwise as tw
from tests.analyses.test_shards import rows
from tests.conftest import turnwise
from turnwise.io.read import read_rows
from turnwise.io.remote import Partition, Place, partitions, places, store
from turnwise.metrics.registry import load_metric
from turnwise.options import Backend, Reading

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'turnwise[ray]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'turnwise[ray]'")

from turnwise.analyses.cluster import FOLDER, Job, Scorer, score_on_cluster  # noqa: E402
from turnwise.analyses.shards import facts_of, merged  # noqa: E402

METRICS = "length,distinct-2,entropy-1,f1,bleu-2[corpus=true],meteor,diversity"


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (f"{root}/src", root, os.environ.get("PYTHONPATH"))))
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        object_store_memory=80 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A large file that is cut, with a bad line and an empty one, and a small one."""
    lines = [json.dumps(row | {"system": "x"}) for row in rows(2500, seed=2)]
    lines[700:700] = ["", "not json"]
    (tmp_path / "large.jsonl").write_text("\n".join(lines) + "\n")
    small = [{key: value for key, value in row.items() if key not in ("id", "system")} for row in rows(80, seed=3)]
    (tmp_path / "small.jsonl").write_text("".join(json.dumps(row) + "\n" for row in small))
    return [str(tmp_path / name) for name in ("large.jsonl", "small.jsonl")]


def test_partitions_are_the_whole_file(files: list[str]) -> None:
    (place,) = places([files[0]])
    for most in (1, 999, 20_000, 10**9):
        cut = list(partitions(place, whole=False, most=most)) if most > 1 else []
        read = [row for part in cut for row in part.rows(corpus=None, mapping=None)]
        assert not cut or read == list(read_rows([files[0]]))
    assert len(list(partitions(place, whole=False, most=20_000))) > 10
    assert list(partitions(place, whole=True, most=20_000)) == [Partition(place)]
    assert all(Partition.from_dict(part.to_dict()) == part for part in partitions(place, whole=False, most=50_000))


def test_a_partition_costs_nothing_for_the_lines_before_it(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"response": "yes"}\n\xef\xbb\xbfPAR1\n{"response": "no"}\n')
    (place,) = places([str(file)])
    start = len(b'{"response": "yes"}\n')
    found = list(Partition(place, start, place.size - start, 10**12).rows(corpus=None, mapping=None))
    assert [(row.id, row.line, row.example is None) for row in found] == [
        (f"rows:{10**12 + 1}", 10**12 + 1, True),
        (f"rows:{10**12 + 2}", 10**12 + 2, False),
    ]


def test_addresses_stand_for_files(files: list[str], tmp_path: Path) -> None:
    found = places([f"file://{tmp_path}"])
    assert [place.name for place in found] == ["large.jsonl", "small.jsonl"]
    assert [place.name for place in places([f"file://{tmp_path}/sm*.jsonl"])] == ["small.jsonl"]
    assert isinstance(found[0], Place)
    part = next(partitions(found[1], whole=False))
    assert next(row.id for row in part.rows(corpus=None, mapping=None)) == "small:1"
    with pytest.raises(tw.TurnwiseError, match="no file there"):
        places([f"file://{tmp_path}/none-*.jsonl"])
    with pytest.raises(tw.TurnwiseError, match="cannot be used"):
        places(["nonsense://somewhere"])


def test_what_says_that_all_is_there_is_never_seen_in_part(tmp_path: Path) -> None:
    made, out = tmp_path / "made", tmp_path / "out"
    made.mkdir()
    (made / "a.json").write_text("{}")
    (made / "state.json").write_bytes(b"x" * 30_000_000)
    sizes: list[int] = []

    def watch() -> None:
        while not sizes:
            if (out / "state.json").exists():
                sizes.append((out / "state.json").stat().st_size)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    store(made, str(out), "state.json")
    watcher.join(10)
    assert sizes == [30_000_000]
    (made / "state.json").write_text("{}")
    store(made, str(out), "state.json")
    assert (out / "state.json").read_text() == "{}"
    assert sorted(file.name for file in out.iterdir()) == ["a.json", "state.json"]


def test_a_partition_that_is_scored_again_leaves_nothing_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.engine.spool.TURNS_A_FILE", 10)
    file, facts = tmp_path / "rows.jsonl", facts_of({"length": load_metric("length")}, {})
    job = Job(facts, str(tmp_path / "out"), 1, Reading(), Backend(cache="off"))
    for count in (45, 12):
        file.write_text("".join(f'{{"response": "yes {number}"}}\n' for number in range(count)))
        (place,) = places([str(file)])
        assert Scorer(job).score(1, Partition(place)) == count
        assert len(merged([Path(job.folder(1))]).result(seed=0).to_dict()["turns"]) == count


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_another_request_into_the_same_place_is_scored(scheme: str, tmp_path: Path) -> None:
    file, out = tmp_path / "rows.jsonl", f"{scheme}{tmp_path}/out"
    file.write_text(json.dumps({"a": "yes", "b": "no not now"}) + "\n")
    for answer, words in (("a", 1), ("b", 3)):
        work = tmp_path / f"work-{answer}"
        part = score_on_cluster(
            [str(file)], "length", out, work=work, mapping={"response": answer}, cache="off", workers=1
        )
        assert part.result(seed=0).to_dict()["turns"][0]["scores"] == {"length": words}
    file.write_text(file.read_text() + "not json\n")
    asked = {"mapping": {"response": "a"}, "cache": "off", "workers": 1}
    assert score_on_cluster([str(file)], "length", out, work=tmp_path / "loose", **asked).bad == 1
    with pytest.raises(tw.TurnwiseError, match=r"rows\.jsonl:2"):
        score_on_cluster([str(file)], "length", out, work=tmp_path / "strict", strict=True, **asked)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_killed_worker_costs_nothing_and_a_second_run_does_nothing_again(files: list[str], tmp_path: Path) -> None:
    out, killed, over = tmp_path / "out", [], threading.Event()
    assassin = threading.Thread(target=_kill_one_worker, args=(out, killed, over))
    assassin.start()
    try:
        part = score_on_cluster(
            files, METRICS, out, work=tmp_path / "work", cache="off", workers=2, partition_bytes=12_000
        )
    finally:
        over.set()
        assassin.join()
    assert killed, "no worker was found to be killed"
    result, whole = part.result(seed=0), tw.evaluate(files, METRICS)
    assert result.to_dict() == whole.to_dict()
    assert result.problems == whole.problems
    made = {file: file.stat().st_mtime_ns for file in out.rglob("state.json")}
    assert len(made) > 20
    lost = sorted(made)[3]
    lost.unlink()
    again = score_on_cluster(files, METRICS, out, work=tmp_path / "work", cache="off", partition_bytes=12_000)
    assert again.result(seed=0).to_dict() == whole.to_dict()
    scored_again = {file for file, changed in made.items() if file.stat().st_mtime_ns != changed}
    assert scored_again == {lost}


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_in_and_out_by_address_through_the_command(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "away" / "charts").mkdir(parents=True)
    (tmp_path / "away" / "charts" / "scatter.svg").write_text("of an earlier run")
    asked = (
        "-m",
        "length,f1",
        "--cache",
        "off",
        "--engine",
        "ray",
        "--format",
        "csv",
        "--out",
        f"file://{tmp_path}/away",
    )
    done = turnwise("score", f"file://{tmp_path}/small.jsonl", *asked)
    assert done.returncode == 0, done.stderr
    stored = json.loads((tmp_path / "away" / "result.json").read_text())
    local = tw.evaluate(files[1], "length,f1").to_dict()
    for turn in (*stored["turns"], *local["turns"]):
        turn.pop("file")
    assert {name: stored[name] for name in local} == local
    assert len(list((tmp_path / "away" / FOLDER).iterdir())) == 1
    assert not (tmp_path / "away" / "charts" / "scatter.svg").exists()
    with pytest.raises(tw.TurnwiseError, match="whole run"):
        score_on_cluster([files[1]], "usl-h:paper", tmp_path / "x", work=tmp_path / "w")


def _kill_one_worker(out: Path, killed: list[int], over: threading.Event) -> None:
    """Once two partitions are done, end the process that scored one of them: by the id that it left, never by name.

    The machine may be shared, and other people's workers bear the same name.
    """
    # However long workers take to start on a busy machine; when the run is over, it is too late.
    while len(found := list(out.rglob("state.json"))) < 2 and not over.is_set():
        time.sleep(0.05)
    if over.is_set():
        return
    pid = json.loads(found[0].read_text())["about"]["worker"]["pid"]
    assert os.getpid() in _ancestors(pid), "a worker of this test's own cluster descends from this process"
    os.kill(pid, signal.SIGKILL)
    killed.append(pid)


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        # The name in brackets may hold spaces; the parent is the second field after it.
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid
