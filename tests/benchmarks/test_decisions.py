"""The simulation of decisions on few draws: what must never happen does not, and the page shows every cell."""

from __future__ import annotations

from pathlib import Path

from benchmarks import decisions


def test_smoke(tmp_path: Path) -> None:
    found = decisions.run(tmp_path, draws=60, only="null: 2 systems")
    assert list(found["null"]) == [f"2 systems, {n} contexts" for n in (3, 8, 30, 200)]
    for cell in found["null"].values():
        assert cell["contradictions"] == 0
        assert cell["verdicts"] <= 0.15
    margin = decisions.run(tmp_path, draws=60, only="margin: ties")
    assert margin["margin"]["ties, 30 contexts"]["equivalent"] <= 0.15
    anchored = decisions.run(tmp_path, draws=20, only="anchored: these rows: 50 of 400 rated, good")
    assert anchored["anchored"]["these rows: 50 of 400 rated, good"]["width"] < 1
    # Finished cells are kept.
    before = (tmp_path / "decisions.json").read_bytes()
    assert decisions.main(["--draws", "60", "--out", str(tmp_path), "--only", "null: 2 systems"]) == 0
    assert (tmp_path / "decisions.json").read_bytes() == before
    page = (tmp_path / "decisions.md").read_text()
    assert "| 2 systems, 200 contexts |" in page
    assert "## Anchored" in page


def test_corpora_are_read(tmp_path: Path) -> None:
    rows = [[row % 7, row % 5, f"c{row // 2}"] for row in range(120)]
    (tmp_path / "one.json").write_text(str({"rows": rows}).replace("'", '"'))
    found = decisions.run(tmp_path / "out", draws=20, only="corpora", corpora=tmp_path)
    assert found["corpora"]["one"]["rows"] == 120
    assert found["corpora"]["one"]["rows: coverage"] > 0.5
