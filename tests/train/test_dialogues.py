"""Reading, splitting, decontaminating, choosing facts and drawing wrong responses: no model needed."""

from __future__ import annotations

import gzip
import json
import lzma
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from turnwise.errors import TurnwiseError
from turnwise.io.read import read_rows
from turnwise.text import inputs
from turnwise.train import contradictions, dialogues, sampling
from turnwise.train.dialogues import Dialogue, DialogueTurn


def talk(name: str, *texts: str, corpus: str = "toy", **known: tuple[str, ...]) -> Dialogue:
    turns = tuple(DialogueTurn("AB"[i % 2], text) for i, text in enumerate(texts))
    return Dialogue(f"{corpus}/{name}", corpus, turns, known)


POOL = [talk(str(n), *(f"line {n} {i} about topic {n % 7}" for i in range(5)), corpus="ab"[n % 2]) for n in range(40)]


def test_reads_plain_and_compressed_files_and_every_form_of_facts(tmp_path: Path) -> None:
    lines = [
        {
            "dialogue_id": 1,
            "turns": [{"speaker": "A", "text": " Hi  there "}, {"speaker": "B", "text": ""}],
            "facts": ["x"],
        },
        {"dialogue_id": 2, "turns": [{"text": "Yo"}], "facts": {"A": [{"text": "I ski."}]}},
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n\n"
    (tmp_path / "plain.jsonl").write_text(text)
    with lzma.open(tmp_path / "small.jsonl.xz", "wt") as out:
        out.write(text)
    read = dialogues.read([tmp_path / "plain.jsonl", tmp_path / "small.jsonl.xz"])
    assert [d.corpus for d in read] == ["plain", "plain", "small", "small"]
    assert read[0].turns == (DialogueTurn("A", "Hi there"),)
    assert read[0].facts_for("A") == ("x",)
    assert read[1].facts_for("A") == ("I ski.",)
    assert read[1].facts_for("B") == ()


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"turns": [{"text": "ok"}]}\n{"turns": [{}]}\n')
    with pytest.raises(TurnwiseError, match=r"bad\.jsonl:2"):
        dialogues.read([tmp_path / "bad.jsonl"])


def test_split_is_stable_complete_and_keeps_copies_together() -> None:
    copies = [*POOL, *(Dialogue(f"copy/{d.id}", "copy", d.turns, {}) for d in POOL)]
    kept, held = dialogues.split(copies, 0.3, seed=4)
    assert (kept, held) == dialogues.split(copies, 0.3, seed=4)
    assert len(kept) + len(held) == len(copies)
    said = [{d.turns for d in side} for side in (kept, held)]
    assert not said[0] & said[1]
    assert 0 < len(held) < len(copies)


def test_merging_runs_leaves_the_words_and_alternates() -> None:
    dialogue = Dialogue("x", "x", (DialogueTurn("A", "one"), DialogueTurn("A", "two"), DialogueTurn("B", "three")), {})
    merged = dialogues.merge_runs(dialogue)
    assert [(t.speaker, t.text) for t in merged.turns] == [("A", "one two"), ("B", "three")]


def test_decontamination_removes_and_names_overlaps(tmp_path: Path) -> None:
    rated = {"context": ["Do you know where the station is ?"], "response": "No, I am new here myself, sorry."}
    (tmp_path / "rated.jsonl").write_text(json.dumps(rated) + "\n")
    prints = dialogues.evaluation_fingerprints([tmp_path / "rated.jsonl"])
    leaking = talk("leak", "hello", "do you know where the station is?")
    spelt = talk("spelt", "no , i am new here myself , sorry .", corpus="other")
    short = talk("short", "No, sorry.")
    clean, report = dialogues.decontaminate([leaking, spelt, short, *POOL], prints)
    assert clean == [short, *POOL]
    assert report.by_corpus() == {"toy": 1, "other": 1}
    assert report.removed[0].utterance == "do you know where the station is?"
    assert "removed 2 of 43" in report.summary()
    assert not any(dialogues.fingerprint(t.text) in prints for d in clean for t in d.turns)


LEAKED = "Do you know where the station is?"


def rated_in(folder: Path, form: str) -> Path:
    """An evaluation file in which the leaked utterance stands in the context."""
    native = {"context": ["Hi!", LEAKED], "response": "No, sorry.", "references": None}
    release = {"src": LEAKED, "refs": ["Over there."], "hyps": ["No."], "human_scores": [[3.0]]}
    parts = [{"role": "user", "content": [{"type": "text", "text": LEAKED}]}, {"role": "assistant", "content": "No."}]
    contents = {
        "string.jsonl": json.dumps({**native, "context": LEAKED}),
        "lines.jsonl": json.dumps({**native, "context": f"Hi!\n{LEAKED}"}),
        "list.json": json.dumps([native, native], indent=1),
        "table.csv": f"context,response\n{LEAKED},No.",
        "fbd.json": json.dumps([release]),
        "chat.jsonl": json.dumps({"messages": parts}),
        "dialogues.jsonl": json.dumps({"turns": [{"text": LEAKED}]}),
        "packed.jsonl.gz": json.dumps(native),
    }
    file = folder / form
    file.write_bytes(gzip.compress(contents[form].encode()) if form.endswith(".gz") else contents[form].encode())
    return file


