"""MAUDE's head: numpy says what torch says, a turn is encoded once, and a pack holds it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnwise.dialogue import Example
from turnwise.engine.answer import answer_requests
from turnwise.errors import TurnwiseError
from turnwise.metrics.registry import load_metric
from turnwise.models.kinds import TokenRow
from turnwise.models.maude import Head, MaudeModel, State, TrunkReading, read_head
from turnwise.models.pack import Pack, load_pack, verify_pack
from turnwise.models.requests import Converse

torch = pytest.importorskip("torch")

from turnwise.models.export.build_pack import build_pack  # noqa: E402
from turnwise.train.loop import seeded  # noqa: E402
from turnwise.train.maude import MODES, MaudeNetwork, MaudeOptions, folded, save_head  # noqa: E402  # noqa: E402

WIDTH, LAYERS = 64, (1, 3)
SMALL: dict[str, Any] = {"down_size": 12, "hidden": 10, "dense": 8}


def network(**options: Any) -> MaudeNetwork:
    model = seeded(3, lambda: MaudeNetwork(WIDTH, MaudeOptions(**SMALL, **options), parts=len(LAYERS)))
    model.settle(np.random.default_rng(0).normal(2, 3, (40, WIDTH)).astype(np.float32))
    model.train(False)
    return model


def by_torch(model: MaudeNetwork, turns: np.ndarray, response: np.ndarray) -> float:
    with torch.no_grad():
        said = model.project(torch.from_numpy(turns))[None]
        context = model.contexts(said, torch.tensor([0]), torch.tensor([len(turns)]))
        offered = model.project(torch.from_numpy(response))[None, None]
        return float(model.score(context, offered).sigmoid())


def by_numpy(head: Head, turns: np.ndarray, response: np.ndarray) -> float:
    state = State()
    for turn in turns:
        state = head.read(state, head.project(turn))
    return head.score(head.context(state), head.project(response))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("down", ["learned", "pca"])
def test_numpy_and_torch_agree_in_every_form(mode: str, down: str, tmp_path: Path) -> None:
    frozen = {**MODES[mode], "frozen": True}
    model = network(**frozen, down=down)
    save_head(model, TrunkReading(layers=LAYERS), {"form": mode}, tmp_path)
    head, reading = read_head((tmp_path / "maude.safetensors").read_bytes(), "it")
    assert reading == TrunkReading("encoder", LAYERS, "mean")
    rng = np.random.default_rng(1)
    for length in (1, 2, 7):
        turns, response = rng.normal(2, 3, (length, WIDTH)).astype(np.float32), rng.normal(2, 3, WIDTH)
        response = response.astype(np.float32)
        assert by_numpy(head, turns, response) == pytest.approx(by_torch(model, turns, response), abs=2e-6)


@pytest.mark.parametrize("options", [{"standardise": False}, {}, {"bidirectional": True, "difference": "signed"}])
def test_numpy_and_torch_agree_on_likeness_to_recent_turns(options: dict[str, Any], tmp_path: Path) -> None:
    model = network(**options, recent=(0.0, 0.6, 0.9))
    save_head(model, TrunkReading(layers=LAYERS), {}, tmp_path)
    head, _ = read_head((tmp_path / "maude.safetensors").read_bytes(), "it")
    rng = np.random.default_rng(1)
    for length in (1, 2, 7):
        turns, response = rng.normal(2, 3, (length, WIDTH)).astype(np.float32), rng.normal(2, 3, WIDTH)
        response = response.astype(np.float32)
        assert by_numpy(head, turns, response) == pytest.approx(by_torch(model, turns, response), abs=3e-6)


def test_likeness_is_the_cosine_with_turns_that_fade() -> None:
    model = network(standardise=False, recent=(0.5,))
    for part in (model.out, model.direct):
        torch.nn.init.zeros_(part.weight)
    torch.nn.init.zeros_(model.out.bias)
    with torch.no_grad():
        # Only the second part's likeness is listened to.
        model.direct.weight[0, 1] = 1.0
    turns = np.random.default_rng(2).normal(0, 1, (3, WIDTH)).astype(np.float32)
    response = np.random.default_rng(3).normal(0, 1, WIDTH).astype(np.float32)
    units = [turn[WIDTH // 2 :] / np.linalg.norm(turn[WIDTH // 2 :]) for turn in turns]
    said, asked = units[0] / 4 + units[1] / 2 + units[2], response[WIDTH // 2 :]
    cosine = said @ asked / np.linalg.norm(said) / np.linalg.norm(asked)
    assert by_torch(model, turns, response) == pytest.approx(1 / (1 + np.exp(-10 * cosine)), abs=1e-6)


def test_beginnings_of_a_dialogue_read_in_one_pass_are_those_read_alone() -> None:
    model = network()
    turns = torch.randn(2, 5, SMALL["down_size"])
    with torch.no_grad():
        together = model.contexts(turns, torch.tensor([0, 1, 1]), torch.tensor([2, 1, 5]))
        alone = [
            model.contexts(turns[r : r + 1, :n], torch.tensor([0]), torch.tensor([n])) for r, n in ((0, 2), (1, 5))
        ]
    assert together[[0, 2]].numpy() == pytest.approx(torch.cat(alone).numpy(), abs=1e-6)


def test_pca_is_that_of_scikit_learn() -> None:
    from sklearn.decomposition import PCA

    vectors = np.random.default_rng(5).normal(size=(200, WIDTH)).astype(np.float32) @ np.diag(np.arange(1, WIDTH + 1))
    vectors = vectors.astype(np.float32)
    model = seeded(0, lambda: MaudeNetwork(WIDTH, MaudeOptions(**SMALL, down="pca", standardise=False)))
    model.settle(vectors)
    expected = PCA(SMALL["down_size"]).fit(vectors).components_
    found = model.down.weight.numpy()
    assert np.abs((found * expected).sum(axis=1)) == pytest.approx(np.ones(len(found)), abs=1e-3)
    assert not model.down.weight.requires_grad


# --- in a pack --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pack(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Pack:
    root = tmp_path_factory.mktemp("maude")
    save_head(network(), TrunkReading(layers=LAYERS), {"form": "recommended", "data": []}, root / "head")
    save_head(network(bidirectional=True), TrunkReading(layers=LAYERS), {"form": "paper"}, root / "paper")
    save_head(network(recent=(0.0, 0.6)), TrunkReading(layers=LAYERS), {"form": "recent"}, root / "recent")
    # The head comes first on purpose: whoever builds need not know the order.
    folders = [root / "head", root / "paper", root / "recent", checkpoints["encoder"]]
    build_pack(folders, root / "pack", name="toy", licence="none", fineness=None)
    return load_pack(root / "pack")


class Counting:
    """An encoder that counts what it has to read."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.read = inner, 0

    def row(self, text: str) -> TokenRow:
        return self.inner.row(text)

    def vectors(self, rows: Sequence[TokenRow]) -> Any:
        self.read += len(rows)
        return self.inner.vectors(rows)


