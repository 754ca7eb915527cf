"""The cache: exact, bounded, and hard to break."""

from __future__ import annotations

import os
import signal
import sqlite3
import struct
import subprocess
import sys
import textwrap
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.engine.answer import request_key
from turnwise.engine.cache import Cache, open_cache, pack_answer, unpack_answer
from turnwise.errors import TurnwiseError, TurnwiseWarning
from turnwise.models.requests import Classify, Embed, MaskedLikelihood, TokenScores, Window

numbers = st.floats(allow_nan=False)


@given(st.lists(st.tuples(st.text(), numbers)))
def test_token_scores_come_back_exactly(pairs: list[tuple[str, float]]) -> None:
    answer = TokenScores(tuple(t for t, _ in pairs), tuple(n for _, n in pairs))
    assert unpack_answer(key(1), pack_answer(key(1), answer)) == answer


@given(st.dictionaries(st.text(), numbers))
def test_labels_come_back_exactly(answer: dict[str, float]) -> None:
    assert unpack_answer(key(1), pack_answer(key(1), answer)) == answer


@pytest.mark.parametrize("shape", [(3,), (0, 4), (2, 5)])
def test_arrays_come_back_exactly(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    back = unpack_answer(key(1), pack_answer(key(1), array))
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, array)
    back += 1  # an answer belongs to whoever asked


@given(st.integers(0, 10**6), st.integers(0, 7))
def test_a_flipped_bit_is_noticed(place: int, bit: int) -> None:
    content = bytearray(key(1) + pack_answer(key(1), {"yes": 0.25, "no": 0.75}))
    content[place % len(content)] ^= 1 << bit
    assert unpack_answer(bytes(content[:16]), bytes(content[16:])) is None


def test_keys_tell_requests_apart() -> None:
    asked = [
        Classify("a", "b"),
        Classify("ab"),
        Classify("b", "a"),
        Classify("a", "b", window=Window(total=9)),
        Embed("a", "b"),
        Embed("a", "b", layer=-2),
        MaskedLikelihood("a", "b"),
        MaskedLikelihood("a", "b", span=(0, 1)),
        Classify("\ud800", "b"),
    ]
    assert len({request_key("m", request) for request in asked} | {request_key("n", asked[0])}) == len(asked) + 1
    assert request_key("m", Classify("a", role="nup")) == request_key("m", Classify("a", role="vup"))


def test_off_and_default_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert open_cache("off") is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = open_cache(None)
    assert cache is not None
    assert cache.path == tmp_path / "turnwise" / "answers.sqlite"


def test_tests_leave_the_users_own_cache_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = open_cache(None)
    assert cache is not None
    assert cache.path.is_relative_to(tmp_path_factory.getbasetemp())


def test_a_folder_that_it_makes_is_the_users_alone(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    given.chmod(0o755)
    Cache(given).close()
    Cache(tmp_path / "new" / "cache").close()
    assert given.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


def test_a_place_that_cannot_be_used_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TurnwiseError, match="`cache"):
        Cache(tmp_path / "file")


def key(n: int) -> bytes:
    return n.to_bytes(16, "big")


