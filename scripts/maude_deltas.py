"""MAUDE's tables in one command: `python scripts/maude_deltas.py --data DIR --work DIR [--out FILE.md]`.

Trains MAUDE (and, with --baselines, the baselines) on PersonaChat and what is like it, against all negatives,
against semantic ones only and against syntactic ones only, and prints for each kind of response on PersonaChat's
validation set how far its mean score lies below the true responses' (the delta), the zero-shot deltas of random
utterances on other corpora, and the published numbers. --metrics adds any metric of the pack as it is, untrained here.
What was trained or encoded before is taken from --work.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt
from maude_corpora import Room
from train_maude import RECIPE, dialogues, train_head

from turnwise.dialogue import Example
from turnwise.engine.local import judge_examples
from turnwise.engine.run import answer_requests
from turnwise.metrics.registry import load_metric
from turnwise.models.maude import State, read_head
from turnwise.train.maude import SETS, Options
from turnwise.train.maude_data import CORRUPTIONS, Sampled
from turnwise.train.negatives import maude_random

Values = npt.NDArray[np.floating]
Score = Callable[[Sequence[Sequence[str]], Sequence[str]], Values]
Asked = dict[str, list[tuple[tuple[str, ...], str]]]

TRUE = "true response"
# In the order of the paper's tables: its deltas for RUBER, InferSent, DistilBERT-NLI and MAUDE, trained on all.
PUBLISHED: Mapping[str, tuple[float, float, float, float]] = {
    "paraphrase": (0.249, 0.278, 0.024, 0.070),
    "generated": (0.342, 0.362, 0.174, 0.308),
    "random utterance": (0.152, 0.209, 0.147, 0.287),
    "random generated": (0.402, 0.435, 0.344, 0.585),
    "word drop": (0.342, 0.367, 0.261, 0.300),
    "word order": (0.392, 0.409, 0.671, 0.726),
    "word repeat": (0.432, 0.461, 0.782, 0.872),
}
ZERO_SHOT: Mapping[str, tuple[float, float, float, float]] = {
    "dailydialog_test": (0.110, 0.113, 0.310, 0.351),
    "frames_train": (0.109, 0.106, 0.206, 0.207),
    "multiwoz_test": (0.123, 0.150, 0.274, 0.275),
}


def variants(test: Sequence[Sampled], seed: int = 0) -> Asked:
    """Every context with its true response, and the same contexts with each kind of other response."""
    rng = Random(f"{seed}:deltas")
    asked: Asked = {name: [] for name in (TRUE, *PUBLISHED)}
    said = [dialogue.turns[1:] for dialogue in test]
    written = [tuple(dialogue.generated.values()) for dialogue in test if dialogue.generated]
    own = {n: i for i, n in enumerate(n for n, dialogue in enumerate(test) if dialogue.generated)}
    for number, dialogue in enumerate(test):
        for place in range(1, len(dialogue.turns)):
            context = dialogue.turns[:place]
            asked[TRUE].append((context, dialogue.turns[place]))
            asked["random utterance"].append((context, maude_random(said, number, rng)))
            if number in own and len(written) > 1:
                asked["random generated"].append((context, maude_random(written, own[number], rng)))
            for kind in CORRUPTIONS:
                if place in dialogue.corrupted.get(kind, {}):
                    asked[kind.replace("_", " ")].append((context, dialogue.corrupted[kind][place]))
            if place in dialogue.reworded:
                asked["paraphrase"].append((context, dialogue.reworded[place]))
            if place in dialogue.generated:
                asked["generated"].append((context, dialogue.generated[place]))
    return {name: pairs for name, pairs in asked.items() if pairs}


def deltas(asked: Asked, score: Score) -> dict[str, dict[str, float]]:
    """For each kind of response: how many, mean, population standard deviation, and delta.

    A kind that only some contexts have is held against the true responses to those contexts.
    """
    found = {name: np.asarray(score(*map(list, zip(*pairs, strict=True)))) for name, pairs in asked.items()}
    truth = dict(zip((context for context, _ in asked[TRUE]), found[TRUE], strict=True))
    rows = {}
    for name, values in found.items():
        same = np.array([truth[context] for context, _ in asked[name]])
        rows[name] = {
            "n": len(values),
            "mean": float(values.mean()),
            "std": float(values.std()),
            "delta": float(same.mean() - values.mean()),
        }
    return rows


def head_score(file: Path, room: Room) -> Score:
    """How a trained head scores, read as a pack reads it, over the vectors that are kept in the working folder."""
    head, _ = read_head(file.read_bytes(), str(file))

    def score(contexts: Sequence[Sequence[str]], responses: Sequence[str]) -> Values:
        vectors, index = room.store.table(text for texts in (*contexts, responses) for text in texts)
        projected, states = head.project(vectors), dict[tuple[str, ...], State]()

        def after(turns: tuple[str, ...]) -> State:
            if turns not in states:
                before = after(turns[:-1]) if len(turns) > 1 else State()
                states[turns] = head.read(before, projected[index[turns[-1]]])
            return states[turns]

        pairs = zip(contexts, responses, strict=True)
        return np.array([head.score(head.context(after(tuple(c))), projected[index[r]]) for c, r in pairs])

    return score


def metric_score(request: str, room: Room) -> Score:
    """How a metric of the pack scores."""
    metric = load_metric(request)

    def score(contexts: Sequence[Sequence[str]], responses: Sequence[str]) -> Values:
        examples = [Example(r, tuple(c)) for c, r in zip(contexts, responses, strict=True)]
        judged = judge_examples(examples, {"it": metric}, lambda asked: answer_requests(asked, room.pack))
        return np.array([np.nan if s["it"].value is None else s["it"].value for s in judged], dtype=np.float64)

    return score


def trained(room: Room, name: str, options: Mapping[str, object]) -> Score:
    """MAUDE trained against one set of negatives, on PersonaChat alone."""
    folder = room.work / "tables" / name
    if not (folder / "maude.safetensors").is_file():
        train_head(room, "personachat", Options(**{"negatives": SETS[name], **options}), RECIPE, folder)
    return head_score(folder / "maude.safetensors", room)


def markdown(tables: Mapping[str, Mapping[str, dict[str, dict[str, float]]]], room: Room) -> str:
    """All tables, ours beside the paper's."""
    lines = [
        f"Paraphrases by {room.paraphraser} in place of back-translation; generated responses by the pack's causal "
        "language model, greedy, in place of a sequence-to-sequence model.",
    ]
    for title, by_model in tables.items():
        lines += ["", f"## {title}", "", f"| response | n | {' | '.join(by_model)} | paper: R, IS, DNLI, MAUDE |"]
        lines.append("|---|---|" + "---|" * (len(by_model) + 1))
        names = list(dict.fromkeys(name for rows in by_model.values() for name in rows))
        for name in names:
            cells = [_cell(rows.get(name), name) for rows in by_model.values()]
            count = next(int(rows[name]["n"]) for rows in by_model.values() if name in rows)
            paper = PUBLISHED.get(name) or ZERO_SHOT.get(name) or ()
            lines.append(f"| {name} | {count} | {' | '.join(cells)} | {' '.join(f'{value:.3f}' for value in paper)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, float] | None, name: str) -> str:
    if row is None:
        return ""
    shown = f"{row['mean']:.3f} ± {row['std']:.3f}"
    return shown if name == TRUE else f"**{row['delta']:.3f}** ({shown})"


def main() -> None:
    """Train what is missing, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with train/, human/ and test/")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps vectors and heads between runs")
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--out", type=Path, help="Markdown file to write; a JSON file is written beside it")
    parser.add_argument("--dialogues", type=int, default=150, help="dialogues of PersonaChat to measure on")
    parser.add_argument("--other", type=int, default=120, help="dialogues of each other corpus")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="negatives to train against")
    parser.add_argument("--baselines", nargs="*", default=[], help="baselines to train: ruber infersent bert-nli")
    parser.add_argument("--metrics", nargs="*", default=[], help="metrics of the pack, as they are")
    parser.add_argument("--paraphraser", choices=("wordnet", "causal-lm", "back-translation"), default="wordnet")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: other options of MAUDE's head")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    room = Room(args.data, args.work, args.models, args.paraphraser)
    asked = variants(room.test("personachat_valid", args.dialogues))
    others = {name: variants(room.test(name, args.other, variants=False)) for name in ZERO_SHOT}
    tables: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name in args.sets:
        models: dict[str, Score] = {"maude": trained(room, name, args.options)}
        if args.baselines:
            from delta_baselines import Baselines

            trainer = Baselines(room, *dialogues(room, "personachat"))
            models |= {baseline: trainer.trained(baseline, SETS[name]) for baseline in args.baselines}
        if name == args.sets[0]:
            models |= {request: metric_score(request, room) for request in args.metrics}
        tables[f"PersonaChat, trained on {name}"] = {label: deltas(asked, score) for label, score in models.items()}
        if name == "all":
            tables["Zero-shot: random utterances of other corpora"] = {
                label: {corpus: deltas(pairs, score)["random utterance"] for corpus, pairs in others.items()}
                for label, score in models.items()
            }
    text = markdown(tables, room)
    print(text)
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text, encoding="utf-8")
        args.out.with_suffix(".json").write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
