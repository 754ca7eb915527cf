"""What can be asked of a pack about a response: each question worded as the models were trained to read it.

`turnwise pack measure` and the writers of new queries build their requests here, so that they do
not drift from the training. The metrics, which follow their papers in every detail, build their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnwise.models.requests import Classify, Continuation, MaskedLikelihood, TokenScores
from turnwise.text.inputs import context_text

# A feeling is often in answer to something; the emotion head learnt with this many turns before the response.
EMOTION_TURNS = 3


def next_utterance(context: Sequence[str], response: str, fact: str | None = None) -> Classify:
    """Is this what came next? The fact that the speaker knows may stand before the context.

    >>> next_utterance(["Hi!", "Any pets?"], "Two cats.").text
    'Hi! [SEP] Any pets?'
    """
    return Classify(context_text(context, fact), response, role="nup")


def about_fact(fact: str, response: str) -> Classify:
    """Is the response about this fact?"""
    return Classify(context_text((), fact), response, role="dr-f")


def valid_utterance(response: str) -> Classify:
    """Is this something that a person would say, whatever came before?"""
    return Classify(response, role="vup")


def contradiction(earlier: str, response: str) -> Classify:
    """Does the response contradict what its speaker said earlier?"""
    return Classify(earlier, response, role="nli")


def emotion(context: Sequence[str], response: str) -> Classify:
    """Does the response carry an emotion? The last turns before it may help to hear it.

    >>> emotion([], "Great!")
    Classify(text='Great!', pair=None, window=None, role='emotion')
    """
    before = context_text(context, kept=EMOTION_TURNS)
    return Classify(before, response, role="emotion") if before else Classify(response, role="emotion")


def likelihood(response: str) -> MaskedLikelihood:
    """How likely is each word of the response, given its other words?"""
    return MaskedLikelihood(response)


def coherence(query: str, response: str) -> Continuation:
    """How likely is the response after the query?"""
    return Continuation(query, " " + response)


def fluency(response: str, begin: bool = True) -> Continuation:
    """How likely is the response on its own? Without `begin` its first token is given and not judged."""
    return Continuation("", response, begin)


def own_last_turn(context: Sequence[str]) -> str | None:
    """What the speaker of the response said last, if speakers take turns.

    >>> own_last_turn(["Any pets?", "No.", "Really?"])
    'No.'
    """
    return context[-2] if len(context) > 1 else None


def yes(answer: Mapping[str, float]) -> float:
    """The probability that a yes-or-no question is answered with yes, which is the last label.

    >>> yes({"other": 0.25, "next": 0.75})
    0.75
    """
    return list(answer.values())[-1]


def total(answer: TokenScores) -> float:
    """The log-probability of all tokens together."""
    return sum(answer.log_probs)


def mean(answer: TokenScores) -> float | None:
    """The mean log-probability of a token; None where there is no token."""
    return sum(answer.log_probs) / len(answer.log_probs) if answer.log_probs else None
