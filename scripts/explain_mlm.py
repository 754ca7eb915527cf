"""Why does a small masked language model's likelihood disagree with people where RoBERTa's agreed?

    python scripts/explain_mlm.py --data DATA_DIR [--models PACK] [--cache DIR] [--stronger DIR] [--out FILE]

Analysis, not tuning: nothing is chosen from it. On USR's two rated corpora it correlates many forms of the likelihood
with rated Overall: of the response or of all tokens, summed or averaged, after more or less context, told the fact or
not, on text as it comes and as people write it, by the masked language model, by the causal one, and by a larger one
(--stronger: a folder of checkpoints with a causal language model in it). Beside each stand what it owes to length and
to common words, and how far it agrees with the scores that USR's authors published for Topical-Chat. Then it looks for
the place where theirs and ours part. It prints Markdown; --out FILE.json writes the numbers, and FILE.md the page.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from mlm_evidence import PERSON, Rated, located, stands
from mlm_page import page

from turnwise.dialogue import Example, mean_rating
from turnwise.engine.local import Ask, cluster_key, judge_examples
from turnwise.engine.session import Session
from turnwise.io.read import read_rows
from turnwise.metrics.base import Score
from turnwise.metrics.registry import load_metric
from turnwise.metrics.usr_parts import NO_FACT
from turnwise.stats.arrays import FloatArray
from turnwise.text.facts import TfIdf, choose_fact

CORPORA = {"usr_topicalchat": "Topical-Chat", "usr_personachat": "PersonaChat"}
REFERENCE = "Original Ground Truth"
SENTENCE = re.compile(r"(^|[.!?]\s+)([a-z])")


def written(text: str) -> str:
    """Lower-case text with its words apart, as a person would write it.

    >>> written("i ca n't wait , it 's 5:30 . do you ?")
    "I can't wait, it's 5:30. Do you?"
    """
    joined = re.sub(r" (n't|'(?:s|m|re|ve|ll|d)\b|[.,!?;:%)\]])", r"\1", text)
    capital = SENTENCE.sub(lambda match: match[1] + match[2].upper(), joined)
    return re.sub(r"\bi\b", "I", capital)


def as_people_write(example: Example) -> Example:
    """Context and response in that style."""
    return replace(example, context=tuple(map(written, example.context)), response=written(example.response))


def told_the_fact(example: Example) -> Example:
    """The fact that the response is closest to, as a turn before the last one."""
    facts = [fact for fact in example.facts if fact != NO_FACT]
    fact = choose_fact(example.response, facts, TfIdf(facts), minimum=-1.0) if facts else None
    return replace(example, context=(*([fact] if fact else []), *example.context[-1:]))


def _value(score: Score) -> float | None:
    return score.value


def _part(start: str, score: Score) -> float:
    """The mean over the context's tokens, or over the response's, of a score of both with `_eos` and `_go` between."""
    tokens = [token for token, _ in score.tokens]
    go = next(place for place in range(len(tokens)) if tokens[place : place + 2] == ["_", "go"])
    end = len(tokens) - 1 - tokens[::-1].index("_")
    chosen = score.tokens[go + 2 : end] if start == "response" else score.tokens[:go]
    return -float(np.mean([cost for _, cost in chosen]))


@dataclass(frozen=True)
class Form:
    """A way to take a likelihood; `sign` turns it so that likelier is higher."""

    what: str
    request: str
    prepare: Callable[[Example], Example] = lambda example: example
    take: Callable[[Score], float | None] = _value
    sign: int = 1
    stronger: bool = False


AUTHORS, WORDS = "the authors' RoBERTa, all tokens", "words alone: how common on average"
USED, RELEASED = "response, after the last turn", "all tokens, as released"
FORMS = (
    Form(WORDS, "iwf", sign=-1),
    Form("response, no context", "mlm-nce"),
    Form("response, no context, rare words discounted (SLOR)", "mlm-slor"),
    Form(USED, "usr-mlm"),
    Form("response, after the last turn, sum", "usr-mlm[reduction=sum]"),
    Form("response, after fact and last turn", "usr-mlm[turns=2]", told_the_fact),
    Form("response, after the last turn, as people write", "usr-mlm", as_people_write),
    Form(RELEASED, "usr-mlm:released"),
    Form("all tokens, as released: those of the response", "usr-mlm:released", take=lambda s: _part("response", s)),
    Form("all tokens, as released: those of the context", "usr-mlm:released", take=lambda s: _part("context", s)),
    Form("causal, no context", "fluency"),
    Form("causal, no context, sum", "lm-likelihood", sign=-1),
    Form("causal, after the last turn", "coherence"),
    Form("causal, after six turns", "coherence[turns=6]"),
    Form("causal, after fact and last turn", "coherence[turns=2]", told_the_fact),
    Form("causal, after the last turn, as people write", "coherence", as_people_write),
    Form("larger causal, no context", "fluency", stronger=True),
    Form("larger causal, after the last turn", "coherence", stronger=True),
    Form("larger causal, after fact and last turn", "coherence[turns=2]", told_the_fact, stronger=True),
    Form("larger causal, after the last turn, as people write", "coherence", as_people_write, stronger=True),
)
# Those whose unit is nats a token, so that they say how well a model foresees a text.
FORESEEN = {USED, RELEASED, AUTHORS, *(form.what for form in FORMS if "causal" in form.what and "sum" not in form.what)}


def scored(examples: Sequence[Example], ask: Ask, stronger: Ask | None) -> dict[str, FloatArray]:
    """Every form's column; the forms of a model are asked for together, since they share what is masked."""
    columns = {}
    for asked, large in ((ask, False), (stronger, True)):
        forms = [form for form in FORMS if form.stronger is large]
        for prepare in dict.fromkeys(form.prepare for form in forms) if asked else ():
            alike = {form.what: form for form in forms if form.prepare is prepare}
            prepared = [prepare(example) for example in examples]
            metrics = {what: load_metric(form.request) for what, form in alike.items()}
            rows = judge_examples(prepared, metrics, asked)  # type: ignore[arg-type]
            for what, form in alike.items():
                columns[what] = form.sign * _column([form.take(row[what]) for row in rows])
    return {form.what: columns[form.what] for form in FORMS if form.what in columns}