def test_a_home_that_cannot_be_used_costs_the_cache_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "taken" / "turnwise" / "answers.sqlite").mkdir(parents=True)
    for home in ("file", "taken"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
        with pytest.warns(TurnwiseWarning) as caught:
            assert open_cache(None) is None
        said = str(caught[0].message)
        assert said.startswith(f"answers of models are not kept: {tmp_path / home}")
        assert "\n" not in said
        with pytest.raises(TurnwiseError, match="`cache"):
            open_cache(tmp_path / home / "turnwise")


def test_it_stays_within_its_limit(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=200_000)
    for n in range(200):
        cache.put({key(n): np.full(1000, n, dtype=np.float32)})
    cache.close()
    assert (tmp_path / "answers.sqlite").stat().st_size < 300_000
    cache = Cache(tmp_path)
    assert list(cache.get([key(199)])) == [key(199)]
    assert not cache.get([key(0)])


@pytest.mark.parametrize("content", [b"this is not a database", b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_damaged_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "answers.sqlite").write_bytes(content)
    cache = Cache(tmp_path)
    cache.put({key(1): {"yes": 1.0}})
    assert cache.get([key(1)]) == {key(1): {"yes": 1.0}}
    assert cache.set_aside is not None
    assert cache.set_aside.read_bytes() == content


def test_damage_in_the_middle_costs_the_cache_and_not_the_run(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put({key(n): np.full(500, n, dtype=np.float32) for n in range(300)})
    cache.close()
    path = tmp_path / "answers.sqlite"
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    cache = Cache(tmp_path)
    assert cache.get([key(n) for n in range(300)]) == {}
    cache.put({key(5): {"yes": 0.5}})
    assert cache.get([key(5)]) == {key(5): {"yes": 0.5}}
    assert cache.set_aside is not None


def test_every_thread_may_use_it(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    cache = Cache(tmp_path)
    cache.put({key(0): {"yes": 0.5}})

    def use(number: int) -> None:
        for n in range(20):
            cache.put({key(1000 * number + n): {"yes": float(n)}})
            assert cache.get([key(0), key(1000 * number + n)])[key(1000 * number + n)] == {"yes": float(n)}

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(use, range(1, 5)))
    assert len(cache) == 81
    assert cache.set_aside is None
    assert cache.get([key(0)]) == {key(0): {"yes": 0.5}}


def test_what_is_no_damage_leaves_the_file_where_it_is(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put({key(1): {"yes": 1.0}})
    cache.close()
    with pytest.raises(TurnwiseError, match="closed"):
        cache.get([key(1)])
    assert cache.set_aside is None
    assert Cache(tmp_path).get([key(1)]) == {key(1): {"yes": 1.0}}


def test_a_damaged_answer_counts_as_absent(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put({key(1): {"yes": 1.0}, key(2): {"yes": 0.5}})
    cache.close()
    with sqlite3.connect(tmp_path / "answers.sqlite") as database:
        database.execute("UPDATE answers SET value = x'00112233445566778899' WHERE key = ?", [key(1)])
    database.close()
    assert Cache(tmp_path).get([key(1), key(2)]) == {key(2): {"yes": 0.5}}


def test_the_answer_to_another_request_is_never_served(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put({key(n): {"yes": float(n)} for n in range(3)})
    cache.close()
    with sqlite3.connect(tmp_path / "answers.sqlite") as database:
        database.execute("UPDATE answers SET value = (SELECT value FROM answers WHERE key = ?)", [key(2)])
        database.execute("UPDATE answers SET value = 'text' WHERE key = ?", [key(1)])
    database.close()
    assert Cache(tmp_path).get([key(n) for n in range(3)]) == {key(2): {"yes": 2.0}}


def test_an_entry_of_version_0_1_counts_as_absent(tmp_path: Path) -> None:
    header = b'{"kind":"labels","names":["yes"],"dtype":"f8","shape":[1]}'
    body = struct.pack("<I", len(header)) + header + struct.pack("<d", 0.5)
    cache = Cache(tmp_path)
    cache.put({key(1): {"yes": 1.0}})
    cache.close()
    with sqlite3.connect(tmp_path / "answers.sqlite") as database:
        database.execute("UPDATE answers SET value = ?", [struct.pack("<I", zlib.crc32(body)) + body])
    database.close()
    cache = Cache(tmp_path)
    assert cache.get([key(1)]) == {}
    cache.put({key(1): {"yes": 0.5}})
    assert (cache.get([key(1)]), cache.set_aside) == ({key(1): {"yes": 0.5}}, None)


def test_an_answer_that_cannot_be_decoded_counts_as_absent(tmp_path: Path) -> None:
    def decode(*_: object) -> object:
        raise RecursionError

    cache = Cache(tmp_path)
    cache.put({key(1): {"yes": 1.0}})
    assert cache.get([key(1)], decode) == {}


@pytest.mark.parametrize(
    ("place", "content"), [(18, b"\x09\x09"), (16, b"\x00\x03"), (56, b"\x00\x00\x00\x02"), (100, b"\x02")]
)
def test_a_damaged_header_costs_the_cache_and_not_the_run(tmp_path: Path, place: int, content: bytes) -> None:
    cache = Cache(tmp_path)
    cache.put({key(n): {"yes": float(n)} for n in range(50)})
    cache.close()
    with (tmp_path / "answers.sqlite").open("rb+") as file:
        file.seek(place)
        file.write(content)
    cache = Cache(tmp_path)
    assert cache.get([key(5)]).get(key(5)) in ({"yes": 5.0}, None)
    cache.put({key(5): {"yes": 0.5}})
    assert Cache(tmp_path).get([key(5)]) == {key(5): {"yes": 0.5}}


def test_a_process_that_has_a_damaged_file_open_does_not_harm_the_next_one(tmp_path: Path) -> None:
    old = Cache(tmp_path)
    old.put({key(n): np.full(500, n, dtype=np.float32) for n in range(300)})
    first = Cache(tmp_path)
    # The journal is moved into the file before that is damaged.
    sqlite3.connect(tmp_path / "answers.sqlite").execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (tmp_path / "answers.sqlite").open("rb+") as file:
        file.seek(4096)
        file.write(b"\xa5" * 4096 * 20)
    new = Cache(tmp_path)
    new.get([key(n) for n in range(300)])
    new.put({key(1000): {"yes": 1.0}})
    assert new.set_aside is not None
    for cache in (first, old):
        cache.put({key(1001): {"yes": 1.0}})
        cache.close()
    new.put({key(1002): {"yes": 1.0}})
    assert Cache(tmp_path).get([key(1000), key(1002)]).keys() == {key(1000), key(1002)}


FULL_DISK = """
    import resource, sys, warnings
    import numpy as np
    from turnwise.engine.cache import open_cache

    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache = open_cache(None)
        for n in range(30):
            cache.put({bytes([n] * 16): np.zeros(1000, dtype="f4")})
            cache.get([bytes([n] * 16)])
    print([str(one.message) for one in caught])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of resources")
def test_a_full_disk_under_the_default_cache_costs_the_cache_alone(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    program = [sys.executable, "-c", textwrap.dedent(FULL_DISK)]
    done = subprocess.run(program, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("no longer kept") == 1


SLOW_RUN = """
    import sys, time
    from turnwise.engine.cache import Cache
    from turnwise.engine.answer import answer_requests
    from turnwise.models.kinds import Model, ModelSource, TokenRow
    from turnwise.models.requests import Classify

    class Slow(Model):
        fingerprint, budget, left = "slow", 20, {stop_after}
        def rows(self, request): return [TokenRow(tuple(map(ord, request.text)))]
        def run(self, rows):
            time.sleep({pause})
            with open(sys.argv[2], "a") as log:
                for row in rows:
                    log.write("".join(map(chr, row.ids)) + "\\n")
            self.left -= len(rows)
            while self.left <= 0:
                time.sleep(1)
            return [sum(row.ids) / 7 for row in rows]
        def answer(self, request, rows, results): return {{"sum": results[0]}}

    class Only(ModelSource):
        def model(self, role): return slow

    slow = Slow()
    requests = [Classify(f"text {{n}}") for n in range({count})]
    answers = answer_requests(requests, Only(), cache=Cache(sys.argv[1]))
    print(sum(answers[r]["sum"] for r in requests), len(answers))
"""


def start(folder: Path, log: Path, pause: float, count: int, stop_after: int = 10**9) -> subprocess.Popen[str]:
    """A run that, after so many rows, waits to be killed."""
    program = textwrap.dedent(SLOW_RUN).format(pause=pause, count=count, stop_after=stop_after)
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder), str(log)], stdout=subprocess.PIPE, text=True, env=os.environ
    )


def expected(count: int) -> str:
    return f"{sum(sum(map(ord, f'text {n}')) / 7 for n in range(count))} {count}"


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    folder, log, count = tmp_path / "cache", tmp_path / "log", 2000
    for _ in range(3):
        before = len(log.read_text().splitlines()) if log.exists() else 0
        run = start(folder, log, 0, count, stop_after=60)
        while run.poll() is None and (not log.exists() or len(log.read_text().splitlines()) < before + 60):
            time.sleep(0.01)
        os.kill(run.pid, signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL, "the run ended before it could be killed"
    output, _ = start(folder, log, 0, count).communicate()
    assert output.strip() == expected(count)
    computed = log.read_text().splitlines()
    assert set(computed) == {f"text {n}" for n in range(count)}
    # Only the batch in hand at each kill may have been computed without being kept.
    assert len(computed) - count <= 3 * 4
    assert sqlite3.connect(folder / "answers.sqlite").execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_two_processes_at_once(tmp_path: Path) -> None:
    folder, count = tmp_path / "cache", 600
    runs = [start(folder, tmp_path / f"log{i}", 0.001, count) for i in range(2)]
    assert [run.communicate()[0].strip() for run in runs] == [expected(count)] * 2
    assert len(Cache(folder)) == count


def test_many_may_make_the_same_cache_at_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    for number in range(20):
        gate = Barrier(12)

        def make(_: int, folder: Path = tmp_path / str(number), gate: Barrier = gate) -> None:
            gate.wait()
            Cache(folder).close()

        with ThreadPoolExecutor(12) as threads:
            list(threads.map(make, range(12)))
