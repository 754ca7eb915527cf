"""Requests about a response, worded as the bundled models were trained to read them.

`turnwise pack measure` and the writers of new queries build their requests here, so that they do
not drift from the training. The metrics, which follow their papers in every detail, build their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnwise.models.requests import Classify, Continuation, MaskedLikelihood, TokenScores
from turnwise.text.inputs import context_text

# The emotion head was trained with this many turns before the response.
EMOTION_TURNS = 3


def next_utterance(context: Sequence[str], response: str, fact: str | None = None) -> Classify:
    """Build the request for the probability that a response comes next; a fact can precede the context.

    >>> next_utterance(["Hi!", "Any pets?"], "Two cats.").text
    'Hi! [SEP] Any pets?'
    """
    return Classify(context_text(context, fact), response, role="nup")


def about_fact(fact: str, response: str) -> Classify:
    """Build the request for the probability that a response is about a fact."""
    return Classify(context_text((), fact), response, role="dr-f")


def valid_utterance(response: str) -> Classify:
    """Build the request for the probability that an utterance is valid by itself."""
    return Classify(response, role="vup")


def contradiction(earlier: str, response: str) -> Classify:
    """Build the request for the probability that a response contradicts an earlier utterance."""
    return Classify(earlier, response, role="nli")


def emotion(context: Sequence[str], response: str) -> Classify:
    """Build the request for the probability that a response carries an emotion, after its last turns.

    >>> emotion([], "Great!")
    Classify(text='Great!', pair=None, window=None, role='emotion')
    """
    before = context_text(context, kept=EMOTION_TURNS)
    return Classify(before, response, role="emotion") if before else Classify(response, role="emotion")


def likelihood(response: str) -> MaskedLikelihood:
    """Build the request for the likelihood of each token of a response, given all others."""
    return MaskedLikelihood(response)


def coherence(query: str, response: str) -> Continuation:
    """Build the request for the likelihood of a response after a query."""
    return Continuation(query, " " + response)


def fluency(response: str, begin: bool = True) -> Continuation:
    """Build the request for the likelihood of a response alone; without `begin` its first token is not scored."""
    return Continuation("", response, begin)


def own_last_turn(context: Sequence[str]) -> str | None:
    """Return the last turn of the response's speaker, if speakers alternate.

    >>> own_last_turn(["Any pets?", "No.", "Really?"])
    'No.'
    """
    return context[-2] if len(context) > 1 else None


def yes(answer: Mapping[str, float]) -> float:
    """Return the probability of the last label, which is the positive one.

    >>> yes({"other": 0.25, "next": 0.75})
    0.75
    """
    return list(answer.values())[-1]


def total(answer: TokenScores) -> float:
    """Return the log-probability of all tokens together."""
    return sum(answer.log_probs)


def mean(answer: TokenScores) -> float | None:
    """Return the mean log-probability of a token; None without tokens."""
    return sum(answer.log_probs) / len(answer.log_probs) if answer.log_probs else None
