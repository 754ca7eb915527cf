"""Packs: built from checkpoints, opened by role, and refused in one line when anything is not as it should be."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from turnwise.engine.answer import answer_requests
from turnwise.engine.cache import Cache
from turnwise.errors import TurnwiseError
from turnwise.files import sealed
from turnwise.models.export.build_pack import build_pack, roles_in
from turnwise.models.pack import load_models, load_pack, pack_card, verify_pack
from turnwise.models.requests import Classify, Embed, Lookup, Window
from turnwise.models.sources import PaperModels, quiet_loading

ROLES = {"encoder", "masked-lm", "vup", "nli", "emotion", "nup", "nup-trunk", "causal-lm", "unigrams", "vectors"}


@pytest.fixture
def copy(small_pack: Path, tmp_path: Path) -> Path:
    """A pack that a test may damage."""
    return Path(shutil.copytree(small_pack, tmp_path / "copy"))


def edit(pack: Path, change) -> None:
    manifest = json.loads((pack / "manifest.json").read_text())
    del manifest["sha256"]
    change(manifest)
    (pack / "manifest.json").write_text(sealed(manifest))


def one_line(problem: pytest.ExceptionInfo[TurnwiseError]) -> str:
    assert "\n" not in str(problem.value)
    return str(problem.value)


def test_every_role_answers(small_pack: Path, full_pack: Path) -> None:
    for pack in (small_pack, full_pack):
        assert {checked.role for checked in verify_pack(pack)} == ROLES


def test_trunks_share_one_table_of_words(small_pack: Path) -> None:
    pack = load_pack(small_pack)
    tables = {pack.manifest.role(role).words for role in ("encoder", "masked-lm", "nup", "vup")}
    assert tables == {"words.bin"}
    assert {pack.manifest.role(role).file for role in ("vup", "nli", "emotion")} == {"vup+nli+emotion.onnx"}


def test_of_two_checkpoints_with_a_role_the_first_has_it(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    first = checkpoints["shared"]
    heads = json.loads((first / "heads.json").read_text())
    *others, last = heads["heads"]
    one = Path(shutil.copytree(first, tmp_path / "one"))
    (one / "heads.json").write_text(json.dumps(heads | {"heads": {last: heads["heads"][last]}}))
    pack = build_pack([one, first], tmp_path / "pack", name="p", licence="none")
    assert pack.manifest.role(last).file == f"{last}.onnx"
    assert pack.manifest.role(others[0]).file == "+".join(others) + ".onnx"
    with pytest.raises(TurnwiseError, match="already; leave it out"):
        build_pack([first, one], tmp_path / "again", name="p", licence="none")


def test_a_trunk_with_words_of_its_own_keeps_them(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    other = Path(shutil.copytree(checkpoints["nup"], tmp_path / "nup"))
    weights = load_file(other / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] += 0.5
    save_file(weights, other / "model.safetensors")
    pack = build_pack([checkpoints["encoder"], other], tmp_path / "pack", name="p", licence="none")
    assert pack.manifest.role("nup").words is None
    verify_pack(tmp_path / "pack")


def test_building_twice_gives_the_same_bytes(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    manifests = []
    for name in ("a", "b"):
        build_pack(list(checkpoints.values()), tmp_path / name, name="p", licence="none", texts=["i like tea"])
        manifests.append((tmp_path / name / "manifest.json").read_text())
    assert manifests[0] == manifests[1]


def test_roles_can_be_chosen(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    chosen = {"vup": checkpoints["shared"], "nli": checkpoints["shared"], "nup": checkpoints["nup"]}
    pack = build_pack(chosen, tmp_path / "pack", name="p", licence="none")
    assert set(pack.roles) == {"vup", "nli", "nup", "nup-trunk"}
    assert roles_in(checkpoints["causal-lm"]) == ("causal-lm",)
    with pytest.raises(TurnwiseError, match="cannot be 'nli'"):
        build_pack({"nli": checkpoints["nup"]}, tmp_path / "other", name="p", licence="none")
    with pytest.raises(TurnwiseError, match="exists already"):
        build_pack(chosen, tmp_path / "pack", name="p", licence="none")


def test_one_role_can_be_replaced_alone(checkpoints: dict[str, Path], small_pack: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    other = Path(shutil.copytree(checkpoints["nup"], tmp_path / "nup"))
    weights = load_file(other / "model.safetensors")
    weights["embeddings.position_embeddings.weight"] *= 2
    save_file(weights, other / "model.safetensors")
    pack = build_pack([other], tmp_path / "pack", name="p", licence="none", keep=small_pack)
    assert {checked.role for checked in verify_pack(tmp_path / "pack")} == ROLES
    before = load_pack(small_pack).manifest
    changed = {role for role in pack.roles if pack.manifest.fingerprint(role) != before.fingerprint(role)}
    assert changed == {"nup", "nup-trunk"}
    assert pack.manifest.files["words.bin"] == before.files["words.bin"]


def test_the_calibration_of_a_kept_pack_is_carried(checkpoints: dict[str, Path], copy: Path, tmp_path: Path) -> None:
    content = json.dumps({"vup": {"mean": 0.5}}).encode()
    (copy / "calibration.json").write_bytes(content)
    entry = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    edit(copy, lambda manifest: manifest["files"].update({"calibration.json": entry}))
    pack = build_pack([checkpoints["nup"]], tmp_path / "pack", name="p", licence="none", keep=copy)
    assert pack.calibration == {"vup": {"mean": 0.5}}


def test_a_changed_byte_of_a_manifest_is_found(copy: Path) -> None:
    path = copy / "manifest.json"
    content = path.read_bytes()
    for place in (0, 3, 20, 90, *range(200, len(content), len(content) // 40)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 2]) + content[place + 1 :])
        with pytest.raises(TurnwiseError, match=r"manifest\.json: not"):
            load_pack(copy)


def test_a_role_that_shares_other_words_cannot_be_kept(
    checkpoints: dict[str, Path], small_pack: Path, tmp_path: Path
) -> None:
    from safetensors.numpy import load_file, save_file

    other = Path(shutil.copytree(checkpoints["nup"], tmp_path / "nup"))
    weights = load_file(other / "model.safetensors")
    weights["embeddings.word_embeddings.weight"] += 0.5
    save_file(weights, other / "model.safetensors")
    with pytest.raises(TurnwiseError, match=r"words\.bin of the pack to keep differs"):
        build_pack([other], tmp_path / "pack", name="p", licence="none", keep=small_pack)


@pytest.mark.parametrize("name", ["nup.onnx", "words.bin", "tokenizer.json", "unigrams.safetensors"])
def test_a_damaged_file_is_refused(copy: Path, name: str) -> None:
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(TurnwiseError, match="damaged or swapped") as problem:
        verify_pack(copy)
    assert name in one_line(problem)
    role = "unigrams" if name.startswith("uni") else "nup"
    with pytest.raises(TurnwiseError, match="damaged or swapped"):
        load_pack(copy).model(role)


def test_swapped_and_missing_files_are_refused(copy: Path) -> None:
    (copy / "nup.onnx").write_bytes((copy / "encoder.onnx").read_bytes())
    with pytest.raises(TurnwiseError, match=r"nup\.onnx: damaged or swapped"):
        load_pack(copy).model("nup")
    (copy / "nup.onnx").unlink()
    with pytest.raises(TurnwiseError, match=r"nup\.onnx: missing"):
        load_pack(copy).model("nup")
    (copy / "nup.onnx").symlink_to(copy / "encoder.onnx")
    with pytest.raises(TurnwiseError, match="not a plain file"):
        load_pack(copy).model("nup")
    assert load_pack(copy).model("encoder").fingerprint


@pytest.mark.parametrize(
    "name", ["../outside.onnx", "/etc/passwd.txt", "a/b.onnx", "..", "c:\\x.onnx", "model.pkl", "x.py"]
)
def test_a_manifest_cannot_lead_elsewhere(copy: Path, name: str) -> None:
    def change(manifest):
        manifest["files"][name] = manifest["files"]["nup.onnx"]
        manifest["roles"]["nup"]["file"] = name

    edit(copy, change)
    with pytest.raises(TurnwiseError, match=r"not a plain file name|not of a kind") as problem:
        load_pack(copy)
    one_line(problem)


def test_an_unlisted_file_is_refused(copy: Path) -> None:
    edit(copy, lambda manifest: manifest["files"].pop("nup.onnx"))
    with pytest.raises(TurnwiseError, match="has no hash"):
        load_pack(copy)


def test_no_byte_is_read_that_has_no_hash(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may name a file of its own; in the working folder it would be read without a check."""

    def change(manifest):
        del manifest["files"]["words.bin"]
        for entry in manifest["roles"].values():
            entry.pop("words", None)
            entry.pop("words_shape", None)

    edit(copy, change)
    monkeypatch.chdir(copy)
    for use in (verify_pack, lambda folder: load_pack(folder).model("nup")):
        with pytest.raises(TurnwiseError, match="not a model that onnxruntime can open") as problem:
            use(copy)
        one_line(problem)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 9}', '{"format": 1, "files": 3}', "\x00"])
