"""Metrics as data: a TOML or JSON file that names parts, weights, normalisers and how they are composed."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.engine.spool import FACTS
from turnwise.errors import TurnwiseError
from turnwise.files import write_text
from turnwise.metrics.base import Metric
from turnwise.metrics.composite import COMPOSITIONS, CompositeMetric, CompositePart
from turnwise.metrics.registry import GROUPS, METRICS, Asked, as_asked, expand, lesser_form, load_metric
from turnwise.metrics.scaling import NORMALISERS, Normaliser

KEYS = ("name", "description", "composition", "intercept", "parts")
PART_KEYS = ("metric", "name", "weight", "normaliser")
# A name is a key in results and stands in signatures, whose punctuation it must not contain.
NAME = re.compile(r"\w[\w.+-]*")
# A metric's column stands beside these.
COLUMNS = frozenset({*FACTS, "notes", "number"})


def load_config(path: str | Path) -> CompositeMetric:
    """Read a composite metric from a file.

    Args:
        path: A TOML or JSON file; [its format](fit.md) has parts, weights, normalisers and a composition.

    Returns:
        The metric, for `metrics` or `config` of every analysis.

    >>> import tempfile, turnwise as tw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "mine.toml")
    ...     _ = file.write_text('name = "mine"\\n[[parts]]\\nmetric = "f1"\\nweight = 2.0\\n')
    ...     metric = tw.load_config(file)
    >>> metric.score(response="Hello there.", references=["Hello!"]).value
    0.8
    """
    file = Path(path)
    try:
        return composite_of(_parse(file))
    except ValueError as problem:
        raise TurnwiseError(f"{file}: {problem}") from None
    except TurnwiseError as problem:
        raise TurnwiseError(f"{file}: {problem}") from None


def save_config(metric: CompositeMetric, path: str | Path, *, description: str = "") -> Path:
    """Write a composite metric as a file that `load_config` reads back unchanged.

    Args:
        metric: A metric of `load_config` or `fit`.
        path: The file: JSON if its name ends in `.json`, TOML otherwise.
        description: A line on where the metric comes from.

    Returns:
        The path of the file.

    >>> import tempfile
    >>> parts = [{"metric": "f1", "weight": 1.0}, {"metric": "length", "weight": 0.01}]
    >>> metric = composite_of({"name": "mine", "parts": parts})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_config(save_config(metric, Path(folder, "mine.toml"))) == metric
    True
    """
    file = Path(path)
    config = config_of(metric, description)
    is_json = file.suffix.lower() == ".json"
    text = json.dumps(config, ensure_ascii=False, indent=2) + "\n" if is_json else _toml(config)
    return write_text(file, text)


def is_config(path: str | Path) -> bool:
    """Whether a file is written as a configuration, whatever may be wrong with the one that it holds."""
    try:
        return "parts" in _parse(Path(path))
    except ValueError:
        return False


def choose_metrics(
    metrics: Asked, offered: frozenset[str], roles: frozenset[str], composite: CompositeMetric | None
) -> dict[str, Metric]:
    """The metrics that were asked for, and the configured one, which may be asked for by its name too."""
    if composite is None:
        return expand(metrics, offered, roles)
    if absent := sorted(composite.roles - roles):
        unanswered = [part for part in composite.parts if not part.metric.roles <= roles]
        forms = [(part.name, lesser_form(part.metric, roles)) for part in unanswered]
        mend = "give `models`"
        if all(form for _, form in forms):
            mend += f", or write {' and '.join(f'{form} for {name}' for name, form in forms)} in the configuration"
        raise TurnwiseError(f"{composite.name} needs models that are not there: {', '.join(absent)}; {mend}")
    others = [item for item in as_asked(metrics) if item not in (composite.name, composite)]
    return {**(expand(others, offered, roles) if others else {}), composite.name: composite}


def composite_of(config: Mapping[str, Any]) -> CompositeMetric:
    """The composite metric that a mapping describes; raises ValueError or TurnwiseError for the first mistake."""
    _check_keys(config, KEYS, "the configuration")
    name = config.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError('name: give the metric one of letters, digits and . + - _, for example name = "mine"')
    if name in METRICS or name in GROUPS:
        raise ValueError(f"name: '{name}' is a metric or group already; choose another name")
    if name in COLUMNS:
        raise ValueError(f"name: '{name}' is a column of every result; choose another name")
    composition = config.get("composition", "linear")
    if not isinstance(composition, str) or composition not in COMPOSITIONS:
        raise ValueError(f"composition: '{composition}' is not known; choose one of {', '.join(COMPOSITIONS)}")
    given = config.get("parts")
    if not isinstance(given, list) or not given:
        raise ValueError("parts: there are none; add a [[parts]] table with a metric and a weight")
    parts = tuple(_part(item, number) for number, item in enumerate(given, start=1))
    names = [part.name for part in parts]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(
            f"parts: two are called '{repeated}'; give each a name of its own, for example name = \"second\""
        )
    if COMPOSITIONS[composition].mean is not None:
        _check_mean(parts, composition)
    intercept = _number(config.get("intercept", 0.0), "intercept")
    return CompositeMetric(name=name, parts=parts, intercept=intercept, composition=composition)


def _check_mean(parts: Sequence[CompositePart], composition: str) -> None:
    """Refuse what has no geometric or harmonic mean."""
    for number, part in enumerate(parts, start=1):
        where = f"part {number} ({part.request})"
        if part.weight < 0:
            raise ValueError(f"{where}: weight: a {composition} mean has none below 0; give 0 or more")
        if part.least < 0:
            raise ValueError(f"{where}: a {composition} mean needs scores from 0 up; give a normaliser of kind clamp")
    if not any(part.weight for part in parts):
        raise ValueError(f"parts: a {composition} mean needs a weight above 0; give one")


def config_of(metric: CompositeMetric, description: str = "") -> dict[str, Any]:
    """The mapping that `composite_of` makes the same metric of."""
    about = {"description": description} if description else {}
    parts = [_part_config(part) for part in metric.parts]
    head = {"composition": metric.composition, "intercept": metric.intercept}
    return {"name": metric.name, **about, **head, "parts": parts}


def name_for(path: str | Path) -> str:
    """A name for a metric that is kept in a file: the file's, made fit to be one.

    >>> name_for("runs/my raters.toml"), name_for("meteor.toml")
    ('my-raters', 'fitted-meteor')
    """
    name = re.sub(r"[^\w.+-]+", "-", Path(path).stem).strip("-.+")
    return name if NAME.fullmatch(name) and not _taken(name) else f"fitted-{name}"


def _taken(name: str) -> bool:
    return name in METRICS or name in GROUPS or name in COLUMNS


# --- reading --------------------------------------------------------------------------------------------------


def _parse(file: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        text = file.read_text(encoding="utf-8-sig")
        config = json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as problem:
        raise ValueError(f"cannot be read ({problem.strerror}); check the path") from None
    except UnicodeDecodeError:
        raise ValueError("not written as UTF-8; save it as UTF-8") from None
    except (ValueError, RecursionError) as problem:
        kind = "JSON" if file.suffix.lower() == ".json" else "TOML"
        raise ValueError(f"not {kind} ({problem}); mend it there") from None
    if not isinstance(config, dict):
        raise ValueError("write the configuration as one JSON object")
    return config


def _part(config: object, number: int) -> CompositePart:
    where = f"part {number}"
    if not isinstance(config, dict):
        raise ValueError(f"{where}: write it as a table with a metric and a weight")
    _check_keys(config, PART_KEYS, where)
    request = config.get("metric")
    if not isinstance(request, str):
        raise ValueError(f'{where}: no metric; name one, for example metric = "meteor"')
    where = f"{where} ({request})"
    try:
        metric = load_metric(request)
    except TurnwiseError as problem:
        raise ValueError(f"part {number}: {problem}") from None
    if not metric.per_turn:
        raise ValueError(f"{where}: it has no score for a single turn; choose another metric")
    if "batch" in metric.options().values():
        raise ValueError(f"{where}: a part cannot wait for the whole run; give it constants other than batch")
    if "weight" not in config:
        raise ValueError(f"{where}: no weight; add for example weight = 0.5")
    name = config.get("name", request)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ValueError(f"{where}: name: write it as text")
    weight = _number(config["weight"], f"{where}: weight")
    return CompositePart(name, request, metric, weight, _normaliser(config.get("normaliser"), where))


def _normaliser(config: object, where: str) -> Normaliser | None:
    if config is None or config == "none":
        return None
    kinds = ", ".join(NORMALISERS)
    if not isinstance(config, dict):
        raise ValueError(f'{where}: normaliser: write it as a table, for example {{kind = "clamp", low = 0, high = 1}}')
    kind = config.get("kind")
    if kind == "none" and len(config) == 1:
        return None
    if not isinstance(kind, str) or kind not in NORMALISERS:
        raise ValueError(f"{where}: normaliser: kind {kind!r} is not known; choose one of {kinds}, none")
    wanted = [field.name for field in dataclasses.fields(NORMALISERS[kind])]
    _check_keys(config, ("kind", *wanted), f"{where}: normaliser")
    if missing := next((key for key in wanted if key not in config), None):
        raise ValueError(f"{where}: normaliser: no {missing}; the kind {kind} needs {' and '.join(wanted)}")
    values = {key: _number(config[key], f"{where}: normaliser: {key}") for key in wanted}
    try:
        return NORMALISERS[kind](**values)
    except ValueError as problem:
        raise ValueError(f"{where}: normaliser: {problem}") from None


def _check_keys(config: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    known = tuple(known)
    for key in config:
        if key not in known:
            raise ValueError(f"{where}: key '{key}' is not known; the keys are {', '.join(known)}")


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{where}: {value!r} is not a number; write one, for example 0.5")
    return float(value)


# --- writing --------------------------------------------------------------------------------------------------


def _part_config(part: CompositePart) -> dict[str, Any]:
    named = {} if part.name == part.request else {"name": part.name}
    config: dict[str, Any] = {"metric": part.request, **named, "weight": part.weight}
    if part.normaliser is not None:
        kind = next(kind for kind, cls in NORMALISERS.items() if isinstance(part.normaliser, cls))
        config["normaliser"] = {"kind": kind, **dataclasses.asdict(part.normaliser)}
    return config


def _toml(config: Mapping[str, Any]) -> str:
    """The few shapes of TOML that a configuration has; the standard library only reads it."""
    lines = [f"{key} = {_toml_value(value)}" for key, value in config.items() if key != "parts"]
    for part in config["parts"]:
        lines += ["", "[[parts]]", *(f"{key} = {_toml_value(value)}" for key, value in part.items())]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml_value(item)}" for key, item in value.items()) + " }"
    # Strings of JSON are strings of TOML, but for one control character that JSON leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)
