"""Every option of a training run, with the defaults that made the bundled models."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from turnwise.errors import TurnwiseError
from turnwise.models.text import read_tokenizer
from turnwise.text.corrupt import Rules
from turnwise.text.inputs import CONTEXT_TOKENS, RESPONSE_TOKENS
from turnwise.train.sampling import Mix

# The method of picking the fact that a response is about: shared words, or the bundled encoder.
FactsBy = Literal["words", "meaning"]
CLASSIFIERS = ("nup", "dr-f", "vup", "nli", "emotion")
OBJECTIVES = ("mlm", *CLASSIFIERS, "clm")
# The model types that an objective can start from; all known types if it is not listed.
KINDS = {"mlm": ("bert",), "clm": ("llama",)}
LEARNING_RATE = {"mlm": 3e-4, "clm": 3e-4}
# The least value of every option that counts something: a row of one token has none to predict.
LEAST = dict.fromkeys(("steps", "batch", "chunks", "validate", "context_tokens", "response_tokens"), 1)
LEAST |= {"keep_layers": 1, "grow_layers": 1, "vocabulary": 1, "taught": 1, "packed": 2}
SHARES = (
    *("held_out", "warmup", "dropout", "average"),
    *("fact_share", "restyle", "exchanges", "teacher_share", "reply_share"),
)
# An odd number lies evenly around zero; a pack stores at most fifteen.
LEVELS = range(3, 16, 2)
# [CLS] before a pair of texts, and [SEP] after each.
MARKS = 3


@dataclass(frozen=True, kw_only=True)
class Config:
    """A training run. Classifiers can share one trunk: `objective="vup+nli+emotion"`."""

    objective: str
    data: tuple[Path, ...]
    out: Path
    base: Path
    evaluation: tuple[Path, ...] = ()
    pairs: tuple[Path, ...] = ()
    minutes: float | None = None
    steps: int = 20_000
    batch: int = 512
    learning_rate: float | None = None
    warmup: float = 0.04
    weight_decay: float = 0.01
    dropout: float = 0.1
    average: float = 0.999
    freeze_words: bool = True
    seed: int = 0
    # The number of the first batch: a run that continues another draws new examples of the same dialogues.
    first_batch: int = 0
    held_out: float = 0.02
    corpus_power: float = 0.5
    corpus_weights: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    mix: Mix = field(default_factory=Mix)
    corruption: Rules = field(default_factory=Rules)
    fact_share: float = 0.5
    facts_by: FactsBy = "words"
    emotions_from: str = ""
    restyle: float = 0.35
    context_tokens: int = CONTEXT_TOKENS
    response_tokens: int = RESPONSE_TOKENS
    chunks: int = 2
    workers: int = 0
    validate: int = 1000
    save_every: float = 120.0
    # One classifier or several; for a causal model, one causal model.
    teacher: tuple[Path, ...] = ()
    teacher_share: float = 0.7
    taught: int | None = None
    replies: Path | None = None
    reply_share: float = 0.25
    keep_layers: int | None = None
    vocabulary: int | None = None
    grow_layers: int | None = None
    contrast: float = 0.0
    # The weight of a difference of one nat per token; a smaller weight separates responses further.
    sharpness: float = 4.0
    # For a causal model: the levels that its weights may take in a pack, an odd number.
    levels: int | None = None
    # The share of its texts that are an utterance and its reply alone, as one sentence.
    exchanges: float = 0.0
    # The length of rows that hold its texts end to end without padding; default: one text per row.
    packed: int | None = None
    compile: bool = False
    device: str = "auto"

    @classmethod
    def make(
        cls, objective: str, *, data: Sequence[str | Path], out: str | Path, base: str | Path, **options: Any
    ) -> Config:
        """Return a checked configuration from plain values, as the command line or a JSON file gives them."""
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise TurnwiseError(f"training options: expected {', '.join(sorted(known))}, got {unknown[0]!r}")
        if isinstance(options.get("teacher"), str | Path):
            options["teacher"] = [options["teacher"]]
        for name in ("evaluation", "pairs", "teacher"):
            options[name] = tuple(Path(path) for path in options.get(name) or ())
        if options.get("replies"):
            options["replies"] = Path(options["replies"])
        for name, kind in (("mix", Mix), ("corruption", Rules)):
            if isinstance(options.get(name), Mapping):
                options[name] = _nested(name, kind, options[name])
        config = cls(
            objective=objective, data=tuple(Path(path) for path in data), out=Path(out), base=Path(base), **options
        )
        config.check()
        return config._fitted("context_tokens" in options)

    def check(self) -> None:
        """Refuse a configuration that cannot be trained."""
        for part in self.parts:
            if part not in OBJECTIVES:
                raise TurnwiseError(f"objective: expected {', '.join(OBJECTIVES)}, got {part!r}")
        if len(self.parts) > 1 and not set(self.parts) <= set(CLASSIFIERS):
            raise TurnwiseError(f"objective: only {', '.join(CLASSIFIERS)} can share a trunk, got {self.objective!r}")
        if not self.data:
            raise TurnwiseError("data: expected at least one file of dialogues, got none")
        if self.facts_by not in get_args(FactsBy):
            raise TurnwiseError(f"facts_by: expected {' or '.join(get_args(FactsBy))}, got {self.facts_by!r}")
        if self.replies and not self.teacher:
            raise TurnwiseError("replies: expected a teacher, got none. Fix: name a teacher that labels them")
        self._check_numbers()
        for file in ("config.json", "tokenizer.json"):
            if not (self.base / file).is_file():
                raise TurnwiseError(f"{self.base}: no {file}; `base` must be a folder with a model to start from")
        read_tokenizer((self.base / "tokenizer.json").read_bytes(), self.base / "tokenizer.json")
        kinds, kind = KINDS.get(self.objective, ("bert", "llama")), str(_described(self.base)["model_type"])
        if kind not in kinds:
            raise TurnwiseError(
                f"{self.base}: a model of type {kind}; {self.objective} starts from {' or '.join(kinds)}"
            )
        self._check_size(_described(self.base))
        for folder in self.teacher:
            if not (folder / "config.json").is_file():
                raise TurnwiseError(f"{folder}: no config.json; a teacher must be a folder of 'turnwise train'")
        if self.objective == "clm" and len(self.teacher) > 1:
            raise TurnwiseError(f"teacher: expected one for a causal model, got {len(self.teacher)}")

    def _check_numbers(self) -> None:
        def check(name: str, expected: str, fits: Callable[[Any], bool]) -> None:
            given = getattr(self, name)
            absent = given is None and getattr(Config, name) is None
            number = isinstance(given, int | float) and not isinstance(given, bool)
            if not absent and not (number and fits(given)):
                raise TurnwiseError(f"{name}: expected {expected}, got {given!r}")

        for name, least in LEAST.items():
            check(name, f"a whole number of at least {least}", partial(_at_least, least))
        for name in SHARES:
            check(name, "a number from 0 to 1", lambda share: 0 <= share <= 1)
        for name in ("minutes", "sharpness"):
            check(name, "a number above 0", lambda number: number > 0)
        check("levels", f"an odd number from {LEVELS[0]} to {LEVELS[-1]}", LEVELS.__contains__)

    def _check_size(self, base: Mapping[str, Any]) -> None:
        """Refuse more layers than the base has, and rows that are longer than it can read."""
        for name, most in (("keep_layers", "num_hidden_layers"), ("packed", "max_position_embeddings")):
            given, limit = getattr(self, name), base.get(most)
            if given is not None and isinstance(limit, int) and given > limit:
                raise TurnwiseError(f"{name}: expected at most {limit} ({most} of the base), got {given}")

    def _fitted(self, asked: bool) -> Config:
        """Return the configuration with contexts cut to the models' positions, unless that length was requested."""
        room = min(map(_positions, self.models)) - self.response_tokens - MARKS
        if room >= self.context_tokens:
            return self
        if asked or room < 1:
            lengths = f"{self.context_tokens} tokens of context and {self.response_tokens} of response"
            raise TurnwiseError(
                f"{' or '.join(map(str, self.models))}: too few positions for {lengths}. "
                "Fix: give smaller context_tokens and response_tokens in the file of `options`"
            )
        return dataclasses.replace(self, context_tokens=int(room))

    @property
    def models(self) -> list[Path]:
        """Return the folders of all models that read the examples: the base and the teachers."""
        return [self.base, *self.teacher]

    def drawing(self, index: int, what: str = "") -> Random:
        """Return the generator that a batch is drawn from."""
        return Random(f"{self.seed}:{what}{self.first_batch + index}")

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the objectives that are trained together."""
        return tuple(self.objective.split("+"))

    @property
    def rate(self) -> float:
        """Return the learning rate in force."""
        return self.learning_rate or LEARNING_RATE.get(self.objective, 1e-4)

    def record(self) -> dict[str, Any]:
        """Return the configuration as JSON can hold it; files by name alone."""
        plain = dataclasses.asdict(self)
        for key, value in plain.items():
            if isinstance(value, Path):
                plain[key] = value.name
            elif isinstance(value, tuple):
                plain[key] = [item.name if isinstance(item, Path) else item for item in value]
        return plain


def _nested(name: str, kind: type[Any], given: Mapping[str, Any]) -> Any:
    """Return the options that an option groups; refuse unknown names and impossible values."""
    known = [of.name for of in dataclasses.fields(kind)]
    if unknown := sorted(set(given) - set(known)):
        raise TurnwiseError(f"{name}: expected {', '.join(known)}, got {unknown[0]!r}")
    try:
        return kind(**given)
    except (TypeError, ValueError) as problem:
        raise TurnwiseError(f"{name}: {problem}") from None


def _at_least(least: int, given: float) -> bool:
    return isinstance(given, int) and given >= least


def _positions(folder: Path) -> float:
    """Return the number of positions of the model in a folder; infinite for rotary positions."""
    described = _described(folder)
    try:
        return math.inf if described["model_type"] == "llama" else int(described.get("max_position_embeddings", 512))
    except (ValueError, TypeError) as problem:
        raise TurnwiseError(f"{folder / 'config.json'}: not the configuration of a model ({problem})") from None


def _described(folder: Path) -> dict[str, Any]:
    """Return the configuration of the model in a folder, which has at least a model type."""
    try:
        described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return {"model_type": described["model_type"], **described}
    except (ValueError, KeyError, TypeError) as problem:
        raise TurnwiseError(f"{folder / 'config.json'}: not the configuration of a model ({problem})") from None