def test_a_broken_manifest_is_refused_in_one_line(copy: Path, text: str) -> None:
    (copy / "manifest.json").write_text(text)
    with pytest.raises(TurnwiseError, match=r"manifest\.json: not") as problem:
        load_pack(copy)
    one_line(problem)


def test_a_file_that_is_no_model_is_refused_in_one_line(copy: Path) -> None:
    import hashlib

    (copy / "nup.onnx").write_bytes(b"not a model")

    def change(manifest):
        manifest["files"]["nup.onnx"] = {"sha256": hashlib.sha256(b"not a model").hexdigest(), "size": 11}

    edit(copy, change)
    with pytest.raises(TurnwiseError, match="not a model that onnxruntime can open") as problem:
        load_pack(copy).model("nup")
    one_line(problem)


@pytest.mark.parametrize(
    ("role", "swap", "words"),
    [
        ("nup", ("nup.onnx", "encoder.onnx"), "nup.onnx: not what its role 'nup' needs (a classifier has 'nup', and"),
        ("masked-lm", ("masked-lm.onnx", "encoder.onnx"), "a masked-lm has 'asked_rows', and this file has not"),
        ("unigrams", ("unigrams.safetensors", "words.bin"), "unigrams.safetensors: not what its role 'unigrams' needs"),
        ("nup", ("tokenizer.json", "words.bin"), "tokenizer.json: not a tokenizer that can be read"),
    ],
)
def test_another_file_under_a_new_hash_is_refused_in_one_line(
    copy: Path, role: str, swap: tuple[str, str], words: str
) -> None:
    name, other = swap
    shutil.copy(copy / other, copy / name)
    edit(copy, lambda manifest: manifest["files"].update({name: manifest["files"][other]}))
    with pytest.raises(TurnwiseError, match=re.escape(words)) as problem:
        load_pack(copy).model(role)
    one_line(problem)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": ["no", "maybe", "yes"]}, "'nup' gives 2 numbers, for 3 labels"),
        ({"head": "other"}, "a classifier has 'other', and this file has not"),
        ({"max_length": "long"}, "'long' is no number of tokens"),
        ({"window": {"first": -1}}, "-1 is no number of tokens"),
    ],
)
def test_a_role_that_its_file_does_not_fill_is_refused_in_one_line(copy: Path, change: dict, words: str) -> None:
    edit(copy, lambda manifest: manifest["roles"]["nup"].update(change))
    with pytest.raises(TurnwiseError, match=re.escape(words)) as problem:
        load_pack(copy).model("nup")
    one_line(problem)


