"""Every tool can be started, and the recipe of the pack has no unknown option."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.mark.parametrize("path", sorted(TOOLS.rglob("*.py")), ids=lambda path: path.stem)
def test_it_says_how_it_is_used(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location(f"tool_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    assert doctest.testmod(module).failed == 0
    if hasattr(module, "main"):
        monkeypatch.setattr(sys, "argv", [str(path), "--help"])
        with pytest.raises(SystemExit, match="0"):
            module.main()
        assert "usage" in capsys.readouterr().out


def test_stages_have_known_options_and_start_from_known_models() -> None:
    from turnwise.train.config import Config

    recipe = importlib.import_module("recipe")
    known = {field.name for field in dataclasses.fields(Config)} | {"share"}
    for name in recipe.RECIPE["stages"]:
        stage = recipe.stage_of(name)
        assert set(stage) <= known
        assert stage["base"] in {*recipe.RECIPE["stages"], "minilm", "smollm2"}
