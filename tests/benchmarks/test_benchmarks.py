"""The benchmark command, tiny: every part of it runs, and both ways come to the same scores."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the naive way is torch's: pip install 'turnwise[torch]'")
pytest.importorskip("transformers", reason="the naive way needs transformers: pip install 'turnwise[torch]'")

from benchmarks.__main__ import main

from benchmarks import gpu


@pytest.mark.slow
def test_the_smoke_run_measures_everything_and_scores_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # bert-score takes a model for a T5 whose address says so, as that of a scratch folder may.
    (tmp_path / "xt5x").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "xt5x"))
    assert main(["--smoke", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "speed.json").read_text())
    assert {side["metric"] for side in found["sides"]} >= {"usr-mlm", "usr-dr-c", "maude", "coherence"}
    for side in found["sides"]:
        assert side["ours"] > 0
        assert side["theirs"] > 0
        if side["weights"] == "fp32":
            assert side["difference"] < 1e-3, side["metric"]
    assert found["together"]["overhead"] >= 1
    assert all(run["mib"] > 0 for runs in found["command"].values() for run in runs)
    assert found["rows"]["classic, all"].keys() == {"11", "22"}
    packages = {"bert_score": "bert-score", "sentence_transformers": "CrossEncoder", "minicons": "minicons"}
    there = {name for module, name in packages.items() if module not in found["absent"]}
    assert {side["against"] for side in found["sides"]} == {"naive", "naive, unpadded", *there}
    page = (tmp_path / "speed.md").read_text()
    assert "| usr-mlm | fp32 | naive |" in page
    assert "ranks of int8 say nothing" in page


@pytest.mark.slow
def test_the_gpu_benchmark_runs_where_there_is_none(tmp_path: Path) -> None:
    out = tmp_path / "gpu.json"
    gpu.main(["--device", "cpu", "--size", "tiny", "--count", "12", "--seconds", "0.1", "--out", str(out)])
    found = json.loads(out.read_text())
    assert list(found["sizes"]["tiny"]) == list(gpu.METRICS)
    assert all(one["tflops"] > 0 for one in found["sizes"]["tiny"].values())


def test_operations_are_counted_by_hand() -> None:
    from turnwise.models.kinds import TokenRow

    sizes = {"width": 2, "inner": 8, "layers": 1, "words": 10, "shared": 1.0, "matrices": 2, "kind": "masked-lm"}
    row = TokenRow((1, 2, 3), places=(1,), wanted=(2,))
    # Four matrices 2 x 2 and two 2 x 8 for three tokens, three times three pairs of tokens, one place of ten words.
    assert gpu.operations([row], sizes) == 2 * (4 * 4 + 2 * 16) * 3 + 4 * 2 * 9 + 2 * 2 * 10


@pytest.mark.slow
def test_the_packs_own_weights_as_checkpoints_score_alike(tmp_path: Path) -> None:
    from benchmarks.checkpoints import TINY, make
    from benchmarks.sides import packs
    from benchmarks.trained import write

    from turnwise.models.pack import Pack
    from turnwise.models.requests import Classify, Continuation, Converse, Embed, MaskedLikelihood
    from turnwise.models.sources import CheckpointModels

    pack = Pack(packs(make(tmp_path / "models", TINY), tmp_path / "packs")["int8"].folder)
    plain = CheckpointModels(write(pack, tmp_path / "trained"), "cpu")
    first, second = "do you like tea", "yes I do"
    classified = [*(Classify(first, second, role=role) for role in ("nup", "dr-f")), Converse((first,), second)]
    for request in (Embed(first), MaskedLikelihood(first, second), Continuation(first, f" {second}"), *classified):
        found = []
        for source in (pack, plain):
            model = source.model(request.role)
            rows = model.rows(request)
            answer = model.answer(request, rows, model.run(rows))
            values = getattr(answer, "log_probs", answer.values() if isinstance(answer, dict) else answer)
            found.append(list(values))
        assert found[0] == pytest.approx(found[1], abs=1e-4), request


def test_the_page_shows_what_other_runs_found(tmp_path: Path) -> None:
    found = Path(__file__).parents[2] / "docs" / "results" / "speed.json"
    (tmp_path / "speed.json").write_bytes(found.read_bytes())
    huge = {"metrics": "classic", "note": "", "runs": [{"rows": 5_000_000, "megabytes": 9, "seconds": 2.0, "mib": 7.0}]}
    (tmp_path / "speed-huge.json").write_text(json.dumps(huge))
    one = {"examples_per_second": 5.0, "tokens_per_second": 50.0, "tflops": 1.0, "tflops_alone": 2.0}
    board = {"device": "a GPU", "peak_tflops": 10.0, "checkpoints": "random", "sizes": {"mini": {"usr": one}}}
    (tmp_path / "speed-gpu.json").write_text(json.dumps(board))
    assert main(["--page", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "speed.md").read_text()
    assert "| 5,000,000 | 9 | 2,500,000 | 7 |" in page
    assert "| mini | usr | 5 | 50 | 1.0 | 10.0% | 2.0 |" in page
