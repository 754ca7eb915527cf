"""Classifiers over a trunk, masked language models, and the teachers that a run is distilled from."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import BertForMaskedLM, BertModel, LlamaModel, PretrainedConfig

from turnwise.errors import TurnwiseError
from turnwise.text.inputs import context_text, restyled
from turnwise.train import checkpoint
from turnwise.train.config import Config
from turnwise.train.dialogues import Dialogue, merge_runs
from turnwise.train.encode import IGNORED, EncodePairs, LinesEncoder, PairEncoder, Sequences, mask_tokens, pad
from turnwise.train.loop import Batch, beside, moved
from turnwise.train.sampling import Places
from turnwise.train.tasks import UNKNOWN, Labelled, Task

LOWEST = -1e4


class LabelHead(nn.Module):
    """Two layers from a pooled vector to the logits of the labels."""

    def __init__(self, width: int, labels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(width, width)
        self.out = nn.Linear(width, labels)

    def forward(self, pooled: Tensor) -> Tensor:
        hidden = nn.functional.gelu(self.dense(self.dropout(pooled)))
        logits: Tensor = self.out(self.dropout(hidden))
        return logits


class TrunkClassifier(nn.Module):
    """One trunk, several heads; the last layer is pooled by its maximum.

    Over every position but padding; in a causal trunk only over the second text, which attends to everything.
    """

    def __init__(
        self, trunk: BertModel | LlamaModel, labels: Mapping[str, Sequence[str]], dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.causal = isinstance(trunk, LlamaModel)
        width = trunk.config.hidden_size
        self.heads = nn.ModuleDict({name: LabelHead(width, len(of), dropout) for name, of in labels.items()})

    def forward(self, head: str, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # Padding is on the right, where no token of a causal trunk attends to it.
        seen = {} if self.causal else {"token_type_ids": token_type_ids, "attention_mask": attention_mask}
        states = self.trunk(input_ids=input_ids, **seen).last_hidden_state
        read = token_type_ids if self.causal else attention_mask
        pooled = states.masked_fill(read[..., None] == 0, LOWEST).amax(dim=1)
        logits: Tensor = self.heads[head](pooled)
        return logits


class MaskedLanguageModel(nn.Module):
    """A masked language model whose vocabulary-sized layer is computed at the chosen positions only."""

    def __init__(self, model: BertForMaskedLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, token_type_ids: Tensor, attention_mask: Tensor, chosen: Tensor) -> Tensor:
        states = self.model.bert(
            input_ids=input_ids, token_type_ids=token_type_ids, attention_mask=attention_mask
        ).last_hidden_state
        logits: Tensor = self.model.cls(states[chosen])
        return logits


def trunk_of(folder: Path, dtype: torch.dtype = torch.float32) -> BertModel | LlamaModel:
    """Return the bare trunk of the model in a folder: BERT's, a masked language model's or a causal one's."""
    if is_causal(folder):
        return checkpoint.open_network(LlamaModel, folder, dtype=dtype, use_cache=False)
    return checkpoint.open_network(BertModel, folder, add_pooling_layer=False, dtype=dtype)


