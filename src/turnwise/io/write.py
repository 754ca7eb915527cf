"""Examples back into the row format that `read` reads."""

from __future__ import annotations

from typing import Any

from turnwise.dialogue import Example


def example_to_dict(example: Example) -> dict[str, Any]:
    """Return the example as one native JSON object, without what it does not have.

    >>> example_to_dict(Example("Fine.", context=("Hi!",), id="1", system="bot"))
    {'id': '1', 'context': ['Hi!'], 'response': 'Fine.', 'system': 'bot'}
    """
    row = {
        "id": example.id,
        "context": list(example.context),
        "response": example.response,
        "references": list(example.references),
        "facts": list(example.facts),
        "system": example.system,
        "context_id": example.context_id,
        "dialogue_id": example.dialogue_id,
        "group": example.group,
        "speakers": list(example.speakers),
        "ratings": {quality: list(scores) for quality, scores in example.ratings.items()},
        "raters": list(example.raters),
        "rated": None if example.rated == "turn" else example.rated,
    }
    return {field: value for field, value in row.items() if value or field == "response"}
