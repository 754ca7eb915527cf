"""Kill -9 in the middle of a long run, start again: is anything lost, computed twice, or different?

A run is a process of its own that scores distinct texts through the engine, cache and all, and notes every row that
its model computes. One run is left alone; another is killed without warning and started again until it ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from turnwise.engine.answer import answer_requests, request_key
from turnwise.engine.cache import FILE, Cache
from turnwise.models.kinds import Model, ModelSource, TokenRow
from turnwise.models.pack import load_pack
from turnwise.models.requests import Classify, Embed, Request

ROOT = Path(__file__).parents[2]
LINE = (
    "i you we they like love hate music dogs cats tea coffee rain very much not the a piano play hello yes no why how"
)
WORDS = LINE.split()


def questions(count: int, role: str) -> list[Request]:
    """Requests about as many distinct short texts, the same at every call."""
    rng, texts = Random(7), dict[str, None]()
    while len(texts) < count:
        texts[" ".join(rng.choices(WORDS, k=rng.randint(3, 6)))] = None
    return [Embed(text, role=role) if role == "encoder" else Classify(text, role=role) for text in texts]


class Noted(ModelSource):
    """A pack that writes down the name of every request whose row it computes, batch by batch."""

    def __init__(self, where: str | None, log: Path, pause: float) -> None:
        self._pack, self._log, self._pause = load_pack(where), log, pause

    def model(self, role: str) -> Model:
        """The role's model, with a pen."""
        inner, log, pause, names = self._pack.model(role), self._log, self._pause, dict[TokenRow, str]()

        class Writing(Model):
            fingerprint, budget, answer = inner.fingerprint, inner.budget, staticmethod(inner.answer)

            @staticmethod
            def rows(request: Any) -> list[TokenRow]:
                (row,) = inner.rows(request)
                if names.setdefault(row, request.text) != request.text:
                    raise ValueError(f"'{request.text}' and '{names[row]}' are the same to the model")
                return [row]

            @staticmethod
            def run(rows: Sequence[TokenRow]) -> list[Any]:
                results = inner.run(rows)
                # In one piece, so that a kill cannot leave half a line.
                with log.open("ab", buffering=0) as lines:
                    lines.write("".join(names[row] + "\n" for row in rows).encode())
                time.sleep(pause)
                return results

        return Writing()


def run(asked: argparse.Namespace) -> None:
    """One run: answer everything and write the answers as one array."""
    requests = questions(asked.rows, asked.role)
    answers = answer_requests(requests, Noted(asked.models, asked.log, asked.pause), cache=Cache(asked.folder))
    found = [answers[request] for request in requests]
    np.save(asked.out, np.array([list(a.values()) if isinstance(a, dict) else a for a in found]))


@dataclass
class Findings:
    """What the experiment saw. `kept` counts the answers in the cache at each kill."""

    rows: int
    kept: list[int] = field(default_factory=list)
    computed_after: int = 0
    kept_and_computed_again: int = 0
    computed_but_not_kept: int = 0
    lost: int = 0
    answers_in_cache: int = 0
    largest_difference: float = 0.0
    cache_is_whole: bool = False


def experiment(
    models: str | Path | None, rows: int, kills: int, role: str, folder: Path, pause: float = 0.0
) -> Findings:
    """An unbroken run and one that is killed `kills` times at even distances, and how they compare."""
    requests, found = questions(rows, role), Findings(rows)
    fingerprint = load_pack(models).model(role).fingerprint
    text_of = {request_key(fingerprint, request): request.text for request in requests}  # type: ignore[union-attr]

    def start(name: str) -> subprocess.Popen[bytes]:
        options = {"rows": rows, "role": role, "pause": pause, "folder": folder / name, "log": folder / f"{name}.log"}
        options |= {"out": folder / f"{name}.npy"} | ({} if models is None else {"models": models})
        given = [f"--{key}={value}" for key, value in options.items()]
        return subprocess.Popen([sys.executable, "-m", "tests.engine.resume", *given], cwd=ROOT, env=os.environ)

    def computed() -> list[str]:
        log = folder / "broken.log"
        return log.read_text().splitlines() if log.exists() else []

    if start("whole").wait():
        raise RuntimeError("the unbroken run failed")
    before: list[str] = []
    kept: set[str] = set()
    moment = Random(3)
    for kill in range(1, kills + 1):
        process = start("broken")
        while process.poll() is None and len(computed()) < rows * kill // (kills + 1):
            time.sleep(0.01)
        # A log that has just grown means that a batch has just ended; a kill comes at any moment.
        time.sleep(moment.uniform(0, 0.2))
        os.kill(process.pid, signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            raise RuntimeError("the run ended before it could be killed")
        found.kept_and_computed_again += len(kept & set(computed()[len(before) :]))
        before, kept = computed(), {text_of[key] for key in _keys(folder / "broken" / FILE)}
        found.kept.append(len(kept))
    if start("broken").wait():
        raise RuntimeError("the run that was started again failed")
    after = computed()[len(before) :]
    found.computed_after = len(after)
    found.kept_and_computed_again += len(kept & set(after))
    found.computed_but_not_kept = sum(times - 1 for times in Counter(computed()).values())
    found.lost = len(set(text_of.values()) - set(computed()))
    found.answers_in_cache = len(_keys(folder / "broken" / FILE) & text_of.keys())
    whole, broken = (np.load(folder / f"{name}.npy") for name in ("whole", "broken"))
    found.largest_difference = float(np.abs(whole - broken).max())
    with sqlite3.connect(folder / "broken" / FILE) as database:
        found.cache_is_whole = database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    return found


def _keys(path: Path) -> set[bytes]:
    with sqlite3.connect(path) as database:
        keys = {bytes(key) for (key,) in database.execute("SELECT key FROM answers")}
    database.close()
    return keys


def main() -> None:
    """Be one of the runs."""
    options = argparse.ArgumentParser()
    options.add_argument("--models")
    options.add_argument("--rows", type=int)
    options.add_argument("--role")
    options.add_argument("--pause", type=float)
    for name in ("folder", "log", "out"):
        options.add_argument(f"--{name}", type=Path)
    run(options.parse_args())


if __name__ == "__main__":
    main()