def followed(pack: Pack, role: str) -> tuple[MaudeModel, Counting]:
    opened = pack.model(role)
    assert isinstance(opened, MaudeModel)
    counting = Counting(opened.encoder)
    return MaudeModel(counting, opened.head, "it"), counting  # type: ignore[arg-type]


def test_a_pack_with_heads_is_sound_and_its_scores_are_those_of_the_network(pack: Pack) -> None:
    assert {"maude", "maude-paper"} <= {checked.role for checked in verify_pack(pack.folder)}
    request = Converse(("hello", "i like tea"), "do you play the piano")
    answer = answer_requests([request], pack)[request]
    model = pack.model("maude")
    assert isinstance(model, MaudeModel)
    rows = [model.encoder.row(text) for text in ("hello", "i like tea", "do you play the piano")]
    # One by one, since padding must not matter.
    vectors = np.stack([model.encoder.vectors([row])[0] for row in rows])
    assert vectors.shape == (3, WIDTH)
    assert answer["next"] == pytest.approx(by_torch(network(), vectors[:2], vectors[2]), abs=1e-5)
    assert answer["other"] + answer["next"] == pytest.approx(1)


@pytest.mark.parametrize("role", ["maude", "maude-paper", "maude-recent"])
def test_each_turn_is_encoded_once_however_long_the_conversation(pack: Pack, role: str) -> None:
    model, counting = followed(pack, role)
    conversation = model.conversation()
    turns = [f"i like tea {number}" for number in range(20)]
    scores = []
    for place, turn in enumerate(turns):
        if place:
            scores.append(conversation.score(turn))
        conversation.say(turn)
        assert counting.read == (place + 1 if place else 0)
    fresh, _ = followed(pack, role)
    request = Converse(tuple(turns[:-1]), turns[-1])
    rows = fresh.rows(request)
    assert fresh.answer(request, rows, fresh.run(rows))["next"] == pytest.approx(scores[-1], abs=1e-6)


def test_a_turn_with_line_breaks_is_one_turn(pack: Pack) -> None:
    turns, response = ("hello\n\nhow are you ?", " i like\ttea "), "do you play\nthe piano"
    conversation = followed(pack, "maude")[0].conversation()
    for turn in turns:
        conversation.say(turn)
    metric = load_metric("maude")
    (asked,) = metric.requests(Example(response, turns))
    answered = answer_requests([asked], pack)[asked]
    assert conversation.score(response) == pytest.approx(metric.judge(Example(response, turns), [answered]).value)


