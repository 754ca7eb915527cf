"""A causal language model that also learns by contrast: true responses become likelier than wrong ones.

The fit of a response to its context is a small part of its likelihood, so a lower perplexity need not give a
better metric.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers import LlamaForCausalLM

from turnwise.files import write_json
from turnwise.models.export.storage import block_size
from turnwise.text.inputs import SEPARATOR, TfIdf, restyled, spaced
from turnwise.train.checkpoint import open_network, save_model
from turnwise.train.classifiers import by_length
from turnwise.train.config import Config
from turnwise.train.dialogues import Dialogue
from turnwise.train.encode import IGNORED, pad
from turnwise.train.loop import Batch
from turnwise.train.sampling import Places, corrupted
from turnwise.train.tasks import Labelled, NextUtteranceTask, ranking


def count_tokens(tokenizer: Path, texts: Iterable[str], at_once: int = 10_000) -> Counter[int]:
    """Return how often each token is used for these texts."""
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_file(str(tokenizer))
    counts, waiting = Counter[int](), iter(texts)
    while part := list(islice(waiting, at_once)):
        counts.update(i for e in encoder.encode_batch_fast(part) for i in e.ids)
    return counts


def prune(tokenizer: dict[str, Any], counts: Counter[int], size: int) -> tuple[dict[str, Any], list[int]]:
    """Return a tokenizer of about `size` tokens, and the old ids of its tokens in their new order.

    Kept are special tokens, single bytes and the most used tokens, each together with the tokens that it is
    merged from, so that everything can still be written and kept words come out as before.
    """
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in tokenizer["model"]["merges"]]
    made_of: dict[str, tuple[str, ...]] = {}
    for merge in merges:
        made_of.setdefault("".join(merge), merge)
    token_of = {index: token for token, index in vocabulary.items()}
    special = {added["content"] for added in tokenizer["added_tokens"]}
    kept = {token for token in vocabulary if token in special or len(token) == 1}
    for index, _ in counts.most_common():
        if len(kept) >= size:
            break
        kept |= _derivation(token_of[index], made_of)
    order = sorted(vocabulary[token] for token in kept)
    new = {token_of[old]: index for index, old in enumerate(order)}
    smaller = json.loads(json.dumps(tokenizer))
    smaller["model"]["vocab"] = new
    smaller["model"]["merges"] = [list(m) for m in merges if {*m, "".join(m)} <= kept]
    for added in smaller["added_tokens"]:
        added["id"] = new[added["content"]]
    return smaller, order


def _derivation(token: str, made_of: dict[str, tuple[str, ...]]) -> set[str]:
    """Return the token and everything that it is merged from."""
    found, open_tokens = set(), [token]
    while open_tokens:
        current = open_tokens.pop()
        if current not in found:
            found.add(current)
            open_tokens.extend(made_of.get(current, ()))
    return found


def spread(layers: int, kept: int) -> Sequence[int]:
    """Return which of a model's layers to keep: the first, the last, and the rest evenly between.

    >>> spread(30, 4)
    [0, 10, 19, 29]
    """
    if kept == 1:
        return [0]
    return [round(place * (layers - 1) / (kept - 1)) for place in range(kept)]


TURN_SEPARATORS = ("\n", " ")
# Where the search for a block's first step looks: this many mean sizes of its weights apart, for seven levels.
FIRST_STEPS = torch.linspace(0.3, 1.4, 34)


def spellings(dialogues: Sequence[Dialogue]) -> Iterator[str]:
    """Yield every dialogue as the model will read it: with either separator, and in the spaced style."""
    for dialogue in dialogues:
        turns = [turn.text for turn in dialogue.turns]
        yield from (separator.join(turns) for separator in TURN_SEPARATORS)
        yield spaced("\n".join(turns)).lower()


def smaller_vocabulary(base: Path, out: Path, texts: Iterable[str], size: int) -> None:
    """Write a copy of the model whose vocabulary holds only the tokens that these texts need most."""
    old = json.loads((base / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer, kept = prune(old, count_tokens(base / "tokenizer.json", texts), size)
    model = open_network(LlamaForCausalLM, base, dtype=torch.float16)
    weights = dict(model.state_dict())
    weights.pop("lm_head.weight", None)
    weights["model.embed_tokens.weight"] = weights["model.embed_tokens.weight"][torch.tensor(kept)]
    config = model.config.to_dict() | {"vocab_size": len(kept)}
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "tokenizer.json", tokenizer)
    save_model(out, weights, config, out / "tokenizer.json")


def load(folder: Path, keep_layers: int | None = None, dtype: torch.dtype = torch.float32) -> LlamaForCausalLM:
    """Return the model in a folder, with only some of its layers if asked."""
    model = open_network(LlamaForCausalLM, folder, dtype=dtype)
    if keep_layers is not None and keep_layers < len(model.model.layers):
        kept = [model.model.layers[i] for i in spread(len(model.model.layers), keep_layers)]
        for place, layer in enumerate(kept):
            layer.self_attn.layer_idx = place
        model.model.layers = nn.ModuleList(kept)
        model.config.num_hidden_layers = keep_layers
    return model


class NextTokens:
    """Stretches of dialogue, from any turn on; turns are parted by a newline or, half of the time, a space."""

    def __init__(self, dialogues: Sequence[Dialogue], config: Config, teacher: nn.Module | None = None) -> None:
        from tokenizers import Tokenizer

        self._places = Places(dialogues, first=0, power=config.corpus_power, weights=config.corpus_weights)
        self._config = config
        self._tokenizer = Tokenizer.from_file(str(config.base / "tokenizer.json"))
        self._start = json.loads((config.base / "config.json").read_text(encoding="utf-8"))["bos_token_id"]
        self._tokens = config.context_tokens + config.response_tokens
        self._teacher = [teacher]  # in a list, which worker processes and state dicts ignore

    def text(self, rng: Random) -> str:
        """Return one drawn text."""
        dialogue, turn = self._places.draw(rng)
        if rng.random() < self._config.exchanges:
            # As Holistic's authors fine-tuned: an utterance and its reply as one sentence.
            turns = [t.text for t in dialogue.turns[turn : turn + 2]]
            return " ".join(restyled(turns, rng, self._config.restyle))
        turns = [t.text for t in dialogue.turns[turn : turn + (1 if rng.random() < 0.15 else 12)]]
        return rng.choice(TURN_SEPARATORS).join(restyled(turns, rng, self._config.restyle))

    def batch(self, index: int) -> list[Batch]:
        rng = self._config.drawing(index)
        if self._config.packed:
            return [self._packed(rng, self._config.packed)]
        return self.encoded([self.text(rng) for _ in range(self._config.batch)], self._config.chunks)

    def _packed(self, rng: Random, width: int) -> Batch:
        """Return texts end to end as rows, each text after a begin-of-text token and before a newline."""
        rows, newline, ids = self._config.batch, self._tokenizer.encode("\n").ids, list[int]()
        while len(ids) < rows * width:
            for text in self._tokenizer.encode_batch_fast([self.text(rng) for _ in range(rows)]):
                ids += [self._start, *text.ids, *newline]
        table = torch.tensor(ids[: rows * width]).view(rows, width)
        return {"rows": rows, "input_ids": table, "targets": table}

    def encoded(self, texts: Sequence[str], chunks: int = 1) -> list[Batch]:
        """Return texts as tensors, in chunks of similar length."""
        ids = [[self._start, *e.ids][: self._tokens] for e in self._tokenizer.encode_batch_fast(list(texts))]
        return [
            {
                "rows": len(part),
                "input_ids": torch.from_numpy(pad([ids[i] for i in part], 0)),
                "targets": torch.from_numpy(pad([ids[i] for i in part], IGNORED)),
            }
            for part in by_length(ids, chunks)
        ]

    def responses(self, rows: Sequence[Labelled], separators: Sequence[str]) -> Batch:
        """Return responses after their contexts as tensors, the responses alone to be predicted."""
        before, after = [], []
        for row, separator in zip(rows, separators, strict=True):
            context = (row.first or "").replace(SEPARATOR, separator)
            # A space belongs to the word after it, a newline to the turn before.
            spaced_out = separator == " " and context
            before.append(context if spaced_out or not context else context + separator)
            after.append(f" {row.second}" if spaced_out else row.second)
        ids, targets = [], []
        encoded = zip(*map(self._tokenizer.encode_batch_fast, (before, after)), strict=True)
        for context_ids, response_ids in ((a.ids, b.ids) for a, b in encoded):
            head = [self._start, *context_ids[-self._config.context_tokens :]]
            tail = response_ids[: self._config.response_tokens]
            ids.append(head + tail)
            targets.append([IGNORED] * len(head) + tail)
        return {"input_ids": torch.from_numpy(pad(ids, 0)), "targets": torch.from_numpy(pad(targets, IGNORED))}

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        # Padding is on the right, where no real token attends to it.
        logits = model(input_ids=batch["input_ids"], use_cache=False).logits[:, :-1]
        targets = batch["targets"][:, 1:]
        real = targets != IGNORED
        chosen = logits[real].float()
        loss = nn.functional.cross_entropy(chosen, targets[real])
        (teacher,) = self._teacher
        if teacher is None:
            return loss
        with torch.no_grad():
            wanted = teacher(input_ids=batch["input_ids"], use_cache=False).logits[:, :-1][real].float().log_softmax(-1)
        distance = nn.functional.kl_div(chosen.log_softmax(-1), wanted, log_target=True, reduction="batchmean")
        return (1 - self._config.teacher_share) * loss + self._config.teacher_share * distance

    @torch.no_grad()
    def perplexity(self, model: nn.Module, texts: Sequence[str], size: int = 32) -> float:
        """Return the exponential of the mean loss per token of these texts."""
        model.eval()
        device = next(model.parameters()).device
        total, count = 0.0, 0
        for batch in self.encoded(texts, chunks=-(-len(texts) // size)):
            logits = model(input_ids=batch["input_ids"].to(device), use_cache=False).logits[:, :-1].float()
            targets = batch["targets"][:, 1:].to(device)
            total += float(nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="sum"))
            count += int((targets != IGNORED).sum())
        return math.exp(total / count)


class GridWeights(nn.Module):
    """Weights as a pack will store them: whole multiples of a step that each block of inputs has for itself.

    Gradients pass straight through the rounding, and stop where a weight lies beyond the outermost level. The steps
    are learnt too, each as a factor of what fits the first weights best, so that Adam moves all of them alike.
    """

    first: Tensor

    def __init__(self, weight: Tensor, levels: int) -> None:
        super().__init__()
        self.outermost = levels // 2
        blocks = self._blocks(weight.detach().float())
        size = blocks.abs().mean(-1, keepdim=True).clamp(min=1e-6)
        tried = torch.stack([size * (factor * 6 / (levels - 1)) for factor in FIRST_STEPS.tolist()])
        errors = torch.stack([(self._nearest(blocks / step) * step - blocks).square().sum(-1) for step in tried])
        best = errors.argmin(0)[None, ..., None]
        self.register_buffer("first", tried.gather(0, best)[0])
        self.factors = nn.Parameter(torch.zeros(self.first.numel()))

    def _blocks(self, weight: Tensor) -> Tensor:
        return weight.reshape(len(weight), -1, block_size(weight.shape[1]))

    def _nearest(self, multiples: Tensor) -> Tensor:
        return multiples.clamp(-self.outermost, self.outermost).round()

    def forward(self, weight: Tensor) -> Tensor:
        steps = self.first * self.factors.exp().reshape(self.first.shape)
        multiples = (self._blocks(weight) / steps).clamp(-self.outermost, self.outermost)
        rounded = multiples + (multiples.round() - multiples).detach()
        return (rounded * steps).reshape(weight.shape)

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight


def _linear_layers(model: LlamaForCausalLM) -> list[nn.Linear]:
    return [module for module in model.model.layers.modules() if isinstance(module, nn.Linear)]


def start_quantised(model: LlamaForCausalLM, levels: int) -> None:
    """Register the grid on every layer: from here on its weights train as they will be stored."""
    for layer in _linear_layers(model):
        if not parametrize.is_parametrized(layer, "weight"):
            parametrize.register_parametrization(layer, "weight", GridWeights(layer.weight, levels))


def settle_quantised(model: LlamaForCausalLM) -> None:
    """Put the stored values in place of the trained ones."""
    for layer in _linear_layers(model):
        if parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)


# Of the responses that are compared, how many stand alone, against what is left of them after their words were
# reordered, dropped or repeated.
ALONE = 0.25


def responses_of(dialogues: Sequence[Dialogue], config: Config) -> NextUtteranceTask:
    """Return the task of true and wrong responses, without facts."""
    tfidf = TfIdf(turn.text for dialogue in dialogues for turn in dialogue.turns)
    return NextUtteranceTask(dialogues, dataclasses.replace(config, fact_share=0.0), tfidf)


class Contrast:
    """Batches of dialogue, each with true and wrong responses that are compared by their likelihood."""

    def __init__(self, fluent: NextTokens, dialogues: Sequence[Dialogue], config: Config) -> None:
        self._fluent, self._task, self._config = fluent, responses_of(dialogues, config), config

    def batch(self, index: int) -> list[Batch]:
        rng = self._config.drawing(index, "contrast:")
        pairs = [self._pair(rng) for _ in range(self._config.batch)]
        true, wrong = zip(*pairs, strict=True)
        compared = self._fluent.responses([*true, *wrong], [rng.choice(TURN_SEPARATORS) for _ in pairs] * 2)
        return [*self._fluent.batch(index), compared | {"rows": len(pairs), "compared": True}]

    def _pair(self, rng: Random) -> tuple[Labelled, Labelled]:
        dialogue, turn = self._task.places.draw(rng)
        truth = dialogue.turns[turn].text
        broken = corrupted(truth, rng) if rng.random() < ALONE else None
        if broken is not None:
            truth, broken = restyled([truth, broken], rng, self._config.restyle)
            return Labelled(None, truth, 1), Labelled(None, broken, 0)
        wrong, _ = self._task.negatives.draw(dialogue, turn, self._config.mix, rng)
        style = rng.random()  # the same turns in the same style for both
        both = [
            self._task.example(dialogue, turn, text, label, "", Random(style))
            for label, text in ((1, truth), (0, wrong))
        ]
        return both[0], both[1]

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if "compared" not in batch:
            return self._fluent.loss(model, batch)
        totals, tokens = log_probs(model, batch)
        true, wrong = (totals / tokens).chunk(2)
        return self._config.contrast * preference(true, wrong, self._config.sharpness)


def preference(true: Tensor, wrong: Tensor, sharpness: float) -> Tensor:
    """Return the ranking loss of true responses against their own wrong one and against all wrong ones."""
    beside = nn.functional.softplus(-sharpness * (true - wrong)).mean()
    across = nn.functional.softplus(-sharpness * (true[:, None] - wrong[None, :])).mean()
    return (beside + across) / 2


def log_probs(model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each row's targets together, and how many they are."""
    logits = model(input_ids=batch["input_ids"], use_cache=False).logits[:, :-1]
    targets = batch["targets"][:, 1:]
    real = targets != IGNORED
    each = torch.zeros(targets.shape, device=logits.device)
    each[real] = -nn.functional.cross_entropy(logits[real].float(), targets[real], reduction="none")
    return each.sum(dim=1), real.sum(dim=1).clamp(min=1)


@torch.no_grad()
def told_apart(model: nn.Module, fluent: NextTokens, held: Sequence[Dialogue], config: Config) -> dict[str, Any]:
    """Return how often held-out true responses are likelier than wrong ones, by their sum and by their mean."""
    model.eval()
    device = next(model.parameters()).device
    task, count = responses_of(held, config), max(1, config.validate // 2)

    @functools.cache  # both forms score the same rows
    def found(rows: tuple[Labelled, ...], size: int = 64) -> tuple[Tensor, Tensor]:
        parts = []
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            batch = {name: value.to(device) for name, value in fluent.responses(part, [" "] * len(part)).items()}
            parts.append(torch.stack(log_probs(model, batch)).cpu())
        totals, tokens = torch.cat(parts, dim=1)
        return totals, tokens

    def score(rows: Sequence[Labelled], power: int) -> npt.NDArray[np.floating]:
        totals, tokens = found(tuple(rows))
        return np.stack([np.zeros(len(rows)), (totals / tokens**power).numpy()], axis=1)

    return {
        name: ranking(task, functools.partial(score, power=power), count, config.seed)
        for name, power in (("sum", 0), ("mean", 1))
    }
