"""The figures on speed as a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

HEAD = """# Speed

`{command}` measured all figures of this page in one run on one machine. The two sides of a ratio ran in turns,
so a busy machine slows both alike.

{processor}, {threads} threads, {gflops:,.0f} GFLOP/s in a large matrix product. Weights: {weights}.
"""
SIDES = """
## Side by side

- *naive*: torch in fp32, one text at a time in the given order. It makes one forward pass per masked token, reads the
  context twice for every response, and encodes the whole conversation again for every turn. Classifiers read pairs
  padded to 128 tokens, as in USR's release.
- *naive, unpadded*: the same without that padding.
- *fp32*: the same weights in our engine; scores agree to 1e-3.
- *int8*: a shipped pack with integer arithmetic (`--models NAME@int8`). Its scores are compared with those of full
  precision by rank. A causal language model computes in fp32 either way.
- Coherence has five responses per context, MAUDE every turn of dialogues of twelve.
- *Of the peak*: share of the speed of a large fp32 product, which integers may exceed.

Other packages run in fp32 on the same weights, in batches: bert-score, the CrossEncoder of sentence-transformers on
pairs of turns, and minicons for the likelihood of responses by a masked and of continuations by a causal model.
"""
MARKS = {True: "yes", False: "**no**"}


def page(found: Mapping[str, Any], gpu: Mapping[str, Any] | None = None, huge: Mapping[str, Any] | None = None) -> str:
    """The whole page; what was measured elsewhere or takes an hour comes from runs of its own."""
    machine = found["machine"]
    parts = [
        HEAD.format(
            command=" ".join(["python -m benchmarks", *found["asked"]]),
            processor=machine["processor"],
            threads=machine["threads"],
            gflops=machine["peak_gflops"],
            weights=found["weights"] + (", so ranks of int8 say nothing" if found["weights"] == "random" else ""),
        ),
        found.get("note"),  # what has changed since, by hand
        SIDES,
        _sides(found),
        _absent(found["absent"]),
        _ours(found),
        _growth(found),
        _command(found),
        _huge(huge),
        _gpu(gpu),
    ]
    return "\n".join(filter(None, parts)).rstrip() + "\n"


def _sides(found: Mapping[str, Any]) -> str:
    heads = ("metric", "weights", "against", "ours, a second", "theirs", "ratio", "bar", "largest difference")
    heads += ("Spearman", "in the model", "of the peak", "met")
    rows = [
        (
            *(side[name] for name in ("metric", "weights", "against")),
            f"{side['ours']:,.1f}",
            f"{side['theirs']:,.1f}",
            f"{side['ratio']:.1f}",
            "" if side["bar"] is None else f"{side['bar']:g}",
            f"{side['difference']:.1e}",
            "" if _unranked(side, found) else f"{side['spearman']:.4f}",
            f"{side['model_share']:.0%}",
            f"{side['gflops'] / found['machine']['peak_gflops']:.0%}",
            _mark(side, found),
        )
        for side in found["sides"]
    ]
    return _table(heads, rows)


def _unranked(side: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Rounding reorders the scores of random weights, which lie close together: that says nothing of trained ones."""
    return bool(side["weights"] == "int8" and found["weights"] == "random")


