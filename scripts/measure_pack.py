"""Measure a pack against people: every quality bar of its models, on the CPU, beside what papers published.

    python scripts/measure_pack.py --data DATA_DIR [--models PACK] [--against FULL_PACK] [--before FILE.json]
                                   [--out FILE.md] [--record]

DATA_DIR holds `human/`, `train/`, `test/` and `published/`. The tables go to standard output and, with --out, to a
Markdown file and a JSON file beside it. --against measures the same models in full precision too, and says what
compression costs; --record writes the figures on the pack's cards. --before is the JSON file of an earlier page: models
that are the same since then are not measured again. Nothing here chooses anything, but for the cut of
the emotion head: the validation split says it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from quality_bars import EMOTION_BAR, NUP, NUP_CORPORA, NUP_MEAN, Measure, measures, published, rated

from turnwise.engine.cache import Cache, open_cache
from turnwise.engine.local import cluster_key
from turnwise.engine.run import answer_requests
from turnwise.errors import TurnwiseError
from turnwise.models import quality as about
from turnwise.models.manifest import MANIFEST
from turnwise.models.pack import Pack, load_pack
from turnwise.models.protocols import Request
from turnwise.stats.arrays import FloatArray, cluster_codes, sum_by_cluster
from turnwise.stats.bootstrap import RESAMPLES, bootstrap, percentile_interval
from turnwise.stats.correlation import partial_correlation, spearman, spearman_of_weights
from turnwise.train.dialogues import read
from turnwise.train.tasks import NO_EMOTION
from turnwise.train.validation import best_threshold, macro_f1

Ask = Callable[[Iterable[Request]], Mapping[Request, Any]]
ROLES = ("emotion", *dict.fromkeys(measure.form.role for measure in measures()))
# Compression may cost this much of any bar.
DEAREST = 0.01


@dataclass(frozen=True)
class Figure:
    """What was found. `draws` are the bootstrap's values, on the same resamples for every pack."""

    role: str
    corpus: str
    quality: str
    score: str
    value: float | None
    n: int
    low: float | None = None
    high: float | None = None
    bar: float | None = None
    quick: float | None = None
    papers: Mapping[str, float] = field(default_factory=dict)
    length_alone: float | None = None
    length_taken_out: float | None = None
    statistic: str = "spearman"
    draws: Any = field(default=None, repr=False)

    @property
    def met(self) -> bool | None:
        """Whether the bar is reached; None where there is no bar."""
        return None if self.bar is None else self.value is not None and self.value >= self.bar


def correlate(measure: Measure, data: Path, ask: Ask, known: Mapping[tuple[str, str, str], float], seed: int) -> Figure:
    """Measure one correlation, with the interval of a bootstrap over contexts."""
    form, rows = measure.form, rated(data, measure.corpus, measure.quality)
    requests = [form.ask(example) for example, _ in rows]
    answers = ask(request for asked in requests for request in asked)
    scores = [form.score([answers[request] for request in asked]) for asked in requests]
    kept = [(e, rating, score) for (e, rating), score in zip(rows, scores, strict=True) if score is not None]
    x, y = (np.array([row[i] for row in kept], dtype=np.float64) for i in (2, 1))
    clusters = [cluster_key(e) for e, _, _ in kept]
    draws = bootstrap(spearman_of_weights(x, y), clusters, len(kept), RESAMPLES, seed)
    figure = Figure(
        form.role, measure.corpus, measure.quality, form.name, spearman(x, y).value, len(kept),
        bar=measure.bar, quick=measure.quick, draws=draws,
        papers={key[2] if key[1] else f"{key[2]} (rerun)": known[key] for key in measure.papers if key in known},
    )  # fmt: skip
    if form.against_length:
        words = [len(e.response.split()) for e, _, _ in kept]
        alone, left = spearman(words, y).value, partial_correlation(x, y, words).value
        figure = replace(figure, length_alone=alone, length_taken_out=left)
    return _with_interval(figure)


def _with_interval(figure: Figure) -> Figure:
    interval = percentile_interval(figure.draws, 0.95)
    return replace(figure, low=interval.low, high=interval.high) if interval else figure


def mean_of(figures: Sequence[Figure]) -> Figure:
    """The mean of several correlations; corpora are resampled independently of each other."""
    values = [figure.value for figure in figures]
    mean = None if None in values else float(np.mean(np.array(values, dtype=np.float64)))
    quick = float(np.mean([figure.quick for figure in figures if figure.quick is not None]))
    count = sum(figure.n for figure in figures)
    drawn = np.mean([figure.draws for figure in figures], axis=0)
    name = f"mean of {len(figures)} corpora"
    return _with_interval(Figure("nup", name, "", NUP.name, mean, count, bar=NUP_MEAN, quick=quick, draws=drawn))


