"""Questions are worded as in training, and a pack's measured figures are those that others would compute."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr
from sklearn.metrics import f1_score

from tests.conftest import EXAMPLES
from tests.models.conftest import WORDS
from tests.models.test_invariance import Bounded, Crowded, assert_same
from tests.train.tiny import dialogues
from turnwise.engine.answer import answer_requests
from turnwise.errors import TurnwiseError
from turnwise.io.read import read_rows
from turnwise.models import quality
from turnwise.models.pack import Pack, installed_packs, load_pack
from turnwise.models.requests import Classify, Continuation, Embed, Request, TokenScores, Window
from turnwise.models.text import Tokens
from turnwise.text.inputs import TfIdf
from turnwise.train import tasks
from turnwise.train.config import Config
from turnwise.train.dialogues import Dialogue, DialogueTurn, read
from turnwise.train.encode import PairEncoder


def measure(*given: object) -> subprocess.CompletedProcess[str]:
    """Run `turnwise pack measure`, without a cache."""
    command = [sys.executable, "-m", "turnwise", "pack", "measure", "--cache", "off", *map(str, given)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[Dialogue]:
    return read([dialogues(tmp_path_factory.mktemp("data") / "small.jsonl", count=20)])


def drawn(task: tasks.Task, count: int = 30) -> list[tasks.Labelled]:
    rng = Random(3)
    return [task.draw(rng) for _ in range(count)]


def assert_read_alike(pack: Path, pairs: Sequence[tuple[tasks.Labelled, Classify]]) -> None:
    """The ids that a request becomes in a pack are those that its example becomes in training."""
    # A window as wide as that of real models: a tiny one would cut off what is compared.
    tokens = Tokens.from_bytes((pack / "tokenizer.json").read_bytes(), None, Window(first=160, second=64))
    encode = PairEncoder(pack / "tokenizer.json", 160, 64)
    for example, request in pairs:
        asked, trained = tokens.encode(request.text, request.pair, None), encode([example.first], [example.second])
        assert asked.ids == trained.ids[0]
        assert asked.type_ids == trained.segments[0]


@pytest.mark.parametrize("with_fact", [False, True])
def test_next_utterance_is_asked_as_it_was_learnt(with_fact: bool, said: list[Dialogue], full_pack: Path) -> None:
    options = Config(objective="nup", data=(), out=Path(), base=Path(), restyle=0, fact_share=float(with_fact))
    task = tasks.NextUtteranceTask(said, options, TfIdf(turn.text for d in said for turn in d.turns))
    pairs = []
    for number, dialogue in enumerate(said):
        # Speaker A knows facts and speaks third.
        example = task.example(dialogue, 2, dialogue.turns[2].text, 1, "true", Random(number))
        context = [turn.text for turn in dialogue.turns[:2]]
        facts = [fact for fact in dialogue.facts_for("A") if example.first and example.first.startswith(fact)]
        if example.first and context[0] in example.first:
            pairs.append((example, quality.next_utterance(context, example.second, *facts[:1] * with_fact)))
    assert len(pairs) > 5
    assert any(str(example.first).count("[SEP]") == 1 + with_fact for example, _ in pairs)
    assert_read_alike(full_pack, pairs)


def test_a_fact_is_found_by_its_words_or_by_its_meaning() -> None:
    known = ("the bank that i work in is small .", "two hounds and a puppy live with me .")
    response = "my dogs are my life , i walk them every day ."
    said = [
        Dialogue(f"d{n}", "chats", (DialogueTurn("B", "hello ."), DialogueTurn("A", response)), {"A": known})
        for n in range(4)
    ]
    tfidf = TfIdf([*known, response])
    chosen = {}
    for facts_by in ("words", "meaning"):
        options = Config(objective="dr-f", data=(Path(),), out=Path(), base=Path(), restyle=0, facts_by=facts_by)
        found = tasks.fact_chooser(options, tfidf)
        chosen[facts_by] = found(response, known, -1.0)
    assert chosen == {"words": known[0], "meaning": known[1]}
    facts = drawn(tasks.FactTask(said, options, tfidf))
    assert {example.first for example in facts} == {known[1]}
    with pytest.raises(TurnwiseError, match=r"facts_by: expected words or meaning, got .sound."):
        replace(options, facts_by="sound").check()


def test_other_questions_are_asked_as_they_were_learnt(said: list[Dialogue], full_pack: Path) -> None:
    options = Config(objective="vup", data=(), out=Path(), base=Path(), restyle=0)
    tfidf = TfIdf(turn.text for d in said for turn in d.turns)
    facts = drawn(tasks.FactTask(said, options, tfidf))
    pairs = [(e, quality.about_fact(e.first or "", e.second)) for e in facts]
    pairs += [(e, quality.valid_utterance(e.second)) for e in drawn(tasks.ValidityTask(said, options))]
    inference = tasks.InferenceTask(said, options, [tasks.Labelled("i ski .", "i never ski .", 0)])
    pairs += [(e, quality.contradiction(e.first or "", e.second)) for e in drawn(inference)]
    feeling = tasks.EmotionTask(said, options)
    for dialogue in said:
        for turn, now in enumerate(dialogue.turns):
            before = [t.text for t in dialogue.turns[:turn]]
            pairs.append((feeling.example(dialogue, turn, True, Random(0)), quality.emotion(before, now.text)))
    assert_read_alike(full_pack, pairs)


def test_scores_of_answers() -> None:
    answer = TokenScores(("a", "b"), (-1.0, -3.0))
    assert (quality.total(answer), quality.mean(answer)) == (-4.0, -2.0)
    assert quality.mean(TokenScores((), ())) is None
    assert quality.own_last_turn(["only one"]) is None


RATED = {
    **dict.fromkeys(
        ("usr_topicalchat", "usr_personachat"),
        ("Maintains Context", "Overall", "Uses Knowledge", "Understandable", "Natural"),
    ),
    **dict.fromkeys(("grade_convai2", "grade_dailydialog", "grade_empatheticdialogues"), ("coherence",)),
    "holistic_coherence": ("context_coherence",),
    "holistic_fluency": ("fluency",),
    **dict.fromkeys(("zhao_dailydialog", "zhao_personachat"), ("appropriateness",)),
    **{f"holistic_logic_{variant}": ("logical_consistency",) for variant in ("ws", "ctg", "baseline")},
}


def speak(rng: Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(2, 9)))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder laid out as the real one, with random words, ratings and feelings."""
    root, rng = tmp_path_factory.mktemp("measured"), Random(5)
    for folder in ("human", "train", "test", "published"):
        (root / folder).mkdir()
    for corpus, qualities in RATED.items():
        context, rows = [speak(rng) for _ in range(3)], []
        for number in range(24):
            context = context if number % 3 else [speak(rng) for _ in range(rng.randint(1, 4))]
            rows.append(
                {
                    "id": str(number),
                    "context": [] if corpus == "holistic_fluency" else context,
                    "response": speak(rng),
                    "facts": [speak(rng), speak(rng)],
                    "system": ["Original Ground Truth", "a", "b"][number % 3],
                    "ratings": {name: [rng.randint(1, 5), rng.randint(1, 5)] for name in qualities},
                }
            )
        (root / "human" / f"{corpus}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("train/dailydialog_valid", "test/dailydialog_test"):
        with lzma.open(root / f"{name}.jsonl.xz", "wt") as lines:
            for number in range(12):
                turns = [{"text": speak(rng), "emotion": rng.choice(["no_emotion", "anger"])} for _ in range(5)]
                lines.write(json.dumps({"dialogue_id": number, "turns": turns}) + "\n")
    (root / "published" / "paper_tables.csv").write_text(
        "paper,table,corpus,level,quality,metric,statistic,value,note\n"
        "usr,3,Topical-Chat,turn,Maintains Context,USR-DR (x = c),spearman,0.3650,\n"
        "usr,3,Topical-Chat,turn,Maintains Context,USR-DR (x = c),pearson,0.3391,\n"
    )
    return root


@pytest.fixture(scope="module")
def measured(data: Path, small_pack: Path, full_pack: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("report") / "models.md"
    done = measure(small_pack, "--data", data, "--against", full_pack, "--save", out)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(out.with_suffix(".json").read_text())
    return found | {"text": out.read_text(), "printed": done.stdout}


def figure(measured: dict[str, Any], **wanted: str) -> dict[str, Any]:
    (found,) = [row for row in measured["figures"] if all(row[key] == value for key, value in wanted.items())]
    return found


def rows_of(data: Path, corpus: str, quality_name: str) -> tuple[list[dict[str, Any]], list[float]]:
    rows = [json.loads(line) for line in (data / "human" / f"{corpus}.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["system"] != "Original Ground Truth"]
    return rows, [float(np.mean(row["ratings"][quality_name])) for row in rows]


def test_next_utterance_figures(measured: dict[str, Any], data: Path, small_pack: Path) -> None:
    rows, ratings = rows_of(data, "usr_topicalchat", "Maintains Context")
    requests = [Classify(" [SEP] ".join(row["context"][-6:]), row["response"], role="nup") for row in rows]
    answers = answer_requests(requests, load_pack(small_pack))
    truth = spearmanr([answers[request]["next"] for request in requests], ratings).statistic
    found = figure(measured, role="nup", corpus="usr_topicalchat", quality="Maintains Context", score="probability")
    assert found["value"] == pytest.approx(truth, abs=1e-9)
    assert found["n"] == len(rows) == 16
    assert found["low"] < found["value"] < found["high"]
    assert found["papers"] == {"USR-DR (x = c)": 0.365}
    assert found["bar"] == pytest.approx(0.479 - 0.03)
    eight = [row for row in measured["figures"] if row["role"] == "nup" and row["bar"] is not None]
    (mean,) = [row for row in eight if row["corpus"] == "mean of 8 corpora"]
    others = [row["value"] for row in eight if row is not mean]
    assert len(others) == 8
    assert mean["value"] == pytest.approx(np.mean(others))
    assert mean["quick"] == pytest.approx(0.492, abs=5e-4)


def test_likelihood_figures_stand_beside_length(measured: dict[str, Any], data: Path, small_pack: Path) -> None:
    rows, ratings = rows_of(data, "holistic_coherence", "context_coherence")
    requests = [Continuation(row["context"][-1], " " + row["response"]) for row in rows]
    answers = answer_requests(requests, load_pack(small_pack))
    words = [len(row["response"].split()) for row in rows]
    for form, name in ((sum, "sum (released)"), (np.mean, "mean")):
        scores = [form(answers[request].log_probs) for request in requests]
        found = figure(measured, role="causal-lm", corpus="holistic_coherence", score=name)
        assert found["value"] == pytest.approx(spearmanr(scores, ratings).statistic, abs=1e-9)
        assert found["length_alone"] == pytest.approx(spearmanr(words, ratings).statistic, abs=1e-9)
        ranks = [rankdata(values) for values in (scores, ratings, words)]
        left = [r - np.polyval(np.polyfit(ranks[2], r, 1), ranks[2]) for r in ranks[:2]]
        assert found["length_taken_out"] == pytest.approx(np.corrcoef(*left)[0, 1], abs=1e-6)


def test_consistency_is_that_of_the_last_pair(measured: dict[str, Any], data: Path, small_pack: Path) -> None:
    rows, ratings = rows_of(data, "holistic_logic_ws", "logical_consistency")
    asked = [Classify(r["context"][-2], r["response"], role="nli") if len(r["context"]) > 1 else None for r in rows]
    answers = answer_requests([request for request in asked if request], load_pack(small_pack))
    scores = [1 - answers[request]["contradiction"] if request else 1 for request in asked]
    found = figure(measured, role="nli", corpus="holistic_logic_ws")
    assert found["value"] == pytest.approx(spearmanr(scores, ratings).statistic, abs=1e-9)


def test_emotion_is_cut_where_the_validation_split_says(measured: dict[str, Any], data: Path, small_pack: Path) -> None:
    pack, found = load_pack(small_pack), {}
    for name in ("train/dailydialog_valid", "test/dailydialog_test"):
        truth, requests = [], []
        for line in lzma.decompress((data / f"{name}.jsonl.xz").read_bytes()).splitlines():
            turns = json.loads(line)["turns"]
            for i, turn in enumerate(turns):
                before = " [SEP] ".join(t["text"] for t in turns[max(0, i - 3) : i])
                requests.append(Classify(before, turn["text"], role="emotion"))
                truth.append(int(turn["emotion"] != "no_emotion"))
        answers = answer_requests(requests, pack)
        found[name[:4]] = np.array(truth), np.array([answers[request]["some"] for request in requests])
    truth, chances = found["trai"]
    cuts = np.arange(1, 50) / 50
    cut = cuts[np.argmax([f1_score(truth, chances >= cut, average="macro") for cut in cuts])]
    truth, chances = found["test"]
    row = figure(measured, role="emotion")
    assert row["value"] == pytest.approx(f1_score(truth, chances >= cut, average="macro"))
    assert row["score"] == f"probability, cut at {cut:.2g}"
    assert row["n"] == 60
    assert row["low"] <= row["value"] <= row["high"]


def test_bars_and_costs_are_marked(measured: dict[str, Any]) -> None:
    held = [row for row in measured["figures"] if row["bar"] is not None]
    assert {row["role"] for row in held} == {"nup", "masked-lm", "causal-lm", "nli", "emotion"}
    assert measured["not_measured"] == ["dr-f"]
    for row in held:
        assert row["met"] == (row["value"] >= row["bar"])
        lost = row["compression"]
        assert lost["cost"] == pytest.approx(lost["full"] - row["value"])
        assert lost["met"] == (lost["cost"] <= 0.01)
    reached = sum(row["met"] for row in held)
    assert f"{reached} of {len(held)} bars are reached." in measured["text"]
    assert measured["text"].strip() == measured["printed"].strip()
    assert measured["text"].count("**no**") == len(held) - reached + sum(not r["compression"]["met"] for r in held)


def test_what_has_not_changed_is_not_measured_again(
    measured: dict[str, Any], tmp_path: Path, data: Path, small_pack: Path
) -> None:
    earlier = {key: value for key, value in measured.items() if key not in {"text", "printed"}}
    other = {"models": earlier["models"] | {"nli": "another model's"}}
    (tmp_path / "before.json").write_text(json.dumps(earlier | other))
    given = [small_pack, "--data", data, "--before", tmp_path / "before.json"]
    done = measure(*given, "--save", tmp_path / "now.md")
    assert done.returncode == 0, done.stderr
    assert {line.split()[1] for line in done.stderr.splitlines() if ": " in line} == {"nli"}
    now = json.loads((tmp_path / "now.json").read_text())
    pairs = list(zip(now["figures"], earlier["figures"], strict=True))
    assert all(new["value"] == old["value"] for new, old in pairs)
    # What compression costs is known of kept rows alone.
    assert all(("compression" in new) == (new["role"] != "nli") for new, _ in pairs)
    assert now["not_measured"] == earlier["not_measured"]


def test_a_missing_corpus_is_said_plainly(tmp_path: Path, small_pack: Path) -> None:
    done = measure(small_pack, "--data", tmp_path)
    assert done.returncode == 2
    assert "usr_topicalchat" in done.stderr
    assert "Traceback" not in done.stderr


def real_requests(pack: Pack) -> list[Request]:
    """Every question that a pack can answer, about the examples that come with the project."""
    requests: list[Request] = []
    examples = [row.example for row in read_rows([str(EXAMPLES)]) if row.example is not None]
    for e in examples[:4]:
        requests += [
            quality.next_utterance(e.context, e.response),
            quality.about_fact(e.context[0] if e.context else "i ski .", e.response),
            quality.valid_utterance(e.response),
            quality.contradiction(quality.own_last_turn(e.context) or "i ski .", e.response),
            quality.emotion(e.context, e.response),
            quality.likelihood(" ".join(e.response.split()[:5])),
            quality.coherence(e.context[-1] if e.context else "hello", e.response),
            quality.fluency(e.response),
            Embed(e.response),
        ]
    return [request for request in requests if request.role in pack.roles]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(installed_packs()) or ["none"])
def test_a_bundled_pack_scores_the_same_in_any_company(name: str) -> None:
    if name not in installed_packs():
        pytest.skip("the pack turnwise-mini is not installed")
    pack = load_pack(name)
    requests = real_requests(pack)
    together = answer_requests(requests, pack)
    assert_same(together, answer_requests(Random(1).sample(requests, len(requests)), pack))
    # A long neighbour forces padding, which may change the last bits.
    assert_same(together, answer_requests(requests, Crowded(pack)), within=1e-4)
    assert_same(answer_requests(requests, Bounded(pack, 10_000)), answer_requests(requests, Bounded(pack, 1)))