def _mark(side: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    if not _unranked(side, found):
        return MARKS[side["met"]]
    return "" if side["bar"] is None else MARKS[side["ratio"] >= side["bar"]]


def _absent(names: Sequence[str]) -> str:
    return f"\nNot installed, so not measured: {', '.join(names)}." if names else ""


def _ours(found: Mapping[str, Any]) -> str:
    whole, slow = found["together"], min(found["cache"].values())
    cache = _table(("metric", "examples a second"), [(name, f"{rate:,.0f}") for name, rate in found["cache"].items()])
    said = [
        "\n## Shared work",
        f"\nFour model metrics at once take {whole['overhead']:.2f} times their forward passes alone (bar 1.3: "
        f"{MARKS[whole['overhead'] <= 1.3]}). A second run, all from the cache (bar 5,000: {MARKS[slow >= 5000]}):\n",
        cache,
    ]
    if "start_up" in found:
        took = found["start_up"]
        said.append(f"\n`turnwise score` of 10 examples with `usr`: {took:.1f} s (bar 3: {MARKS[took < 3]}).")
    return "\n".join(said)


def _growth(found: Mapping[str, Any]) -> str:
    tables = []
    titles = (("examples", "growth"), ("examples of a whole run", "rows"), ("words in the response", "lengths"))
    for title, name in titles:
        sizes = [f"{int(size):,}" for size in next(iter(found[name].values()))]
        rows = [(metric, *(f"{ms:.3g}" for ms in costs.values())) for metric, costs in found[name].items()]
        tables.append(f"\nMilliseconds per example, by {title}:\n\n" + _table(("metric", *sizes), rows))
    return "\n## How cost grows\n" + "\n".join(tables)


def _command(found: Mapping[str, Any]) -> str:
    rows = [
        (metrics, f"{run['rows']:,}", f"{run['seconds']:.1f}", f"{run['mib']:,.0f}")
        for metrics, runs in found["command"].items()
        for run in runs
    ]
    rates = {
        precision: ", ".join(
            f"{side['metric']} {1e6 / side['ours'] / 3600:,.1f} h"
            for side in found["sides"]
            if side["weights"] == precision and side["against"] == "naive"
        )
        for precision in ("fp32", "int8")
    }
    said = "\n## The command, and what a million turns cost\n\n" + _table(
        ("metrics", "rows", "s", "MiB at the peak"), rows
    )
    return said + (f"\n\nExtrapolated to a million turns on this machine: {rates['fp32']}; in int8 {rates['int8']}.")


def _huge(huge: Mapping[str, Any] | None) -> str:
    if huge is None:
        return ""
    rows = [
        (
            f"{run['rows']:,}",
            f"{run['megabytes']:,}",
            f"{run['rows'] / run['seconds']:,.0f}",
            f"{run['mib']:,.0f}",
        )
        for run in huge["runs"]
    ]
    most = max(huge["runs"], key=lambda run: run["rows"])
    command = f"python -m benchmarks.huge --rows {most['rows']} --out docs/results/speed-huge.json"
    said = f"`{command}`: `{huge['metrics']}` metrics" + (f", {huge['note']}" if huge["note"] else "")
    bar = f" (bar 1 GB: {MARKS[most['mib'] * 2**20 < 1e9]})."
    return f"\n## Huge files\n\n{said}{bar}\n\n" + _table(("rows", "MB", "rows a second", "MiB at the peak"), rows)


def _gpu(gpu: Mapping[str, Any] | None) -> str:
    if gpu is None:
        return ""
    heads = (
        "checkpoints",
        "metric",
        "examples a second",
        "tokens a second",
        "TFLOP/s",
        "of the peak",
        "networks alone",
    )
    rows = [
        (
            size,
            name,
            f"{one['examples_per_second']:,.0f}",
            f"{one['tokens_per_second']:,.0f}",
            f"{one['tflops']:.1f}",
            f"{one['tflops'] / gpu['peak_tflops']:.1%}",
            f"{one['tflops_alone']:.1f}" if "tflops_alone" in one else "",
        )
        for size, metrics in gpu["sizes"].items()
        for name, one in metrics.items()
        if "error" not in one
    ]
    said = (
        f"{gpu['device']}, {gpu['peak_tflops']:.0f} TFLOP/s in a large bf16 product; {gpu['checkpoints']} checkpoints "
        "of the bundled pack's shapes (mini) or BERT-base's and a causal model of the same width and depth (base). "
        "*Alone*: TFLOP/s of the networks with the same batches and nothing around them."
    )
    sizes = ",".join(gpu["sizes"])
    command = f"python -m benchmarks.gpu --size {sizes} --out docs/results/speed-gpu.json"
    return f"\n## On a GPU\n\n`{command}`: {said}\n\n" + _table(heads, rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
