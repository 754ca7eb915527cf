"""What does the next turn of a conversation cost? With MAUDE, turn 50 should cost what turn 2 costs.

    python -m benchmarks.maude [--models PACK] [--turns 50] [--repeat 15]

Judges the last turn of conversations that have been followed from their beginning, after one turn and after many, and
prints the median seconds of each and their ratio. A third figure is the same last turn with nothing remembered.
"""

from __future__ import annotations

import argparse
import statistics
import time
from random import Random

from turnwise.engine.answer import answer_requests
from turnwise.metrics.maude import as_lines
from turnwise.models.maude import MaudeModel
from turnwise.models.pack import Pack, load_pack
from turnwise.models.requests import Classify

WORDS = "i you we like love have saw read play walk dog cat book music tea park city often never really today".split()
LENGTH = 12
BAR = 1.5


def conversation(turns: int, rng: Random) -> list[str]:
    """So many turns that nobody has said before, of equal length."""
    return [" ".join(rng.choices(WORDS, k=LENGTH)) for _ in range(turns)]


def seconds(pack: Pack, said: list[str]) -> float:
    """The time to judge the last turn, by the same path as any other request takes."""
    started = time.perf_counter()
    answer_requests([Classify(as_lines(said[:-1]), said[-1], role="maude")], pack)
    return time.perf_counter() - started


def follow(pack: Pack, turns: int, repeat: int, seed: int) -> tuple[float, float]:
    """Median seconds of the second and of the last turn of conversations that were followed turn by turn."""
    early, late = [], []
    for number in range(repeat):
        said = conversation(turns, Random(f"{seed}:{number}"))
        # Every second turn is the bot's and is judged, so each brings two new utterances: its own and the user's.
        times = [seconds(pack, said[:turn]) for turn in range(2, turns + 1, 2)]
        early.append(times[0])
        late.append(times[-1])
    return statistics.median(early), statistics.median(late)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--models", help="a pack's name or folder; the bundled one when left out")
    options.add_argument("--turns", type=int, default=50)
    options.add_argument("--repeat", type=int, default=15)
    asked = options.parse_args()
    pack = load_pack(asked.models)
    assert isinstance(pack.model("maude"), MaudeModel)
    follow(pack, 3, 3, seed=1)  # opens the model and warms it up
    early, late = follow(pack, asked.turns, asked.repeat, seed=0)
    anew = statistics.median(
        seconds(pack, conversation(asked.turns, Random(f"new:{number}"))) for number in range(asked.repeat)
    )
    print(f"turn 2              {1000 * early:7.2f} ms")
    print(f"turn {asked.turns:<15d}{1000 * late:7.2f} ms   {late / early:.2f} of turn 2 (at most {BAR})")
    print(f"the same, unfollowed{1000 * anew:7.2f} ms   {anew / early:.2f} of turn 2")


if __name__ == "__main__":
    main()
