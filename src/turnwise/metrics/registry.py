"""Every metric by name: how `NAME:mode[key=value]` becomes a metric, and which names a group stands for."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeVar

from turnwise.errors import TurnwiseError
from turnwise.metrics.base import Metric, Mode
from turnwise.plugins import Registry

# One module per published system or family of baselines; importing it registers its metrics.
MODULES = (
    "turnwise.metrics.surface",
    "turnwise.metrics.overlap",
    "turnwise.metrics.embeddings",
    "turnwise.metrics.learned",
    "turnwise.metrics.bertscore",
    "turnwise.metrics.usr",
    "turnwise.metrics.uslh",
    "turnwise.metrics.maude",
    "turnwise.metrics.holistic",
    "turnwise.metrics.distributions",
)

M = TypeVar("M", bound=Metric)
# What the verbs take: one request, several with commas between them, a metric, or a list of requests and metrics.
Asked = str | Metric | Iterable[str | Metric]


@dataclasses.dataclass(frozen=True)
class Entry:
    """A registered name: its class, and the options that the name itself fixes (`bleu-2` fixes n = 2)."""

    name: str
    cls: type[Metric]
    preset: Mapping[str, object]


def _entry_of(name: str, cls: type[Metric]) -> Entry:
    """Return the entry of a metric class that a package offers under this name."""
    if not (isinstance(cls, type) and issubclass(cls, Metric)):
        raise TurnwiseError(f"expected a subclass of Metric or a module that registers one, got {cls!r}")
    return Entry(name, _as_dataclass(cls), {})


def _as_dataclass(cls: type[M]) -> type[M]:
    """Return a metric class whose own fields are options, unless it is declared as a dataclass itself."""
    return cls if "__dataclass_params__" in vars(cls) else dataclasses.dataclass(frozen=True, kw_only=True)(cls)


METRICS = Registry[Entry](
    "metric",
    "turnwise.metrics",
    modules=MODULES,
    hint="see 'turnwise list metrics'",
    adapt=_entry_of,
)


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
def register(names: Mapping[str, Mapping[str, object]]) -> Callable[[type[M]], type[M]]:
    """Return a class decorator that offers a metric under each name, with the options that the name fixes.

    It makes the class a frozen dataclass, so that annotated fields are options.
    """

    def add(cls: type[M]) -> type[M]:
        cls = _as_dataclass(cls)
        for name, preset in names.items():
            METRICS.add(name, Entry(name, cls, preset), module=cls.__module__)
        return cls

    return add


def entries() -> dict[str, Entry]:
    """Return all metrics, in the order in which they are listed to people."""
    return dict(METRICS.items())


def preset_of(name: str) -> Mapping[str, object]:
    """Return the options that a registered name fixes."""
    return METRICS.get(name).preset if name in METRICS else {}


def option_types(entry: Entry) -> dict[str, Any]:
    """Return the options that a user may set on a metric, with their types."""
    hints = typing.get_type_hints(entry.cls)
    hidden = {"name", "mode", *entry.preset}
    return {f.name: hints[f.name] for f in dataclasses.fields(entry.cls) if f.name not in hidden}


# --- the request language -------------------------------------------------------------------------------

_REQUEST = re.compile(r"(?P<name>[^:\[\]]+)(?::(?P<mode>[^\[\]]+))?(?:\[(?P<options>.*)\])?", re.DOTALL)


def split_list(text: str, mark: str = ",") -> list[str]:
    """Split on commas, or another mark, that stand outside brackets.

    >>> split_list("usr, bleu-4[corpus=true,n=2],f1"), split_list("vup/usr-mlm[separators=a/b]", "/")
    (['usr', 'bleu-4[corpus=true,n=2]', 'f1'], ['vup', 'usr-mlm[separators=a/b]'])
    """
    parts, depth, current = [], 0, ""
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == mark and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part.strip() for part in (*parts, current) if part.strip()]


def load_metric(request: str) -> Metric:
    """Make the metric that a request asks for.

    Args:
        request: A name, with a mode or options if need be: `f1`, `f1:released`, `bleu-4[corpus=true]`.

    Returns:
        The metric, for `metrics` of every analysis, or to score single replies.

    >>> load_metric("f1").score(response="Hello there.", references=["Hello!"]).value
    0.4
    """
    match = _REQUEST.fullmatch(request.strip())
    if match is None:
        raise TurnwiseError(f"metric '{request}': write NAME, NAME:mode or NAME[key=value,key=value]")
    name = match["name"].strip()
    entry = METRICS.get(name)
    mode = match["mode"] or "recommended"
    if mode not in entry.cls.modes:
        offered = ", ".join(entry.cls.modes)
        raise TurnwiseError(f"metric '{name}' has no mode '{mode}'; it has: {offered}")
    form = typing.cast(Mode, mode)
    given = dict(_parse_option(entry, item) for item in split_list(match["options"] or ""))
    options: dict[str, Any] = {**entry.cls.mode_options.get(form, {}), **entry.preset, **given}
    try:
        return entry.cls(name=name, mode=form, **options)
    except ValueError as problem:
        raise TurnwiseError(f"metric '{request}': {problem}") from None


def load_part(request: str, mode: Mode) -> Metric:
    """Return a metric as part of another: in the mode of the whole, unless it names its own or lacks that mode."""
    name, bracket, options = request.partition("[")
    name = name.strip()
    inherits = name in METRICS and mode in METRICS.get(name).cls.modes
    metric = load_metric(f"{name}:{mode}{bracket}{options}" if inherits else request)
    if not metric.per_turn:
        raise TurnwiseError(f"metric '{request}' has no score for a single turn and cannot be a part; choose another")
    if metric.waits:
        shown = plain_form(metric)
        raise TurnwiseError(f"metric '{shown}' waits for the whole run and cannot be a part; choose another form of it")
    return metric


def plain_form(metric: Metric, whole: Mode = "recommended", without: Iterable[str] = ()) -> str:
    """Return the shortest request for a metric, as a part of one in the mode `whole`; some options may be left out.

    >>> plain_form(load_metric("usr-mlm[reduction=sum,scope=response]")), plain_form(load_part("vup", "paper"), "paper")
    ('usr-mlm[reduction=sum]', 'vup')
    """
    usual = usual_options(metric)
    hidden = {"name", "mode", *preset_of(metric.name), *without}
    given = {key: getattr(metric, key) for key in usual if key not in hidden}
    options = ",".join(f"{key}={show_option(value)}" for key, value in given.items() if value != usual[key])
    own_mode = metric.mode != (whole if whole in metric.modes else "recommended")
    return metric.name + (f":{metric.mode}" if own_mode else "") + (f"[{options}]" if options else "")


def _parse_option(entry: Entry, item: str) -> tuple[str, Any]:
    known = option_types(entry)
    key, equals, text = (part.strip() for part in item.partition("="))
    if not equals:
        raise TurnwiseError(f"metric '{entry.name}': option '{item}' has no value; write {item}=VALUE")
    if key not in known:
        offered = ", ".join(known) or "none"
        raise TurnwiseError(f"metric '{entry.name}' has no option '{key}'; its options: {offered}")
    try:
        return key, _coerce(text, known[key])
    except ValueError as problem:
        raise TurnwiseError(f"metric '{entry.name}': option {key}={text}: {problem}") from None


def _coerce(text: str, wanted: Any) -> Any:
    """Return the value of an option's text, by the type that the metric declares for it."""
    if typing.get_origin(wanted) in (types.UnionType, typing.Union):
        *others, wanted = (choice for choice in typing.get_args(wanted) if choice is not type(None))
        for choice in others:
            with suppress(ValueError):
                return _coerce(text, choice)
    if wanted is bool:
        if text.lower() not in {"true", "false"}:
            raise ValueError("write true or false")
        return text.lower() == "true"
    if wanted is int or wanted is float:
        try:
            if math.isfinite(float(text)):
                return wanted(text)
        except ValueError:
            pass
        raise ValueError(f"write {'a whole number' if wanted is int else 'a number'}")
    if typing.get_origin(wanted) is tuple:
        return tuple(_coerce(part, typing.get_args(wanted)[0]) for part in split_list(text, "/"))
    if typing.get_origin(wanted) is Literal:
        choices = typing.get_args(wanted)
        if text not in choices:
            raise ValueError(f"choose one of {', '.join(map(str, choices))}")
        return text
    return text