@pytest.mark.parametrize(
    "form",
    "string.jsonl lines.jsonl list.json table.csv fbd.json chat.jsonl dialogues.jsonl packed.jsonl.gz".split(),
)
def test_an_utterance_is_found_in_every_form_that_scoring_reads(tmp_path: Path, form: str) -> None:
    prints = dialogues.evaluation_fingerprints([rated_in(tmp_path, form)])
    clean, report = dialogues.decontaminate([talk("leak", "hello", LEAKED), *POOL], prints)
    assert clean == POOL
    assert [removal.utterance for removal in report.removed] == [LEAKED]


def test_release_files_are_read_as_scoring_reads_them(data_dir: Path) -> None:
    for file in sorted((data_dir / "formats").iterdir()):
        prints = dialogues.evaluation_fingerprints([file])
        read = [row.example for row in read_rows([file]) if row.example]
        said = [text for example in read for text in (*example.context, example.response, *example.references)]
        assert read
        assert {mark for text in said if (mark := dialogues.fingerprint(text))} <= prints


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"response": "No, sorry."}', "no utterance of 6 words or more"),
        ("", "no utterance of 6 words or more"),
        ('{"text": "Do you know where the station is?"}', "no utterance of 6 words or more"),
        ('{"response": "Do you know where the station is?"}\n{"respon', "rated.jsonl:2: json: "),
    ],
)
def test_evaluation_files_that_would_let_everything_pass_are_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "rated.jsonl").write_text(content)
    with pytest.raises(TurnwiseError, match=said):
        dialogues.evaluation_fingerprints([tmp_path / "rated.jsonl"])


@pytest.mark.parametrize("bad", [b'{"turns', b"[1]", b'{"premise": "a"}', b"\xff\xfe"])
def test_a_bad_line_to_be_cleaned_is_named_and_no_half_file_is_left(tmp_path: Path, bad: bytes) -> None:
    chats = tmp_path / "chats.jsonl"
    chats.write_bytes(b'{"turns": [{"text": "Hi!"}]}\n' + bad)
    with pytest.raises(TurnwiseError, match=r"chats\.jsonl") as problem:
        list(dialogues.clean_files([chats], [rated_in(tmp_path, "string.jsonl")], tmp_path / "clean"))
    assert "\n" not in str(problem.value)
    assert not (tmp_path / "clean" / "chats.jsonl").exists()


def test_training_data_is_free_of_rated_dialogues_after_the_step(data_dir: Path) -> None:
    prints = dialogues.evaluation_fingerprints((data_dir / "human").glob("grade_*.jsonl"))
    some = dialogues.read([data_dir / "train" / "dailydialog_valid.jsonl.xz"])
    clean, report = dialogues.decontaminate(some, prints)
    assert len(clean) + len(report.removed) == len(some)
    assert len(report.removed) < 0.05 * len(some)


@given(st.lists(st.text("abcde ", min_size=1, max_size=20), min_size=2, max_size=6))
def test_tfidf_ranks_as_scikit_learn_does(texts: list[str]) -> None:
    texts = [text + " zz" for text in texts]
    ours = inputs.TfIdf(texts)
    theirs = TfidfVectorizer(token_pattern=r"[a-z0-9]+", smooth_idf=True).fit(texts)
    # scikit-learn adds one to every idf; take it away to compare the plain weights.
    theirs.idf_ = theirs.idf_ - 1
    matrix = theirs.transform(texts).toarray()
    expected = matrix @ matrix[0]
    got = [inputs.cosine(ours.vector(texts[0]), ours.vector(text)) for text in texts]
    assert got == pytest.approx(list(expected), abs=1e-9)


def test_the_fact_a_response_is_about() -> None:
    known = ["i have three dogs.", "my father sold doors.", "i watch the olympics."]
    tfidf = inputs.TfIdf(known)
    assert inputs.choose_fact("my dogs sleep a lot , all three dogs", known, tfidf) == known[0]
    assert inputs.choose_fact("completely unrelated", known, tfidf) is None
    assert inputs.choose_fact("anything", [], tfidf) is None
    vectors = {"q": [1.0, 0.1], "a": [0.0, 1.0], "b": [2.0, 0.0]}
    assert inputs.choose_fact_by_meaning("q", ["a", "b"], lambda ts: np.array([vectors[t] for t in ts])) == "b"


