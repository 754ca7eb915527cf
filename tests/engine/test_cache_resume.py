"""A run through a real model, killed without warning and started again, is the same as one that was left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.resume import experiment
from tests.models.conftest import bert_config, bert_tokenizer, bert_weights, write
from turnwise.models.export.build_pack import build_pack

pytest.importorskip("onnx", reason="building a pack needs the extra [torch]")


@pytest.mark.slow
def test_a_killed_run_of_a_pack_ends_as_if_it_had_been_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNWISE_THREADS", "1")  # the size of a batch grows with the threads
    tokenizer = bert_tokenizer()
    words = tokenizer.get_vocab_size()
    checkpoint = write(tmp_path / "encoder", bert_weights(words, 1), bert_config("BertModel", words), tokenizer)
    pack = build_pack([checkpoint], tmp_path / "pack", name="tiny", licence="none")
    (tmp_path / "runs").mkdir()
    found = experiment(tmp_path / "pack", 2000, kills=2, role="encoder", folder=tmp_path / "runs", pause=0.05)
    assert all(0 < kept < found.rows for kept in found.kept)
    assert found.computed_after == found.rows - found.kept[-1]
    assert found.kept_and_computed_again == 0
    assert found.lost == 0
    assert found.answers_in_cache == found.rows
    assert found.cache_is_whole
    # Only the batch in hand at each kill may have to be computed again; a row has at least five tokens.
    assert found.computed_but_not_kept <= 2 * pack.model("encoder").budget // 5
    # Batches are taken in a fixed order, so that those which are left are put together as they would have been.
    assert found.largest_difference == 0