def is_causal(folder: Path) -> bool:
    """Return whether the model in a folder reads from left to right."""
    return bool(json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"] == "llama")


def grow(trunk: BertModel, layers: int) -> None:
    """Add layers that are close to the identity at first, each a copy of the one before it.

    The two blocks of a new layer output zeros, and its norms keep about the mean and the spread of normed numbers.
    """
    old: Any = trunk.encoder.layer
    made = nn.ModuleList()
    for place, layer in enumerate(old):
        made.append(layer)
        for _ in range(layers * (place + 1) // len(old) - layers * place // len(old) - 1):
            made.append(_passing_on(layer))
    trunk.encoder.layer = made
    trunk.config.num_hidden_layers = len(made)


@torch.no_grad()
def _passing_on(layer: nn.Module) -> nn.Module:
    new: Any = copy.deepcopy(layer)
    gain, shift = (value.clone() for value in (new.output.LayerNorm.weight, new.output.LayerNorm.bias))
    spread, mean = (gain.square().mean() + shift.var(unbiased=False)).sqrt(), shift.mean()
    for block in (new.attention.output, new.output):
        for value in (block.dense.weight, block.dense.bias):
            value.zero_()
        block.LayerNorm.weight.fill_(spread)
        block.LayerNorm.bias.fill_(mean)
    return cast("nn.Module", new)


def classifier(
    base: Path, labels: Mapping[str, Sequence[str]], dropout: float, freeze_words: bool, layers: int | None = None
) -> TrunkClassifier:
    """Return a classifier over the trunk in a folder, grown if asked, with the heads that an earlier run saved."""
    trunk = trunk_of(base)
    if layers is not None:
        if not isinstance(trunk, BertModel) or layers < trunk.config.num_hidden_layers:
            raise TurnwiseError(f"{base}: only a BERT trunk can grow, and to no fewer layers than it has")
        grow(trunk, layers)
    _freeze(trunk, freeze_words)
    model = TrunkClassifier(trunk, labels, dropout)
    if (base / checkpoint.HEADS_LAYOUT).is_file():
        known = json.loads((base / checkpoint.HEADS_LAYOUT).read_text(encoding="utf-8"))["heads"]
        same = tuple(f"{name}." for name, of in labels.items() if known.get(name, {}).get("labels") == list(of))
        weights = checkpoint.read_tensors(base / checkpoint.HEADS)
        model.heads.load_state_dict({k: v for k, v in weights.items() if k.startswith(same)}, strict=False)
    return model


def load_classifier(folder: Path, dtype: torch.dtype = torch.float32) -> TrunkClassifier:
    """Return a classifier as an earlier run saved it."""
    layout = json.loads((folder / checkpoint.HEADS_LAYOUT).read_text(encoding="utf-8"))
    model = TrunkClassifier(trunk_of(folder, dtype), {name: of["labels"] for name, of in layout["heads"].items()})
    model.heads.load_state_dict(checkpoint.read_tensors(folder / checkpoint.HEADS))
    return model.to(dtype).eval()


def masked_lm(base: Path, freeze_words: bool) -> MaskedLanguageModel:
    """Return a masked language model over the BERT model in a folder; a head that is missing there starts afresh."""
    model = checkpoint.open_network(BertForMaskedLM, base, dtype=torch.float32)
    model.tie_weights()
    _freeze(model.bert, freeze_words)
    return MaskedLanguageModel(model)


def compile_layers(trunk: nn.Module, backend: str = "inductor") -> None:
    """Compile one layer for texts of any length; all layers are alike, so they share what was compiled."""
    layers: Any = trunk.encoder.layer if isinstance(trunk, BertModel) else trunk.layers
    for layer in layers:
        layer.compile(dynamic=True, backend=backend)


def _freeze(trunk: BertModel | LlamaModel, freeze_words: bool) -> None:
    trunk.get_input_embeddings().weight.requires_grad_(not freeze_words)


def config_of(trunk: Any, architecture: str) -> dict[str, Any]:
    """Return the configuration to store beside a trunk's weights."""
    config: PretrainedConfig = trunk.config
    return {**config.to_diff_dict(), "architectures": [architecture], "dtype": "float16"}


READ = ("input_ids", "token_type_ids", "attention_mask")


def encoder_of(config: Config) -> PairEncoder:
    """Return the tokenizer of the BERT model to start from, with the configured lengths."""
    return PairEncoder(config.base / "tokenizer.json", config.context_tokens, config.response_tokens)


def pairs_of(folder: Path, config: Config) -> EncodePairs:
    """Return how the model in a folder, BERT or causal, reads a pair of texts."""
    lengths = config.context_tokens, config.response_tokens
    if not is_causal(folder):
        return PairEncoder(folder / "tokenizer.json", *lengths)
    described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return LinesEncoder(folder / "tokenizer.json", described["bos_token_id"], described["eos_token_id"], *lengths)


class Classification:
    """Batches of one task at a time, the task drawn by its share; teachers, if given, add soft labels."""

    def __init__(self, tasks: Sequence[Task], config: Config, teachers: Teachers | None = None) -> None:
        self.tasks, self._config, self._encode = tasks, config, pairs_of(config.base, config)
        self._shares = [config.shares.get(task.name, 1.0) for task in tasks]
        self._teachers = teachers

    def batch(self, index: int) -> list[Batch]:
        if self._teachers and self._config.taught:
            # A large teacher takes most of the time, so batches repeat and its outputs are cached.
            index %= self._config.taught
        rng = self._config.drawing(index)
        task = rng.choices(self.tasks, self._shares)[0]
        drawn = [task.draw(rng) for _ in range(self._config.batch)]
        chunks = list(encoded(drawn, self._encode, task.name, self._config.chunks))
        if self._teachers:
            for place, chunk in enumerate(chunks):
                rows = [drawn[i] for i in chunk["order"]]
                chunk |= self._teachers.reads(rows, task.name, f"{index}:{place}")
        return chunks

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = logits_of(model, batch).float()
        known = (batch["labels"] != UNKNOWN).sum().clamp(min=1)
        loss: Tensor = nn.functional.cross_entropy(logits, batch["labels"], ignore_index=UNKNOWN, reduction="sum")
        loss = loss / known
        if self._teachers is None or not self._teachers.has(batch["head"]):
            return loss
        wanted = self._teachers.answer(batch, batch["head"])
        distance = nn.functional.kl_div(logits.log_softmax(-1), wanted, log_target=True, reduction="batchmean")
        return (1 - self._config.teacher_share) * loss + self._config.teacher_share * distance


def logits_of(model: nn.Module, batch: Batch) -> Tensor:
    """Return the logits of one chunk."""
    logits: Tensor = model(batch["head"], *(batch[name] for name in READ))
    return logits


def encoded(
    rows: Sequence[Labelled], encode: EncodePairs, head: str, chunks: int = 1, in_order: bool = False
) -> Iterator[Batch]:
    """Yield the rows as tensors, in chunks of similar length to save padding, or in one chunk in their order."""
    sequences = encode([row.first for row in rows], [row.second for row in rows])
    for part in [list(range(len(rows)))] if in_order else by_length(sequences.ids, chunks):
        yield {
            "head": head,
            "rows": len(part),
            "order": part,
            "labels": torch.tensor([rows[i].label for i in part]),
            **tensors(Sequences([sequences.ids[i] for i in part], [sequences.segments[i] for i in part]), encode.pad),
        }


def by_length(ids: Sequence[Sequence[int]], chunks: int) -> list[list[int]]:
    """Return indices sorted by length and cut into that many chunks.

    >>> by_length([[1, 1, 1], [1], [1, 1], [1]], 2)
    [[1, 3], [2, 0]]
    """
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    size = -(-len(order) // max(1, chunks))
    return [order[start : start + size] for start in range(0, len(order), size)]


def tensors(sequences: Sequences, padding: int) -> dict[str, Tensor]:
    """Return what a BERT model reads."""
    return {
        "input_ids": torch.from_numpy(pad(sequences.ids, padding)),
        "token_type_ids": torch.from_numpy(pad(sequences.segments, 0)),
        "attention_mask": torch.from_numpy(pad([[1] * len(ids) for ids in sequences.ids], 0)),
    }


class Masking:
    """Masked utterances: alone, or after up to three turns before them."""

    def __init__(self, dialogues: Sequence[Dialogue], config: Config) -> None:
        pool = [merge_runs(dialogue) for dialogue in dialogues]
        self._places = Places(pool, first=0, power=config.corpus_power, weights=config.corpus_weights)
        self._config, self._encode = config, encoder_of(config)
        encode = self._encode
        self._special = frozenset({encode.cls, encode.sep, encode.pad, encode.mask})

    def texts(self, rng: Random) -> tuple[str | None, str]:
        """Return (context or none, utterance)."""
        dialogue, turn = self._places.draw(rng)
        before = [t.text for t in dialogue.turns[max(0, turn - rng.randint(0, 3)) : turn]]
        *before, text = restyled([*before, dialogue.turns[turn].text], rng, self._config.restyle)
        return (context_text(before) if before else None), text

    def batch(self, index: int) -> list[Batch]:
        rng = self._config.drawing(index)
        drawn = [self.texts(rng) for _ in range(self._config.batch)]
        sequences = self._encode([first for first, _ in drawn], [second for _, second in drawn])
        size = self._encode.tokenizer.get_vocab_size()
        masked = [mask_tokens(ids, self._special, self._encode.mask, size, rng) for ids in sequences.ids]
        chunks = []
        for part in by_length(sequences.ids, self._config.chunks):
            inputs = Sequences([masked[i][0] for i in part], [sequences.segments[i] for i in part])
            targets = torch.from_numpy(pad([masked[i][1] for i in part], IGNORED))
            chunks.append({"rows": len(part), "targets": targets, **tensors(inputs, self._encode.pad)})
        return chunks

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        chosen = batch["targets"] != IGNORED
        logits = model(batch["input_ids"], batch["token_type_ids"], batch["attention_mask"], chosen)
        return nn.functional.cross_entropy(logits.float(), batch["targets"][chosen])


@torch.no_grad()
def probabilities(
    model: nn.Module, rows: Sequence[Labelled], encode: EncodePairs, head: str, size: int = 256
) -> Tensor:
    """Return the probability of every label for every row, in the order of the rows."""
    model.eval()
    device = next(model.parameters()).device
    answers: Tensor | None = None
    for batch in encoded(rows, encode, head, chunks=-(-len(rows) // size)):
        chances = logits_of(model, moved(batch, device)).float().softmax(dim=-1).cpu()
        if answers is None:
            answers = torch.empty(len(rows), chances.shape[1])
        answers[torch.tensor(batch["order"])] = chances
    if answers is None:
        raise ValueError("rows: expected at least one, got none")
    return answers


class Teachers:
    """Classifiers that score the rows of a learner, each with its own tokenizer."""

    def __init__(self, folders: Sequence[Path], config: Config) -> None:
        device, dtype = beside(config)
        self._readers = [pairs_of(folder, config) for folder in folders]
        self._models = [load_classifier(folder, dtype).to(device) for folder in folders]
        self._remembers = config.taught is not None
        self._said: dict[str, Tensor] = {}
        if config.compile:
            for model in self._models:
                compile_layers(model.trunk)

    def has(self, head: str) -> bool:
        """Return whether any teacher has this head."""
        return any(head in model.heads for model in self._models)

    def reads(self, rows: Sequence[Labelled], head: str, number: str) -> Batch:
        """Return these rows as each teacher's inputs, for a batch of the learner."""
        read: Batch = {"number": number}
        for place, reader in enumerate(self._readers):
            (seen,) = encoded(rows, reader, head, in_order=True)
            read |= {f"teacher_{place}_{name}": seen[name] for name in READ}
        return read

    @torch.no_grad()
    def answer(self, batch: Batch, head: str) -> Tensor:
        """Return log-probabilities of the labels, averaged over the teachers that have this head."""
        known = self._said.get(batch["number"])
        if known is None:
            said = [
                model(head, *(batch[f"teacher_{place}_{name}"] for name in READ)).float().log_softmax(-1)
                for place, model in enumerate(self._models)
                if head in model.heads
            ]
            known = torch.stack(said).mean(dim=0).log_softmax(-1)
            if self._remembers:
                self._said[batch["number"]] = known
        return known
