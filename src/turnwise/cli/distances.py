"""The commands that hold metrics of whole distributions to account: `perturb` and `normality`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import (
    Cached,
    Corpus,
    Device,
    Devices,
    Files,
    Format,
    Map,
    Models,
    Printed,
    Strict,
    parse_map,
)
from turnwise.errors import TurnwiseError
from turnwise.wording import counted

if TYPE_CHECKING:
    from turnwise.analyses.normality import NormalityReport
    from turnwise.analyses.perturb import Perturbation


def perturb(
    files: Files,
    metrics: Annotated[
        str,
        typer.Option("--metrics", "-m", metavar="LIST", help="Metrics, with commas: NAME, NAME:mode, NAME[key=value]."),
    ] = "fbd,prd",
    transforms: Annotated[
        str, typer.Option(metavar="LIST", help="Ways to spoil an answer, with commas between them.")
    ] = "noise,mismatch,permutate,repeat",
    ratios: Annotated[str, typer.Option(metavar="LIST", help="Shares of spoilt answers.")] = "0,0.25,0.5,0.75,1",
    seeds: Annotated[int, typer.Option(min=1, help="Draws to average over.")] = 5,
    sample: Annotated[int, typer.Option(min=2, help="Answers to take at most.")] = 500,
    plot: Annotated[Path | None, typer.Option(help="Write the curves as .svg, .png or .json.")] = None,
    format: Printed = Format.table,
    corpus: Corpus = None,
    map: Map = None,
    strict: Strict = False,
    seed: Annotated[int, typer.Option(min=0, help="The first of the seeds.")] = 0,
    models: Models = None,
    device: Device = Devices.auto,
    cache: Cached = None,
) -> None:
    """Spoil people's own answers step by step and watch metrics. Do they get worse with every step?"""
    from turnwise.analyses.evaluate import check_targets
    from turnwise.analyses.perturb import perturb as run
    from turnwise.cli import show

    check_targets(files, files=[plot])
    with show.progress("scoring") as tick:
        result = run(
            files,
            metrics,
            transforms=[name.strip() for name in transforms.split(",") if name.strip()],
            ratios=_numbers(ratios),
            seeds=seeds,
            sample=sample,
            corpus=corpus,
            mapping=parse_map(map),
            strict=strict,
            seed=seed,
            models=models,
            device=device.value,
            cache=cache,
            progress=tick,
        )
    show.problems(result.problems)
    show.notes(result.notes)
    if plot is not None:
        from turnwise.report.charts import perturb_chart
        from turnwise.report.drawing import save_chart

        save_chart(perturb_chart(result), plot)
        show.note(f"the curves are in {plot}")
    _show_perturbation(result, format.value)


def normality(
    files: Files,
    metric: Annotated[str, typer.Option(help="The metric whose vectors are tested.")] = "fbd",
    format: Printed = Format.table,
    corpus: Corpus = None,
    map: Map = None,
    strict: Strict = False,
    models: Models = None,
    device: Device = Devices.auto,
    cache: Cached = None,
) -> None:
    """Test the vectors behind a distance for normality. Dimension by dimension, by Shapiro and Wilk."""
    from turnwise.analyses.normality import normality as run
    from turnwise.cli import show

    with show.working("testing"):
        result = run(
            files,
            metric,
            corpus=corpus,
            mapping=parse_map(map),
            strict=strict,
            models=models,
            device=device.value,
            cache=cache,
        )
    show.problems(result.problems)
    show.notes(result.notes)
    _show_normality(result, format.value)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise TurnwiseError(f"--ratios: '{text}' is not a list of numbers; write for example 0,0.5,1") from None


def _show_perturbation(result: Perturbation, form: str) -> None:
    from rich.text import Text

    from turnwise.cli import show

    whole = result.to_dict()
    if show.machine_readable(whole["rows"], form, whole=whole):
        return
    ratios = list(dict.fromkeys(row.ratio for row in result.rows))
    first = result.rows[0]
    title = f"Value by share of perturbed answers, n = {first.n}, {counted(first.seeds, 'seed')}"
    table = show.table_of(title, ("metric", "transform"), [f"{ratio:g}" for ratio in ratios])
    table.add_column("trend", no_wrap=True)
    for trend in sorted(result.trends, key=lambda trend: trend.metric):
        values = {
            row.ratio: row.value
            for row in result.rows
            if (row.metric, row.transform) == (trend.metric, trend.transform)
        }
        worse = trend.trend == ("falls" if trend.higher_is_better else "rises")
        style = "" if trend.higher_is_better is None else "green" if worse else "red"
        cells = (show.number(values[ratio]) for ratio in ratios)
        table.add_row(Text(trend.metric), Text(trend.transform), *cells, Text(trend.trend, style=style))
    show.out.print(table)


def _show_normality(result: NormalityReport, form: str) -> None:
    from rich.text import Text

    from turnwise.cli import show

    whole = result.to_dict()
    if show.machine_readable(whole["rows"], form, whole=whole):
        return
    columns = ("n", "dimensions", "W", "p", "not normal")
    table = show.table_of("Shapiro-Wilk over the dimensions: mean ± standard deviation", ("vectors of",), columns)
    for row in result.rows:
        w, p = f"{row.w_mean:.3f} ± {row.w_deviation:.3f}", f"{row.p_mean:.3f} ± {row.p_deviation:.3f}"
        table.add_row(Text(row.set), str(row.n), str(row.dimensions), w, p, f"{row.rejected:.0%}")
    show.out.print(table)
    show.note("not normal: the share of dimensions with p < .05")