def emotion(data: Path, ask: Ask) -> Figure:
    """Macro-F1 of emotion against none on DailyDialog's test split, cut where the validation split says."""
    truths, chances, dialogues = {}, {}, {}
    for name, path in (("valid", "train/dailydialog_valid"), ("test", "test/dailydialog_test")):
        labelled = [
            (about.emotion([t.text for t in d.turns[:i]], turn.text), turn.emotion.lower() not in NO_EMOTION, d.id)
            for d in read([data / f"{path}.jsonl.xz"])
            for i, turn in enumerate(d.turns)
            if turn.emotion is not None
        ]
        answers = ask(request for request, _, _ in labelled)
        truths[name] = np.array([truth for _, truth, _ in labelled], dtype=np.int64)
        chances[name] = np.array([about.yes(answers[request]) for request, _, _ in labelled])
        dialogues[name] = [dialogue for _, _, dialogue in labelled]
    cut, _ = best_threshold(truths["valid"], chances["valid"])
    truth, guess = truths["test"], (chances["test"] >= cut).astype(np.int64)
    cells = np.stack([(truth == t) & (guess == g) for t in (0, 1) for g in (0, 1)], axis=1).astype(np.float64)
    codes, count = cluster_codes(dialogues["test"], len(truth))
    totals = sum_by_cluster(cells, codes, count)

    def resampled(weights: FloatArray) -> FloatArray:
        none, false, missed, hit = (weights.T @ totals).T
        mean: FloatArray = none / (2 * none + false + missed) + hit / (2 * hit + false + missed)
        return mean

    return _with_interval(
        Figure(
            "emotion", "dailydialog_test", "emotion or none", f"probability, cut at {cut}",
            macro_f1(truth, guess, 2), len(truth), bar=EMOTION_BAR, statistic="macro-F1",
            draws=bootstrap(resampled, None, count, RESAMPLES, seed=0),
        )
    )  # fmt: skip


def measure_pack(pack: Pack, data: Path, roles: Sequence[str], cache: Cache | None = None) -> list[Figure]:
    """Every figure of these roles of a pack."""

    def ask(requests: Iterable[Request]) -> Mapping[Request, Any]:
        return answer_requests(requests, pack, cache=cache)

    known, figures = published(data), []
    for seed, measure in enumerate(measures()):
        if measure.form.role in roles:
            print(f"{pack.name}: {measure.form.role} on {measure.corpus}", file=sys.stderr, flush=True)
            figures.append(correlate(measure, data, ask, known, seed))
    if "nup" in roles:
        figures.insert(len(NUP_CORPORA), mean_of(figures[: len(NUP_CORPORA)]))
    if "emotion" in roles:
        print(f"{pack.name}: emotion on dailydialog_test", file=sys.stderr, flush=True)
        figures.append(emotion(data, ask))
    return figures


def cost(figure: Figure, full: Figure) -> dict[str, Any]:
    """What a figure lost against the same figure in full precision, and the interval of that loss."""
    if figure.value is None or full.value is None:
        return {"cost": None, "low": None, "high": None, "met": None}
    interval = percentile_interval(full.draws - figure.draws, 0.95)
    lost = full.value - figure.value
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {"full": full.value, "cost": lost, "low": low, "high": high, "met": lost <= DEAREST if figure.bar else None}


def report(pack: Pack, figures: Sequence[Figure], full: Sequence[Figure] | None) -> dict[str, Any]:
    """Everything that was found, as plain values."""
    rows: list[dict[str, Any]] = []
    for place, figure in enumerate(figures):
        facts = {f.name: getattr(figure, f.name) for f in fields(figure) if f.name != "draws"}
        rows.append(facts | {"met": figure.met})
        if full is not None:
            rows[-1]["compression"] = cost(figure, full[place])
    return {
        "pack": pack.name,
        "version": pack.manifest.version,
        "models": {role: pack.manifest.fingerprint(role) for role in pack.roles},
        "not_measured": sorted({*ROLES} - {figure.role for figure in figures}),
        "figures": rows,
    }


def unchanged(pack: Pack, earlier: Mapping[str, Any]) -> set[str]:
    """The roles whose models are those of an earlier report."""
    known = earlier["models"]
    return {role for role in ROLES if role in pack.roles and known.get(role) == pack.manifest.fingerprint(role)}


def joined(found: dict[str, Any], earlier: Mapping[str, Any], kept: set[str]) -> dict[str, Any]:
    """A report whose roles that were not measured again are those of an earlier one, in its order."""
    new, measured = iter(found["figures"]), {row["role"] for row in found["figures"]}
    old = [row for row in earlier["figures"] if row["role"] in kept | measured]
    rows = [row if row["role"] in kept else next(new) for row in old]
    missing = sorted({*found["not_measured"]} - {row["role"] for row in rows})
    return found | {"figures": [*rows, *new], "not_measured": missing}


