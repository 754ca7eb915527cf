"""How far does the fast form of the masked-LM metrics agree with the exact one, and how much time does it save?

    python -m benchmarks.fast_masked [--models PACK] [--dialogues FILE.jsonl[.xz] ...] [--count 200]

Takes one response from each of so many dialogues, scores all of them by either form, and prints Spearman's
correlation of the two with its interval, and the ratio of the seconds that they took in this run.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.engine.local import judge_examples
from turnwise.metrics.masked import fast_form
from turnwise.metrics.registry import load_metric
from turnwise.models.kinds import ModelSource
from turnwise.models.pack import load_models
from turnwise.stats.bootstrap import correlation_interval
from turnwise.stats.correlation import spearman
from turnwise.train.dialogues import merge_runs, read

METRICS = ("usr-mlm", "usr-mlm:released", "mlm-likelihood", "mlm-nce")
CORPORA = ("dailydialog_valid", "empatheticdialogues_valid", "personachat_xpersona_en_valid", "topicalchat_valid_freq")


def examples_of(files: Sequence[Path], count: int, seed: int = 0) -> list[Example]:
    """One response, with all that came before it, from each of so many dialogues, drawn evenly from the files."""
    draw, found = Random(seed), []
    for number, file in enumerate(files):
        dialogues = [merge_runs(dialogue) for dialogue in read([file])]
        long_enough = [dialogue for dialogue in dialogues if len(dialogue.turns) > 1]
        share = count // len(files) + (number < count % len(files))
        for dialogue in draw.sample(long_enough, min(share, len(long_enough))):
            texts = [turn.text for turn in dialogue.turns]
            place = draw.randrange(1, len(texts))
            found.append(Example(texts[place], tuple(texts[:place])))
    return found


def scores_of(request: str, examples: Sequence[Example], models: ModelSource) -> tuple[list[float], float]:
    """The scores of one metric, and the seconds that they took."""
    started = time.perf_counter()
    judged = judge_examples(examples, {"it": load_metric(request)}, lambda asked: answer_requests(asked, models))
    seconds = time.perf_counter() - started
    return [float("nan") if (value := scores["it"].value) is None else value for scores in judged], seconds


def main() -> None:
    """Measure and print."""
    data = Path(os.environ.get("TURNWISE_DATA", ""))
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--models", help="a pack's name or folder; the bundled one when left out")
    options.add_argument("--dialogues", type=Path, nargs="+", help="files of dialogues; four of TURNWISE_DATA if none")
    options.add_argument("--count", type=int, default=200)
    asked = options.parse_args()
    files = asked.dialogues or [data / "train" / f"{name}.jsonl.xz" for name in CORPORA]
    if absent := [file for file in files if not file.is_file()]:
        options.error(f"{absent[0]}: no such file; give --dialogues, or set TURNWISE_DATA")
    examples, models = examples_of(files, asked.count), load_models(asked.models)
    scores_of(METRICS[0], examples[:2], models)  # opens the model
    print(f"{len(examples)} responses from {', '.join(file.name.split('.')[0] for file in files)}")
    print(f"{'metric':20} {'spearman':>8} {'95 % interval':>16} {'exact s':>8} {'fast s':>7} {'ratio':>6}")
    for request in METRICS:
        (exact, slow), (fast, quick) = (scores_of(form, examples, models) for form in (request, fast_form(request)))
        interval = correlation_interval(exact, fast)
        shown = f"[{interval.low:.3f}, {interval.high:.3f}]" if interval else "-"
        rho = spearman(exact, fast).value or float("nan")
        print(f"{request:20} {rho:8.3f} {shown:>16} {slow:8.1f} {quick:7.1f} {slow / quick:5.0f}x")


if __name__ == "__main__":
    main()