# --- groups ---------------------------------------------------------------------------------------------

CLASSIC = (
    *("length", "distinct-1", "distinct-2", "f1"),
    *("bleu-1", "bleu-2", "bleu-3", "bleu-4", "rouge-l", "meteor"),
)
USR = ("usr", "usr-mlm", "usr-dr-c", "usr-dr-f")
USL_H = ("usl-h", "vup", "nup", "usr-dr-c", "mlm-likelihood")
DEFAULT = ("usr", "usl-h", "maude", "coherence", "fluency", "length", "distinct-2", "fbd")
# What a file offers if it compares systems: without a second one a distance between distributions says little.
SYSTEMS = "systems"
# A group is filtered by what the file offers; a metric asked for by name is not.
GROUPS: dict[str, Callable[[], Sequence[str]]] = {
    "classic": lambda: CLASSIC,
    "default": lambda: DEFAULT,
    "usr+": lambda: USR,
    "usl-h+": lambda: USL_H,
    "all": METRICS.names,
}


def members(group: str, offered: frozenset[str], roles: frozenset[str]) -> Sequence[str]:
    """Return the names that a group stands for; without any model the default is the classic group."""
    if group != "default":
        return GROUPS[group]()
    return [name for name in DEFAULT if name != "fbd" or SYSTEMS in offered] if roles else CLASSIC


def as_asked(metrics: Asked) -> list[str | Metric]:
    """Return the requests and metrics one by one."""
    if isinstance(metrics, Metric):
        return [metrics]
    if isinstance(metrics, str):
        return [*split_list(metrics)]
    wanted = list(metrics) if isinstance(metrics, Iterable) else [metrics]
    for item in wanted:
        if not isinstance(item, str | Metric):
            raise TurnwiseError(f"`metrics`: expected names or metrics, got {item!r}. Fix: give a string or a metric.")
    return wanted


