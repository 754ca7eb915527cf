"""What the metrics that ask a masked language model share: their requests, and what they make of the answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from turnwise.dialogue import Example
from turnwise.metrics.base import Score, TurnMetric
from turnwise.metrics.registry import METRICS, option_types
from turnwise.models.quality import yes
from turnwise.models.requests import MaskedLikelihood, TokenScores, Window
from turnwise.problems import Problem
from turnwise.text.inputs import SEPARATOR
from turnwise.text.tokenise import lower_words

Scope = Literal["all", "response", "response+eos"]
Reduction = Literal["mean", "sum"]
# The side on which a text that is too long is cut.
Truncation = Literal["start", "end"]
# A token of a text, or of both texts of a pair, and those of the template around them.
SHORTEST, SHORTEST_PAIR = 3, 5

NOTHING_TO_JUDGE = Problem.of("score.no_tokens")
NO_FAST_PART = "option fast=true: none of its parts has a fast form; leave it out"


def surprisals(answer: TokenScores) -> tuple[tuple[str, float], ...]:
    """Return each token with what it costs: its negative log-likelihood in nats.

    >>> surprisals(TokenScores(("tea",), (-1.5,)))
    (('tea', 1.5),)
    """
    return tuple((token, -value) for token, value in zip(answer.tokens, answer.log_probs, strict=True))


class Likelihood(TurnMetric):
    """Judge a text by its log-likelihood and its number of tokens."""

    @abstractmethod
    def value(self, total: float, tokens: int) -> float:
        """Return the value of a summed log-likelihood."""

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        answer: TokenScores = answers[0]
        if not answer.tokens:
            return Score(None, note=NOTHING_TO_JUDGE)
        total, tokens = sum(answer.log_probs), len(answer.tokens)
        parts = {"tokens": float(tokens), "log-likelihood": total}
        return Score(self.value(total, tokens), parts, tokens=surprisals(answer))


class Probability(TurnMetric):
    """Judge a response by the probability of the positive label of one classifier."""

    range = (0.0, 1.0)

    def judge(self, example: Example, answers: Sequence[Any] = ()) -> Score:
        return Score(yes(answers[0]))


def fast_form(request: str) -> str:
    """Return the request for a metric's fast form; a metric that has none stays as it is.

    >>> fast_form("usr-mlm:paper[sign=1]"), fast_form("mlm-nce"), fast_form("vup")
    ('usr-mlm:paper[sign=1,fast=true]', 'mlm-nce[fast=true]', 'vup')
    """
    name = request.partition("[")[0].partition(":")[0].strip()
    if name not in METRICS or "fast" not in option_types(METRICS.get(name)):
        return request
    return f"{request[:-1]},fast=true]" if request.endswith("]") else f"{request}[fast=true]"


def last_turns(context: Sequence[str], turns: str) -> Sequence[str]:
    """Return the last turns of a context, as many as an option says: a number, or `all`.

    >>> last_turns(["a", "b", "c"], "2"), last_turns(["a", "b"], "all")
    (['b', 'c'], ['a', 'b'])
    """
    return context if turns == "all" else context[len(context) - min(int(turns), len(context)) :]


def check_turns(turns: str, least: int = 1) -> None:
    """Refuse what `last_turns` cannot read."""
    if turns != "all" and not (turns.isascii() and turns.isdigit() and int(turns) >= least):
        raise ValueError(f"option turns={turns}: write a whole number from {least} up, or all")


def check_length(length: int | None, least: int, option: str = "max_length") -> None:
    """Refuse a length, in tokens, that leaves no room for a word beside the template's own tokens."""
    if length is not None and length < least:
        raise ValueError(f"option {option}={length}: write a whole number from {least} up")


def as_published(text: str) -> str:
    """Text as the USR corpora come: lower case, words and marks apart.

    >>> as_published("I can't wait!")
    "i ca n't wait !"
    """
    return " ".join(lower_words(text))


def split_separators(separators: Sequence[str]) -> tuple[str, str]:
    """Return the words that end an utterance and open the response; the second may be left out.

    >>> split_separators(("_eos", "_go")), split_separators(("|",))
    (('_eos', '_go'), ('|', ''))
    """
    eos, go = (*separators, "")[:2]
    return eos, go


def check_separators(separators: Sequence[str]) -> None:
    """Refuse more words than end an utterance and open the response."""
    if len(separators) > 2:
        raise ValueError(f"option separators={'/'.join(separators)}: write one or two words with / between them")


def dialogue_request(
    turns: Sequence[str],
    response: str,
    *,
    scope: Scope = "response",
    separators: Sequence[str] = (),
    max_length: int | None = None,
    truncation: Truncation | None = None,
    fast: bool = False,
) -> MaskedLikelihood:
    """Asks for the tokens of a response after its context, or of both; `fast` for all in one pass, unmasked.

    Without separators the two are the model's own pair, and a text that is too long loses the beginning of its
    context. With separators everything is one text, as USR has it, and one that is too long keeps its last tokens.
    With `truncation="end"` ends are cut instead.
    """
    if not separators:
        span = None if scope == "all" else (0, len(response))
        pair = Window(total=max_length, keep="start" if truncation == "end" else "end")
        window = None if max_length is None and truncation is None else pair
        return MaskedLikelihood(SEPARATOR.join(turns), response, span, window, masked=not fast)
    eos, go = split_separators(separators)
    before = " ".join([*(word for turn in turns for word in (turn, eos)), *([go] if go else [])])
    text = " ".join([before, response, eos])
    # From the space before the response on: some tokenizers count it to the first word.
    end = len(text) if scope == "response+eos" else len(before) + 1 + len(response)
    span = None if scope == "all" else (len(before), end)
    window = Window(max_length, keep="start" if truncation == "end" else "last")
    return MaskedLikelihood(text, span=span, window=window, masked=not fast)
