"""turnwise scores open-domain dialogue: how good is each turn, each dialogue, each system, and how sure are we?

The functions are imported when first used, so that `import turnwise` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnwise.analyses.agreement import agreement
    from turnwise.analyses.augment import augment
    from turnwise.analyses.compare import compare
    from turnwise.analyses.config import load_config, save_config
    from turnwise.analyses.distances import normality, perturb
    from turnwise.analyses.evaluate import Result, evaluate
    from turnwise.analyses.experiment import plan, sample
    from turnwise.analyses.fit import fit
    from turnwise.analyses.metaevaluate import metaevaluate
    from turnwise.analyses.select import count_votes, select
    from turnwise.analyses.shards import merge
    from turnwise.analyses.verify import verify
    from turnwise.dialogue import Example
    from turnwise.errors import TurnwiseError
    from turnwise.metrics.base import Metric, Score
    from turnwise.metrics.registry import list_metrics, load_metric
    from turnwise.models.export.build_pack import build_pack
    from turnwise.models.pack import load_pack
    from turnwise.reproduce.pages import reproduce_paper
    from turnwise.train import train_model

__version__ = "0.1.0"

_HOMES = {
    "Example": "turnwise.dialogue",
    "TurnwiseError": "turnwise.errors",
    "Metric": "turnwise.metrics.base",
    "Score": "turnwise.metrics.base",
    "load_metric": "turnwise.metrics.registry",
    "load_pack": "turnwise.models.pack",
    "Result": "turnwise.analyses.evaluate",
    "evaluate": "turnwise.analyses.evaluate",
    "compare": "turnwise.analyses.compare",
    "fit": "turnwise.analyses.fit",
    "plan": "turnwise.analyses.experiment",
    "sample": "turnwise.analyses.experiment",
    "metaevaluate": "turnwise.analyses.metaevaluate",
    "select": "turnwise.analyses.select",
    "agreement": "turnwise.analyses.agreement",
    "augment": "turnwise.analyses.augment",
    "perturb": "turnwise.analyses.distances",
    "normality": "turnwise.analyses.distances",
    "merge": "turnwise.analyses.shards",
    "verify": "turnwise.analyses.verify",
    "load_config": "turnwise.analyses.config",
    "save_config": "turnwise.analyses.config",
    "count_votes": "turnwise.analyses.select",
    "list_metrics": "turnwise.metrics.registry",
    "train_model": "turnwise.train",
    "build_pack": "turnwise.models.export.build_pack",
    "reproduce_paper": "turnwise.reproduce.pages",
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
    "build_pack",
    "compare",
    "count_votes",
    "evaluate",
    "fit",
    "list_metrics",
    "load_config",
    "load_metric",
    "load_pack",
    "merge",
    "metaevaluate",
    "normality",
    "perturb",
    "plan",
    "reproduce_paper",
    "sample",
    "save_config",
    "select",
    "train_model",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'turnwise' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
