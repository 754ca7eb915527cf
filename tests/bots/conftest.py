"""Toy models, as the metrics' tests have them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_PATH = Path(__file__).parents[1] / "metrics" / "toy_models.py"
_SPECIFICATION = importlib.util.spec_from_file_location("bots_toy_models", _PATH)
assert _SPECIFICATION is not None
assert _SPECIFICATION.loader is not None
_MODULE = importlib.util.module_from_spec(_SPECIFICATION)
sys.modules[_SPECIFICATION.name] = _MODULE
_SPECIFICATION.loader.exec_module(_MODULE)

checkpoints, toy, toy_pack = _MODULE.checkpoints, _MODULE.toy, _MODULE.toy_pack