def test_wrong_responses_are_wrong_and_of_their_kind() -> None:
    tfidf = inputs.TfIdf(turn.text for d in POOL for turn in d.turns)
    draw = sampling.Negatives(POOL, tfidf).draw
    rng = Random(0)
    for kind in ("random", "corpus", "dialogue", "similar", "corrupted"):
        only = sampling.Mix(**{name: float(name == kind) for name in sampling.Mix.__dataclass_fields__})
        for _ in range(50):
            dialogue = rng.choice(POOL)
            wrong, drawn = draw(dialogue, 2, only, rng)
            assert drawn == kind
            assert wrong != dialogue.turns[2].text
            inside = wrong in {t.text for t in dialogue.turns}
            assert inside == (kind == "dialogue")
            if kind in {"corpus", "similar"}:
                assert any(wrong == t.text for d in POOL if d.corpus == dialogue.corpus for t in d.turns)


def test_similar_negatives_are_closer_than_random_ones() -> None:
    tfidf = inputs.TfIdf(turn.text for d in POOL for turn in d.turns)
    drawer, rng = sampling.Negatives(POOL, tfidf), Random(1)
    near = far = 0.0
    for dialogue in POOL:
        truth = tfidf.vector(dialogue.turns[2].text)
        near += inputs.cosine(truth, tfidf.vector(drawer.similar(dialogue, 2, rng) or ""))
        far += inputs.cosine(truth, tfidf.vector(drawer.random_utterance(dialogue, dialogue.turns[2].text, rng)))
    assert near > far


def test_the_mix_is_drawn_as_asked() -> None:
    rng, mix = Random(3), sampling.Mix()
    drawn = Counter(mix.draw(rng) for _ in range(20_000))
    for kind, count in drawn.items():
        assert count / 20_000 == pytest.approx(getattr(mix, kind), abs=0.015)


def test_drawing_is_a_function_of_the_seed() -> None:
    drawer = sampling.Negatives(POOL, inputs.TfIdf(t.text for d in POOL for t in d.turns))
    once, again = ([drawer.draw(POOL[3], 1, sampling.Mix(), rng) for _ in range(30)] for rng in (Random(9), Random(9)))
    assert once == again


def test_places_follow_weights() -> None:
    places = sampling.Places(POOL, power=0.0, weights={"a": 3.0})
    rng = Random(0)
    drawn = Counter(places.draw(rng)[0].corpus for _ in range(8000))
    assert drawn["a"] / 8000 == pytest.approx(0.75, abs=0.02)
    assert places.shares() == {"a": 0.75, "b": 0.25}


@given(st.text(max_size=60))
def test_styles_keep_the_letters(text: str) -> None:
    assert inputs.spaced(text).replace(" ", "") == "".join(text.split())


def test_wrong_options_are_read_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "choice.jsonl"
    turns = [{"speaker": "m", "text": "Tea or coffee ?"}, {"speaker": "f", "text": "Tea , please ."}]
    row = {"dialogue_id": "1", "turns": turns, "options": ["A car .", "Tea , please .", "No idea ."], "answer": 1}
    file.write_text(json.dumps(row) + "\n" + json.dumps({"turns": [{"text": "Hello ."}, {"text": "Hi there ."}]}))
    pool = dialogues.read([file])
    assert pool[0].wrong == ("A car .", "No idea .")
    assert pool[1].wrong == ()
    source = sampling.Negatives(pool)
    drawn = [source.draw(pool[0], 1, sampling.Mix(similar=0), Random(i)) for i in range(200)]
    written = [text for text, kind in drawn if kind == "written"]
    assert set(written) == {"A car .", "No idea ."}
    assert 60 < len(written) < 140
    assert all(
        kind != "written"
        for _, kind in (source.draw(pool[1], 1, sampling.Mix(similar=0), Random(i)) for i in range(50))
    )
    pairs = [contradictions.InferencePairs([*POOL, pool[0]]).draw(Random(i)) for i in range(300)]
    assert ("Tea , please .", "contradiction") in {(p.premise, p.label) for p in pairs if p.source == "written answer"}


def test_contradictions_change_what_is_said() -> None:
    assert contradictions.negate("They did not call .") == "They call ."
    assert contradictions.negate("Three big dogs .") is None
    assert contradictions.with_other_number("I have 2 dogs", Random(0)) != "I have 2 dogs"
    assert contradictions.polarity(contradictions.with_other_answer("Yes , I do .", Random(0)) or "") == -1
    assert contradictions.polarity("Tea .") == 0
    pairs = contradictions.InferencePairs(
        [talk("q", "do you like tea ?", "yes , a lot .", "i have two dogs .", "no , i am busy .")]
    )
    rng = Random(0)
    drawn = [pairs.draw(rng) for _ in range(300)]
    assert {pair.label for pair in drawn} == set(contradictions.LABELS)
    assert all(p.premise.lower() != p.hypothesis.lower() for p in drawn if p.label == "contradiction")