def markdown(found: Mapping[str, Any]) -> str:
    """The report as tables: what the pack is held to first, then what else was measured."""
    rows = found["figures"]
    bars = [row for row in rows if row["bar"] is not None]
    reached = sum(row["met"] for row in bars)
    lines = [
        f"# What {found['pack']} {found['version']} measures",
        "",
        "Spearman's rank correlation with the mean rating of people (macro-F1 for emotion), on the CPU, references "
        "left out; in brackets the 95 % interval of a bootstrap over contexts. *Quick* is the model of the same kind "
        "that a few minutes of plain training gave; *papers* is what others published for their own, larger models "
        "(*rerun*: the same corpus scored by others with the authors' models).",
        "",
        f"{reached} of {len(bars)} bars are reached.",
    ]
    if found["not_measured"]:
        lines.append(f"Not measured: {', '.join(found['not_measured'])}.")
    for title, part in (("Bars", bars), ("Beside the bars", [row for row in rows if row["bar"] is None])):
        if part:
            lines += ["", f"## {title}", "", *_lines(part)]
    if known := [row for row in rows if "compression" in row]:
        lines += ["", "## What compression costs", "", f"At most {DEAREST} of any bar is allowed.", "", *_costs(known)]
    return "\n".join(lines) + "\n"


HEADS = ("role", "corpus", "quality", "score", "value", "n", "bar", "reached", "quick", "papers", "length alone",
         "length taken out")  # fmt: skip


def _lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from _header(HEADS)
    for row in rows:
        papers = ", ".join(f"{name} {value:.3f}" for name, value in row["papers"].items())
        value = f"{_number(row['value'])} [{_number(row['low'])}, {_number(row['high'])}]"
        cells = (row["role"], row["corpus"], row["quality"], row["score"], value, str(row["n"]), _number(row["bar"]),
                 _word(row["met"]), _number(row["quick"]), papers, _number(row["length_alone"]),
                 _number(row["length_taken_out"]))  # fmt: skip
        yield _line(cells)


def _costs(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield from _header(("role", "corpus", "quality", "score", "full precision", "compressed", "cost", "allowed"))
    for row in rows:
        lost = row["compression"]
        between = f"{_number(lost['cost'], 4)} [{_number(lost['low'], 4)}, {_number(lost['high'], 4)}]"
        full, small = _number(lost.get("full"), 4), _number(row["value"], 4)
        what = (row["role"], row["corpus"], row["quality"], row["score"])
        yield _line((*what, full, small, between, _word(lost["met"])))


def _header(names: Sequence[str]) -> list[str]:
    return [_line(names), "|" + "---|" * len(names)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, places: int = 3) -> str:
    return "" if value is None else f"{value:.{places}f}"


def _word(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "**no**"


def record(pack: Pack, figures: Sequence[Figure]) -> None:
    """Write what was measured on the cards in the pack's manifest; no file of a model is touched."""
    path = pack.folder / MANIFEST
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for role in {f.role for f in figures}:
        manifest["roles"][role]["card"]["measured"] = [
            {
                "corpus": f.corpus, "quality": f.quality, "score": f.score, f.statistic: round(f.value, 4), "n": f.n,
            }
            for f in figures if f.role == role and f.value is not None
        ]  # fmt: skip
    path.write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Measure, print and write."""
    options = argparse.ArgumentParser(description="Measure a pack's models against people.")
    options.add_argument("--models", help="a pack's folder or name; the bundled pack when left out")
    options.add_argument("--data", type=Path, required=True, help="folder with human/, train/, test/ and published/")
    options.add_argument("--against", type=Path, help="the same pack in full precision")
    options.add_argument("--roles", nargs="+", choices=ROLES, default=ROLES, help="measure these only")
    options.add_argument("--before", type=Path, help="JSON file of an earlier page: what has not changed is kept")
    options.add_argument("--out", type=Path, help="Markdown file to write; a JSON file is written beside it")
    options.add_argument("--cache", default="off", help="folder that keeps answers between runs")
    options.add_argument("--record", action="store_true", help="write the figures on the pack's cards")
    asked = options.parse_args()
    try:
        pack, cache = load_pack(asked.models), open_cache(asked.cache)
        earlier = json.loads(asked.before.read_text(encoding="utf-8")) if asked.before else None
        kept = unchanged(pack, earlier) if earlier else set()
        roles = [role for role in asked.roles if role in pack.roles and role not in kept]
        figures, full = measure_pack(pack, asked.data, roles, cache), None
        if asked.against is not None:
            full = measure_pack(load_pack(asked.against), asked.data, roles, cache)
    except TurnwiseError as problem:
        sys.exit(f"error: {problem}")
    found = report(pack, figures, full)
    found = joined(found, earlier, kept) if earlier else found
    print(markdown(found))
    if asked.record:
        record(pack, figures)
    if asked.out is not None:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(markdown(found), encoding="utf-8")
        asked.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
