"""Measure trained checkpoints on rated corpora, for reporting only, and note the results in their cards.

    python scripts/measure_checkpoints.py CHECKPOINTS_DIR DATA_DIR [nup mlm clm nli emotion]

CHECKPOINTS_DIR holds one folder per role (see turnwise/train/checkpoint.py). Nothing here chooses anything.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata, spearmanr
from transformers import BertForMaskedLM

from turnwise.train import bert, causal, checkpoint, network
from turnwise.train.dialogues import read
from turnwise.train.encode import PairEncoder
from turnwise.train.inputs import context_text
from turnwise.train.tasks import Labelled
from turnwise.train.validation import best_threshold, macro_f1

NUP = [
    ("usr_topicalchat", "Maintains Context", 0.479),
    ("usr_personachat", "Maintains Context", 0.563),
    ("grade_convai2", "coherence", 0.504),
    ("grade_dailydialog", "coherence", 0.326),
    ("grade_empatheticdialogues", "coherence", 0.366),
    ("holistic_coherence", "context_coherence", 0.641),
    ("zhao_dailydialog", "appropriateness", 0.406),
    ("zhao_personachat", "appropriateness", 0.653),
]
REFERENCES = {"Original Ground Truth", "ground-truth"}


def rated(data: Path, corpus: str, quality: str) -> tuple[list[dict[str, Any]], list[float]]:
    """Rows that people rated for a quality, without the references, and the mean ratings."""
    rows, ratings = [], []
    for line in (data / "human" / f"{corpus}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        given = [r for r in row["ratings"].get(quality, []) if r is not None]
        if given and row.get("system") not in REFERENCES:
            rows.append(row)
            ratings.append(float(np.mean(given)))
    return rows, ratings


def load_classifier(folder: Path) -> tuple[network.Classifier, PairEncoder]:
    """A classifier as `turnwise.train.checkpoint` describes it."""
    layout = json.loads((folder / checkpoint.HEADS_LAYOUT).read_text())
    labels = {name: head["labels"] for name, head in layout["heads"].items()}
    model = network.classifier(folder, labels, dropout=0.0, freeze_words=True)
    model.heads.load_state_dict(checkpoint.read_tensors(folder / checkpoint.HEADS))
    encode = PairEncoder(folder / "tokenizer.json", layout["first_tokens"], layout["second_tokens"])
    return model.eval(), encode


def spearman(scores: Sequence[float], ratings: Sequence[float]) -> float:
    """Rank correlation, to four places."""
    return round(float(spearmanr(scores, ratings).statistic), 4)


def partial(scores: Sequence[float], ratings: Sequence[float], control: Sequence[float]) -> float:
    """Rank correlation with the ranks of a third quantity taken out."""
    ranks = [rankdata(values) for values in (scores, ratings, control)]
    left = [r - np.polyval(np.polyfit(ranks[2], r, 1), ranks[2]) for r in ranks[:2]]
    return round(float(np.corrcoef(*left)[0, 1]), 4)


def measure_nup(folder: Path, data: Path) -> dict[str, Any]:
    model, encode = load_classifier(folder)
    result: dict[str, Any] = {}
    for corpus, quality, quick in NUP:
        rows, ratings = rated(data, corpus, quality)
        pairs = [Labelled(context_text(row["context"]), row["response"], 0) for row in rows]
        chances = bert.probabilities(model, pairs, encode, "nup")[:, 1].tolist()
        result[f"{corpus}/{quality}"] = [spearman(chances, ratings), quick]
    result["mean"] = round(float(np.mean([value[0] for value in result.values()])), 4)
    for corpus in ("usr_topicalchat", "usr_personachat"):
        for quality in ("Maintains Context", "Overall", "Uses Knowledge"):
            rows, ratings = rated(data, corpus, quality)
            fact = [" ".join(row["facts"]) for row in rows]
            plain = [Labelled(context_text(row["context"]), row["response"], 0) for row in rows]
            c = [Labelled(context_text(r["context"], f), r["response"], 0) for r, f in zip(rows, fact, strict=True)]
            f = [Labelled(context_text([], fact), r["response"], 0) for r, fact in zip(rows, fact, strict=True)]
            result[f"{corpus}/{quality} nup, with fact, dr-f"] = [
                spearman(bert.probabilities(model, which, encode, head)[:, 1].tolist(), ratings)
                for which, head in ((plain, "nup"), (c, "nup"), (f, "dr-f"))
            ]
    return result


def masked_sum(model: BertForMaskedLM, encode: PairEncoder, text: str) -> float:
    """Sum of the log-likelihoods of the tokens, each masked in turn."""
    ids = encode([None], [text]).ids[0]
    places = range(1, len(ids) - 1)
    batch = torch.tensor(ids).repeat(len(places), 1)
    for row, place in enumerate(places):
        batch[row, place] = encode.mask
    with torch.no_grad():
        logits = model(input_ids=batch).logits
    chances = logits[torch.arange(len(places)), torch.tensor(list(places))].log_softmax(-1)
    return float(chances[torch.arange(len(places)), torch.tensor(ids[1:-1])].sum())


def measure_mlm(folder: Path, data: Path) -> dict[str, Any]:
    model = BertForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    encode = PairEncoder(folder / "tokenizer.json", 160, 400)
    rows, ratings = rated(data, "holistic_fluency", "fluency")
    sums = [masked_sum(model, encode, row["response"]) for row in rows]
    lengths = [len(row["response"].split()) for row in rows]
    return {
        "holistic_fluency sum": spearman(sums, ratings),
        "holistic_fluency length alone": spearman(lengths, ratings),
        "holistic_fluency sum, length taken out": partial(sums, ratings, lengths),
    }


def measure_clm(folder: Path, data: Path) -> dict[str, Any]:
    from tokenizers import Tokenizer

    model = causal.load(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    start = model.config.bos_token_id

    def log_chances(text: str, given: str = "") -> list[float]:
        """Log-probability of every token of the text after what is given."""
        before = [start, *(tokenizer.encode(given).ids if given else [])]
        ids = [start, *tokenizer.encode(given + text).ids]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
        return [float(logits[i - 1, ids[i]]) for i in range(len(before), len(ids))]

    result = {}
    for corpus, quality in (("holistic_coherence", "context_coherence"), ("holistic_fluency", "fluency")):
        rows, ratings = rated(data, corpus, quality)
        with_query = quality == "context_coherence"
        given = [row["context"][-1] if with_query else "" for row in rows]
        said = [(" " if with_query else "") + row["response"] for row in rows]
        chances = [log_chances(text, query) for text, query in zip(said, given, strict=True)]
        lengths = [len(row["response"].split()) for row in rows]
        forms: dict[str, Callable[[list[float]], float]] = {"sum": sum, "mean": lambda c: float(np.mean(c))}
        if not with_query:
            forms["mean from the second token"] = lambda c: float(np.mean(c[1:] or c))
        for name, form in forms.items():
            scores = [form(c) for c in chances]
            result[f"{corpus} {name}"] = [spearman(scores, ratings), partial(scores, ratings, lengths)]
        result[f"{corpus} length alone"] = spearman(lengths, ratings)
    return result


def measure_nli(folder: Path, data: Path) -> dict[str, Any]:
    model, encode = load_classifier(folder)
    result: dict[str, Any] = {}
    for variant in ("ws", "ctg", "baseline"):
        rows, ratings = rated(data, f"holistic_logic_{variant}", "logical_consistency")
        pairs = [Labelled(row["context"][-2] if len(row["context"]) > 1 else "", row["response"], 0) for row in rows]
        chances = bert.probabilities(model, pairs, encode, "nli").numpy()
        result[f"holistic_logic_{variant}"] = spearman(list(1 - chances[:, 0]), ratings)
        result[f"holistic_logic_{variant} entailment"] = spearman(list(chances[:, 2]), ratings)
    names = ("contradiction", "neutral", "entailment")
    items = [json.loads(line) for line in (data / "nli" / "sick_test.jsonl").read_text().splitlines()]
    pairs = [Labelled(item["premise"], item["hypothesis"], names.index(item["label"])) for item in items]
    guess = bert.probabilities(model, pairs, encode, "nli").numpy().argmax(1)
    result["sick_test accuracy"] = round(float(np.mean(guess == [p.label for p in pairs])), 4)
    return result


def measure_emotion(folder: Path, data: Path) -> dict[str, Any]:
    model, encode = load_classifier(folder)
    result: dict[str, Any] = {}
    for turns in (0, 1, 3):
        chance: dict[str, Any] = {}
        for name, path in (("valid", "train/dailydialog_valid"), ("test", "test/dailydialog_test")):
            rows = [
                Labelled(
                    context_text([t.text for t in d.turns[max(0, i - turns) : i]]) if turns and i else None,
                    turn.text,
                    int(turn.emotion != "no_emotion"),
                )
                for d in read([data / f"{path}.jsonl.xz"])
                for i, turn in enumerate(d.turns)
            ]
            chance[name] = (
                np.array([r.label for r in rows]),
                bert.probabilities(model, rows, encode, "emotion")[:, 1].numpy(),
            )
        cut, valid = best_threshold(*chance["valid"])
        truth, chances = chance["test"]
        result[f"{turns} turns before"] = {
            "threshold from valid": cut,
            "macro-F1 valid": round(valid, 4),
            "macro-F1 test": round(macro_f1(truth, (chances >= cut).astype(int), 2), 4),
            "macro-F1 test at .5": round(macro_f1(truth, (chances >= 0.5).astype(int), 2), 4),
        }
    return result


MEASURES = {"nup": measure_nup, "mlm": measure_mlm, "clm": measure_clm, "nli": measure_nli, "emotion": measure_emotion}
FOLDERS = {"nli": "vup", "emotion": "vup"}


def main() -> None:
    folder, data, *roles = sys.argv[1:]
    for role in roles or MEASURES:
        name, _, other = role.partition("=")
        place = Path(folder) / (other or FOLDERS.get(name, name))
        measured = MEASURES[name](place, Path(data))
        print(role, json.dumps(measured, indent=1), flush=True)
        card = json.loads((place / checkpoint.CARD).read_text())
        card.setdefault("measured", {})[name] = measured
        checkpoint.write_json(place / checkpoint.CARD, card)


if __name__ == "__main__":
    main()
