"""Small corpora made for the tests."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def two_systems() -> list[dict[str, Any]]:
    """Twelve contexts; `good` repeats the reference, `bad` answers with something else."""
    rows = []
    for number in range(12):
        reference = f"i planted {number} tomatoes in the garden"
        for system, response in (("good", reference), ("bad", f"no idea what {number} means")):
            rows.append(
                {
                    "id": f"{number}-{system}",
                    "context_id": str(number),
                    "context": [f"what did you do on day {number} ?"],
                    "response": response,
                    "references": [reference],
                    "system": system,
                    "ratings": {"Overall": [5, 4] if system == "good" else [1, 2]},
                    "raters": ["ana", "ben"],
                }
            )
    return rows