def expand(metrics: Asked, offered: frozenset[str], roles: frozenset[str] = frozenset()) -> dict[str, Metric]:
    """Return the metrics by key: a request as it is written, or the plain form of an instance.

    A group stands for those of its metrics whose needs and models are offered.
    """
    wanted = as_asked(metrics)
    chosen: dict[str, Metric] = {}
    for request in wanted:
        if isinstance(request, Metric):
            key = plain_form(request) if request.name in METRICS else request.name
            if chosen.setdefault(key, request) != request:
                raise TurnwiseError(f"`metrics`: two different metrics are called '{key}'. Fix: give one another name.")
        elif request in GROUPS:
            candidates = {name: load_metric(name) for name in answerable(members(request, offered, roles), roles)}
            met = {n: m for n, m in candidates.items() if m.needs <= offered and m.roles <= roles}
            chosen |= {name: metric for name, metric in met.items() if name not in chosen}
        else:
            chosen.setdefault(request, load_metric(request))
    if not chosen:
        groups = [name for name in wanted if isinstance(name, str) and name in GROUPS]
        missing = {role for name in groups for part in GROUPS[name]() for role in load_metric(part).roles}
        if absent := sorted(missing - roles):
            raise TurnwiseError(
                f"{', '.join(groups)} needs models that are not there: {', '.join(absent)}; give `models`"
            )
        raise TurnwiseError("no metric to compute: ask for one with `metrics`; see 'turnwise list metrics'")
    return chosen


def answerable(names: Iterable[str], roles: frozenset[str]) -> list[str]:
    """Metrics in the form that some models can answer: as they are, or one that asks fewer of them, if that helps."""
    return [lesser_form(load_metric(name), roles) or name for name in names]


def lesser_form(metric: Metric, roles: frozenset[str]) -> str | None:
    """Return the request for a form of a metric that some models can answer, where they can answer that form only.

    >>> lesser_form(load_metric("usl-h[likability=empathy]"), frozenset({"vup", "nup", "emotion"}))
    'usl-h[likability=empathy,sensible=nup]'
    """
    if not metric.fewer_roles or metric.roles <= roles:
        return None
    plain = plain_form(metric, without={metric.fewer_roles.partition("=")[0]})
    form = f"{plain[:-1]},{metric.fewer_roles}]" if plain.endswith("]") else f"{plain}[{metric.fewer_roles}]"
    return form if load_metric(form).roles <= roles else None


def usual_options(metric: Metric) -> dict[str, object]:
    """Return the options of a metric's mode, unless a request sets them."""
    usual: dict[str, object] = {field.name: field.default for field in dataclasses.fields(metric)}
    return {**usual, **metric.mode_options.get(metric.mode, {})}


def show_option(value: object) -> str:
    """Return an option's value as a request has it."""
    if isinstance(value, tuple):
        return "/".join(map(show_option, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- the table of metrics ------------------------------------------------------------------------------------


def list_metrics(offered: frozenset[str] | None = None) -> list[dict[str, str]]:
    """List the metrics.

    Args:
        offered: The roles that some models offer, to add those that a metric lacks there; default: not asked.

    Returns:
        One record per name: summary, level, needs, models, modes, options, direction, range, citation.

    >>> next(record["needs"] for record in list_metrics() if record["name"] == "f1")
    'response, references'
    """
    if offered is None:
        return [_record(entry) for entry in entries().values()]
    return [_record(entry) | _answered(entry.name, offered) for entry in entries().values()]


def _answered(name: str, offered: frozenset[str]) -> dict[str, str]:
    """Return what a metric lacks of some models, and the form of it that does without."""
    return {"lacks": ", ".join(lacking(name, offered)), "instead": lesser_form(load_metric(name), offered) or ""}


def lacking(request: str, offered: frozenset[str]) -> list[str]:
    """Return the roles that a metric asks and that are not offered; none where it can be computed.

    >>> lacking("length", frozenset()), lacking("usr-mlm", frozenset()), lacking("nup", frozenset({"nup"}))
    ([], ['masked-lm'], [])
    """
    return sorted(load_metric(request).roles - offered)


def _record(entry: Entry) -> dict[str, str]:
    metric = load_metric(entry.name)
    low, high = metric.range
    direction = {True: "higher is better", False: "lower is better", None: "no direction"}
    return {
        "name": entry.name,
        "summary": metric.summary,
        "level": metric.level,
        "needs": ", ".join(["response", *sorted(metric.needs)]),
        "models": ", ".join(sorted(metric.roles)),
        "modes": ", ".join(metric.modes),
        "options": _options(entry),
        "direction": direction[metric.higher_is_better],
        "range": f"{low:g} to {high:g}",
        "cite": metric.cite,
    }


def _options(entry: Entry) -> str:
    hidden = {"name", "mode", *entry.preset}
    shown = (option for option in dataclasses.fields(entry.cls) if option.name not in hidden)
    return ", ".join(f"{option.name}={show_option(option.default)}" for option in shown)