def load(data: Path, corpus: str, ask: Ask, stronger: Ask | None) -> tuple[Rated, dict[str, FloatArray]]:
    """A corpus without its references, and every form's scores."""
    rows = read_rows([str(data / "human" / f"{corpus}.jsonl")])
    kept = [row.example for row in rows if row.example and row.example.system != REFERENCE]
    columns = scored(kept, ask, stronger)
    authors = None
    if corpus == "usr_topicalchat":
        with (data / "published" / "usr_topicalchat_scores.csv").open(newline="", encoding="utf-8") as lines:
            published = {row["id"]: float(row["usr_mlm"]) for row in csv.DictReader(lines)}
        authors = _column([published[example.id or ""] for example in kept])
    rated = Rated(
        overall=_column([mean_rating(example.ratings["Overall"]) for example in kept]),
        systems=np.array([example.system for example in kept]),
        contexts=np.array([cluster_key(example) for example in kept]),
        length=_column([len(example.response.split()) for example in kept]),
        common=columns[WORDS],
        authors=authors,
    )
    return rated, columns


def _column(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def explain(rated: Rated, columns: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Everything about one corpus."""
    authors = {} if rated.authors is None else {AUTHORS: rated.authors}
    every, person = {**authors, **columns}, rated.systems == PERSON
    held = [*authors, USED, RELEASED, "causal, after the last turn"]
    held += [name for name in ("larger causal, after the last turn",) if name in every]
    return {
        "n": len(rated.overall),
        "length with Overall": stands(rated.length, rated)["Overall"],
        "forms": {name: stands(values, rated) for name, values in every.items()},
        "nats a token": {
            name: {"person": -float(values[person].mean()), "systems": -float(values[~person].mean())}
            for name, values in every.items()
            if name in FORESEEN
        },
        "located": located({name: every[name] for name in held}, rated),
    }


def main() -> None:
    """Score, correlate, print; write with --out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models")
    parser.add_argument("--cache")
    parser.add_argument("--stronger", help="a folder of checkpoints that holds a larger causal language model")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    args = parser.parse_args()
    ask = Session(args.models, cache=args.cache).answer
    stronger = Session(args.stronger, cache=args.cache).answer if args.stronger else None
    found = {title: explain(*load(args.data, corpus, ask, stronger)) for corpus, title in CORPORA.items()}
    print(text := page(found))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        args.out.with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
