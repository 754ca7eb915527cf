"""Miniature corpora with the shape of the real ones, and the toy models of tests/metrics."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import ModuleType

import pytest


def _toy_models() -> ModuleType:
    path = Path(__file__).parents[1] / "metrics" / "toy_models.py"
    specification = importlib.util.spec_from_file_location("toy_models_of_metrics", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


_toys = _toy_models()
checkpoints, toy_pack = _toys.checkpoints, _toys.toy_pack

WORDS = "i you tea coffee like play the piano and a dog what do yes no we go home often . ?".split()
USR = {"Understandable": 2, "Natural": 3, "Maintains Context": 3, "Engaging": 3, "Uses Knowledge": 2, "Overall": 5}
ZHAO = dict.fromkeys(("content", "grammar", "relevance", "appropriateness"), 5)
CONTEXTS = 4


def say(rng: Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 7)))


def rated(
    rng: Random,
    systems: Sequence[str],
    qualities: Mapping[str, int],
    raters: int,
    *,
    named: bool = False,
    turns: int = 3,
) -> list[dict[str, object]]:
    rows = []
    for context in range(CONTEXTS):
        said = [say(rng) for _ in range(turns)]
        reference = say(rng)
        for number, system in enumerate(systems):
            row: dict[str, object] = {
                "id": f"{context}_{number}", "context_id": str(context), "context": said, "response": say(rng),
                "references": [reference], "facts": [say(rng)], "system": system,
                "ratings": {q: [rng.randint(2 - (top == 2) * 2, top) if top > 2 else rng.randint(0, 1)
                                for _ in range(raters)] for q, top in qualities.items()},
            }  # fmt: skip
            if named:
                row["raters"] = [f"r{1 + (slot + context) % 4}" for slot in range(raters)]
            rows.append(row)
    return rows


def corpora(rng: Random) -> dict[str, list[dict[str, object]]]:
    two = ("transformer_generator", "transformer_ranker")
    topical = ("Original Ground Truth", "Argmax Decoding", "New Human Generated")
    found = {
        "usr_topicalchat": rated(rng, topical, USR, 3, named=True),
        "usr_personachat": rated(rng, ("Original Ground Truth", "Seq2Seq", "KV-MemNN"), USR, 3, named=True),
        "fbd_personam": rated(rng, ("KV-MemNN", "Seq2Seq", "Language Model"), USR, 1),
        "fbd_dailyz": rated(rng, ("a", "b", "negative-sample"), ZHAO, 1),
        "fbd_personaz": rated(rng, ("a", "b", "negative-sample"), {"appropriateness": 5}, 1),
        "zhao_dailydialog": rated(rng, ("ground-truth", "a", "b", "c"), ZHAO, 4),
        "zhao_personachat": rated(rng, ("ground-truth", "a", "b"), {"appropriateness": 5}, 4),
        "holistic_coherence": rated(rng, ("a",), {"context_coherence": 5}, 10, turns=1),
        "holistic_fluency": rated(rng, ("a",), {"fluency": 5}, 10, turns=0),
    }
    for name in ("dailyh", "convai2", "empathetic"):
        found[f"fbd_{name}"] = rated(rng, (*two, "mix02"), {"coherence": 5}, 1)
    for name in ("convai2", "dailydialog", "empatheticdialogues"):
        found[f"grade_{name}"] = rated(rng, two, {"coherence": 5}, 9)
    for name in ("ws", "ctg", "baseline"):
        found[f"holistic_logic_{name}"] = rated(rng, ("a",), {"logical_consistency": 5}, 10)
    for name in ("ws", "ctg"):
        groups = [rated(rng, ("a",), {}, 0, turns=1) for _ in range(2)]
        found[f"holistic_diversity_{name}"] = [
            {**row, "id": f"{number}_{row['id']}", "group": str(number)}
            for number, rows in enumerate(groups)
            for row in rows
        ]
    return found


def see_logs(rng: Random) -> list[dict[str, object]]:
    """Conversations with three systems, each rated by the one who had it."""
    asked = ("enjoy", "interest", "listen", "avoid_rep", "make_sense", "fluency", "inquisitive", "turing")
    return [
        {
            "model_name": f"system {number % 3}", "evaluator_id_hashed": f"person {number % 4}",
            "assignment_id_hashed": str(number), "model_persona": "i like tea .\\n",
            "evaluation_results": {quality: rng.randint(1, 4) for quality in asked},
            "dialog": [
                {"speaker": "model" if turn % 2 else "human_evaluator", "text": say(rng)} for turn in range(6)
            ],
        }
        for number in range(12)
    ]  # fmt: skip


@pytest.fixture(scope="session")
def mini_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder such as `--data` takes."""
    folder, rng = tmp_path_factory.mktemp("data"), Random(5)
    for name in ("human", "test"):
        (folder / name).mkdir()
    for name, rows in corpora(rng).items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "human" / f"{name}.jsonl").write_text(text, encoding="utf-8")
    (folder / "see").mkdir()
    logs = [json.dumps(log) + "\n" for log in see_logs(rng)]
    for name, some in {"one": logs[:7], "two": logs[7:]}.items():
        (folder / "see" / f"{name}.jsonl").write_text("".join(some), encoding="utf-8")
    for name in ("personachat_valid", "dailydialog_test", "frames_train", "multiwoz_test", "topicalchat_test_freq"):
        dialogues = [{"dialogue_id": str(n), "turns": [{"text": say(rng)} for _ in range(7)]} for n in range(12)]
        text = "".join(json.dumps(dialogue) + "\n" for dialogue in dialogues)
        (folder / "test" / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder
