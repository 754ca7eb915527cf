"""PONE (Lan et al. 2020): BERT-RUBER's network, taught with wrong responses that resemble the right one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from turnwise.metrics.registry import register
from turnwise.metrics.ruber import BertRuber


@register({"pone": {}})
@dataclass(frozen=True, kw_only=True)
class Pone(BertRuber):
    """EN-PONE, the form with enhanced negatives alone, which USL-H's tables have."""

    summary: ClassVar[str] = "BERT-RUBER, taught to tell the response from similar ones"
    cite: ClassVar[str] = (
        "Lan et al. 2020, PONE: A Novel Automatic Evaluation Metric for Open-Domain Generative Dialogue"
    )
    roles: ClassVar[frozenset[str]] = frozenset({"pone", "encoder"})
