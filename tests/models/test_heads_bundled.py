"""The bundled pack's MAUDE and baselines know a sensible reply from a senseless one."""

from __future__ import annotations

import pytest

from turnwise.dialogue import Example
from turnwise.engine.score import judge_examples
from turnwise.engine.session import Session
from turnwise.metrics.registry import load_metric
from turnwise.models.pack import load_pack

# Context, a reply that belongs to it, and two that do not: what belongs elsewhere, and broken words.
TALKS = (
    (
        ("hi ! do you have any pets ?", "yes , i have two dogs . what about you ?"),
        "i have a cat , she is very lazy .",
        "the train to london leaves at nine .",
        "cat a lazy have , she very i is .",
    ),
    (
        ("what do you do for a living ?", "i am a nurse in a hospital . it is hard work ."),
        "that sounds tough . do you work at night too ?",
        "i would like the soup and a glass of wine , please .",
        "night too you tough do sounds . that at work ?",
    ),
    (
        ("i am so sad , my grandmother died last week .",),
        "i am sorry to hear that . were you close to her ?",
        "my favorite band is playing here on friday !",
        "her sorry hear i were that close . am you to to ?",
    ),
    (
        ("any plans for the weekend ?", "we want to go hiking in the mountains ."),
        "great idea , i hope the weather will be nice .",
        "the new phone has a better camera than the old one .",
        "nice weather hope idea be , great the will i .",
    ),
)
# MAUDE, InferSent and DistilBERT-NLI have learnt from broken replies too; the others only from other people's.
HEARS_BREAKS = ("maude", "infersent", "bert-nli")


def scores(request: str, role: str) -> list[tuple[float, float, float]]:
    """Of each talk: what belongs, what belongs elsewhere, what is broken."""
    if role not in load_pack().manifest.roles:
        pytest.skip(f"the bundled pack has no role '{role}'")
    examples = [Example(reply, context) for context, *replies in TALKS for reply in replies]
    judged = judge_examples(examples, {"it": load_metric(request)}, Session(cache="off").answer)
    values = [row["it"].value or 0.0 for row in judged]
    return [(values[i], values[i + 1], values[i + 2]) for i in range(0, len(values), 3)]


@pytest.mark.parametrize("role", ["maude", "ruber", "bert-ruber", "pone", "infersent", "bert-nli"])
def test_a_reply_that_belongs_scores_above_one_that_does_not(role: str) -> None:
    request = role if role in HEARS_BREAKS else f"{role}[blend=unreferenced]"
    found = scores(request, role)
    assert all(belongs > elsewhere for belongs, elsewhere, _ in found), found
    if role in HEARS_BREAKS:
        assert all(belongs > broken for belongs, _, broken in found), found


def test_skip_thought_finds_a_likeness_where_there_is_one() -> None:
    if "skip-thought" not in load_pack().manifest.roles:
        pytest.skip("the bundled pack has no role 'skip-thought'")
    close = Example("i have got a dog and a cat .", references=("i have two dogs and a cat .",))
    far = Example("the train leaves at nine .", references=close.references)
    near, apart = judge_examples([close, far], {"it": load_metric("skip-thought")}, Session(cache="off").answer)
    assert (near["it"].value or 0.0) > (apart["it"].value or 0.0)