def test_unknown_packs_and_roles_are_named(small_pack: Path) -> None:
    with pytest.raises(TurnwiseError, match="pack 'nowhere' is not known"):
        load_pack("nowhere")
    with pytest.raises(TurnwiseError, match="has no model for 'maude'; give `models` that do"):
        load_models(small_pack).model("maude")


def test_a_pack_that_is_asked_to_run_on_cuda_says_where_it_runs(
    small_pack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_models(small_pack, "auto")
    assert capsys.readouterr().err == ""
    load_models(small_pack, "cuda")
    assert "runs on the CPU" in capsys.readouterr().err


def test_fingerprints_follow_content(copy: Path, small_pack: Path) -> None:
    first, second = load_pack(small_pack), load_pack(copy)
    prints = {role: first.manifest.fingerprint(role) for role in first.roles}
    assert prints == {role: second.manifest.fingerprint(role) for role in second.roles}
    assert len(set(prints.values())) == len(prints)
    edit(copy, lambda manifest: manifest["roles"]["nup"]["window"].update(second=5))
    assert load_pack(copy).manifest.fingerprint("nup") != prints["nup"]


def test_windows_cut_what_a_model_sees(small_pack: Path) -> None:
    pack = load_pack(small_pack)
    long = "i like tea " * 40
    requests = [
        Classify(long, "yes", role="nup"),
        Classify(long[33:], "yes", role="nup"),
        Classify("no " + long, "yes", role="nup"),
        Classify(long + "no", "yes", role="nup"),
        Classify(long, "yes", role="nup", window=Window(total=90)),
        Embed(long * 3),
    ]
    answers = answer_requests(requests, pack)
    assert answers[requests[0]] == answers[requests[1]] == answers[requests[2]]
    assert answers[requests[0]] != answers[requests[3]]
    assert answers[requests[0]] != answers[requests[4]]
    assert np.isfinite(answers[requests[5]]).all()


def test_words_are_looked_up(small_pack: Path) -> None:
    pack = load_pack(small_pack)
    vectors = answer_requests([request := Lookup(("tea", "zzz", "cats"))], pack)[request]
    assert np.isnan(vectors[1]).all()
    assert np.isfinite(vectors[[0, 2]]).all()
    words = Lookup(("yes", "tea", "zzz"), role="unigrams")
    pieces = Lookup(("yes", "##x"), unit="token", role="unigrams")
    answers = answer_requests([words, pieces], pack)
    # 24 words of 20 kinds: "yes" three times, "tea" once; one is added to each, and one more kind is unseen.
    total = 24 + 20 + 1
    np.testing.assert_allclose(np.exp(answers[words]), [4 / total, 2 / total, 1 / total], rtol=1e-5)
    assert answers[pieces][0] > answers[pieces][1]


def test_the_card_tells_what_the_checkpoint_told(small_pack: Path) -> None:
    card = pack_card(small_pack)
    assert "random numbers" in card
    assert "Licence of the pack (the code has its own): none" in card


def test_paper_models_that_were_never_published_are_refused() -> None:
    source = PaperModels()
    assert {"masked-lm", "causal-lm", "nli", "encoder"} <= set(source.roles)
    with pytest.raises(TurnwiseError, match="the hub has no copy"):
        source.model("nup")


@pytest.mark.slow
def test_a_hub_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"context": ["a"], "response": "b"}')
    command = [sys.executable, "-m", "turnwise", "score", str(file), "--metrics", "fluency", "--models", "paper"]
    unreached = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}
    done = subprocess.run([*command, "--cache", "off"], capture_output=True, text=True, env=unreached, check=False)
    assert done.returncode == 2
    said = "turnwise: model 'gpt2': no hub can be reached, and no copy is kept here; download it"
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


