"""turnwise scores open-domain dialogue: how good is each turn, each dialogue, each system, and how sure are we?

The verbs are imported when first used, so that `import turnwise` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnwise.dialogue import Example
    from turnwise.errors import TurnwiseError
    from turnwise.metrics.base import Metric, Score
    from turnwise.metrics.registry import load_metric
    from turnwise.models.pack import load_pack
    from turnwise.verbs.agree import agreement
    from turnwise.verbs.augment import augment
    from turnwise.verbs.compare import compare
    from turnwise.verbs.evaluate import Result, evaluate
    from turnwise.verbs.fit import fit
    from turnwise.verbs.metaevaluate import metaevaluate
    from turnwise.verbs.normality import normality
    from turnwise.verbs.perturb import perturb
    from turnwise.verbs.select import select

__version__ = "0.1.0"

_HOMES = {
    "Example": "turnwise.dialogue",
    "TurnwiseError": "turnwise.errors",
    "Metric": "turnwise.metrics.base",
    "Score": "turnwise.metrics.base",
    "load_metric": "turnwise.metrics.registry",
    "load_pack": "turnwise.models.pack",
    "Result": "turnwise.verbs.evaluate",
    "evaluate": "turnwise.verbs.evaluate",
    "compare": "turnwise.verbs.compare",
    "fit": "turnwise.verbs.fit",
    "metaevaluate": "turnwise.verbs.metaevaluate",
    "select": "turnwise.verbs.select",
    "agreement": "turnwise.verbs.agree",
    "augment": "turnwise.verbs.augment",
    "perturb": "turnwise.verbs.perturb",
    "normality": "turnwise.verbs.normality",
}

__all__ = [
    "Example",
    "Metric",
    "Result",
    "Score",
    "TurnwiseError",
    "__version__",
    "agreement",
    "augment",
    "compare",
    "evaluate",
    "fit",
    "load_metric",
    "load_pack",
    "metaevaluate",
    "normality",
    "perturb",
    "select",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'turnwise' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