def test_what_cannot_be_said_is_refused_in_one_line(pack: Pack) -> None:
    conversation = followed(pack, "maude")[0].conversation()
    with pytest.raises(TurnwiseError, match="expected at least one turn"):
        conversation.score("hello")
    with pytest.raises(TurnwiseError, match="turn: expected a string, got None"):
        conversation.say(None)  # type: ignore[arg-type]
    conversation.say("hello")
    with pytest.raises(TurnwiseError, match="response: expected a string, got 3"):
        conversation.score(3)  # type: ignore[arg-type]


def test_one_recurrent_step_for_a_new_turn(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = followed(pack, "maude")
    conversation = model.conversation()
    steps: list[str] = []
    plain = Head.read

    def counted(self: Head, state: State, turn: Any) -> State:
        steps.append("step")
        return plain(self, state, turn)

    monkeypatch.setattr(Head, "read", counted)
    for place in range(30):
        conversation.say(f"i like cats {place}")
        conversation.score("why")
        assert len(steps) == place + 1


def test_what_was_not_used_for_longest_is_forgotten_and_scores_stay(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnwise.models.maude.REMEMBERED", 3)
    model, counting = followed(pack, "maude")
    request = Converse(tuple(f"dogs {number}" for number in range(9)), "yes")
    for again in range(2):
        rows = model.rows(request)
        found = model.answer(request, rows, model.run(rows))["next"]
        assert counting.read >= (1 + again) * 10 - 3
        vectors = counting.inner.vectors(rows)
        assert found == pytest.approx(by_torch(network(), vectors[:-1], vectors[-1]), abs=1e-5)


def test_order_of_the_turns_matters_and_white_space_does_not(pack: Pack) -> None:
    contexts = [("hello", "i like tea"), ("i like tea", "hello"), ("hello", "  i   like\ntea")]
    requests = [Converse(turns, "yes") for turns in contexts]
    there, back, spaced = (answer_requests(requests, pack)[request]["next"] for request in requests)
    assert there != back
    assert there == spaced


def test_rounding_to_whole_numbers_hardly_moves_a_score(
    checkpoints: dict[str, Path], tmp_path: Path, pack: Pack
) -> None:
    save_head(network(), TrunkReading(layers=LAYERS), {"form": "recommended"}, tmp_path / "head")
    rounded = build_pack([checkpoints["encoder"], tmp_path / "head"], tmp_path / "p", name="r", licence="none")
    exact, _ = read_head((pack.folder / "maude.safetensors").read_bytes(), "it")
    coarse, _ = read_head((rounded.folder / "maude.safetensors").read_bytes(), "it")
    rng = np.random.default_rng(2)
    turns, responses = rng.normal(2, 3, (4, WIDTH)).astype(np.float32), rng.normal(2, 3, (30, WIDTH)).astype(np.float32)
    moved = [abs(by_numpy(exact, turns, r) - by_numpy(coarse, turns, r)) for r in responses]
    assert 0 < max(moved) < 0.02


def test_a_checkpoint_of_whole_numbers_is_packed_as_what_they_stand_for(
    checkpoints: dict[str, Path], tmp_path: Path, pack: Pack
) -> None:
    save_head(network(), TrunkReading(layers=LAYERS), {"form": "recommended"}, tmp_path / "head")
    build_pack([checkpoints["encoder"], tmp_path / "head"], tmp_path / "once", name="r", licence="none")
    (tmp_path / "head" / "maude.safetensors").write_bytes((tmp_path / "once" / "maude.safetensors").read_bytes())
    again = build_pack([checkpoints["encoder"], tmp_path / "head"], tmp_path / "twice", name="r", licence="none")
    exact, _ = read_head((pack.folder / "maude.safetensors").read_bytes(), "it")
    twice, _ = read_head((again.folder / "maude.safetensors").read_bytes(), "it")
    rng = np.random.default_rng(2)
    turns, response = rng.normal(2, 3, (4, WIDTH)).astype(np.float32), rng.normal(2, 3, WIDTH).astype(np.float32)
    assert by_numpy(twice, turns, response) == pytest.approx(by_numpy(exact, turns, response), abs=0.03)


def test_a_head_without_its_encoder_and_a_damaged_one_are_named(tmp_path: Path) -> None:
    save_head(network(), TrunkReading(role="elsewhere", layers=LAYERS), {"form": "recommended"}, tmp_path / "head")
    with pytest.raises(TurnwiseError, match="reads 'elsewhere'"):
        build_pack([tmp_path / "head"], tmp_path / "p", name="r", licence="none")
    with pytest.raises(TurnwiseError, match="not a head of MAUDE"):
        read_head(b"nothing", "it")


def test_folding_leaves_nothing_else_to_do() -> None:
    model = network()
    weights, vectors = folded(model), np.random.default_rng(3).normal(2, 3, (5, WIDTH)).astype(np.float32)
    with torch.no_grad():
        expected = model.project(torch.from_numpy(vectors)).numpy()
    assert vectors @ weights["down.weight"].T + weights["down.bias"] == pytest.approx(expected, abs=1e-5)