def test_a_hub_is_tried_again_in_silence() -> None:
    hub = logging.getLogger("huggingface_hub.utils._http")
    with quiet_loading():
        assert not hub.isEnabledFor(logging.WARNING)
    assert hub.isEnabledFor(logging.WARNING)


def test_what_the_cache_knows_opens_no_model(small_pack: Path, tmp_path: Path) -> None:
    requests = [Classify("how are you", "fine", role="nup"), Classify("fine", role="vup"), Embed("fine")]
    cache = Cache(tmp_path / "cache")
    first, second = load_pack(small_pack), load_pack(small_pack)
    found = answer_requests(requests, first, cache=cache)
    again = answer_requests(requests, second, cache=cache)
    assert set(first._sessions) == {"nup.onnx", "vup+nli+emotion.onnx", "encoder.onnx"}
    assert not second._sessions
    assert found[requests[0]] == again[requests[0]]


def test_files_that_are_opened_together_answer_alike(small_pack: Path) -> None:
    requests = [Classify("how are you", "fine", role=role) for role in ("nup", "vup", "nli")]
    together, alone = load_pack(small_pack), load_pack(small_pack)
    together.open_together(["nup", "vup", "nli"])
    assert set(together._sessions) == {"nup.onnx", "vup+nli+emotion.onnx"}
    for request in requests:
        alone.model(request.role)
    assert answer_requests(requests, together) == answer_requests(requests, alone)


def test_a_broken_file_among_several_is_named(copy: Path) -> None:
    (copy / "nup.onnx").write_bytes(b"swapped")
    with pytest.raises(TurnwiseError, match=r"nup\.onnx: damaged or swapped"):
        answer_requests([Classify("a", "b", role="nup"), Classify("b", role="vup")], load_pack(copy))
