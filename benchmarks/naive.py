"""Scoring as the papers' releases do it: torch in fp32, one text at a time, in the order in which they come.

Nothing is shared: a masked language model reads the text once for every token and gives logits for every place, a
causal one reads the context once alone and once with the response, and MAUDE encodes the whole conversation anew for
every turn. What a classifier reads is padded to the 128 tokens of USR's release, whose retrieval models are given
every pair at that length; a longer text is read whole, since ours is. Tokenising and formulas are ours, so that scores
can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from turnwise.dialogue import Example
from turnwise.metrics.registry import load_metric
from turnwise.models.kinds import TokenRow
from turnwise.models.maude import State
from turnwise.models.requests import Classify, Continuation, Converse, MaskedLikelihood, Request, TokenScores
from turnwise.models.sources import CheckpointModels
from turnwise.models.torch_networks import pool

# The fixed length of a pair in USR's release.
PADDED = 128


def scores(request: str, examples: Sequence[Example], models: CheckpointModels, padded: int = PADDED) -> list[float]:
    """The scores of all examples; `padded` is the least length at which a classifier reads a text."""
    metric, found = load_metric(request), []
    for example in examples:
        answers = [answer(asked, models, padded) for asked in metric.requests(example)]
        found.append(float(metric.judge(example, answers).value or 0.0))
    return found


@torch.inference_mode()
def answer(request: Request, models: CheckpointModels, padded: int = PADDED) -> Any:
    """The answer to one request."""
    model: Any = models.model(request.role)
    if isinstance(request, Converse):
        return _conversation(request, model)
    rows = model.rows(request)
    if isinstance(request, MaskedLikelihood):
        return model.answer(request, rows, [[_masked(model, row)] for row in rows])
    if isinstance(request, Continuation):
        return _continued(model, rows)
    if isinstance(request, Classify):
        return model.answer(request, rows, [_classified(model, row, padded) for row in rows])
    return model.answer(request, rows, [model.run([row])[0] for row in rows])


def _masked(model: Any, row: TokenRow) -> float:
    ids = list(row.ids)
    ids[row.places[0]] = model.tokens.mask
    module = model.network.module
    logits = module(input_ids=torch.tensor([ids]), token_type_ids=torch.tensor([row.types])).logits
    return float(torch.log_softmax(logits, dim=-1)[0, row.places[0], row.wanted[0]])


def _classified(model: Any, row: TokenRow, padded: int) -> list[float]:
    """The probabilities of the labels, from what a tokenizer of transformers gives: ids, types and a mask."""
    head, module = model.network, model.network.module
    padding = [0] * (padded - len(row.ids))
    mask = torch.tensor([[1] * len(row.ids) + padding])
    ids, types = torch.tensor([[*row.ids, *padding]]), torch.tensor([[*row.types, *padding]])
    inputs = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}
    pooled = pool(module(**inputs).last_hidden_state, mask[..., None], head._pooling)
    inner = head._activation(torch.nn.functional.linear(pooled, *head._dense))
    found: list[float] = torch.softmax(torch.nn.functional.linear(inner, *head._out).double(), dim=-1)[0].tolist()
    return found


def _continued(model: Any, rows: Sequence[TokenRow]) -> TokenScores:
    """The likelihood of the whole text less that of the context, each by a forward pass of its own."""
    (row,) = rows
    context, whole = [*row.prefix, row.ids[0]], [*row.prefix, row.ids[0], *row.wanted]
    total = _likelihood(model.network.module, whole) - _likelihood(model.network.module, context)
    count = len(row.wanted)
    return TokenScores(("",) * count, (total / count,) * count)


def _likelihood(module: Any, ids: Sequence[int]) -> float:
    given = torch.tensor([list(ids)])
    found = torch.log_softmax(module(input_ids=given, use_cache=False).logits[0, :-1], dim=-1)
    return float(found.gather(1, given[0, 1:, None]).double().sum())


def _conversation(request: Converse, model: Any) -> dict[str, float]:
    head, state = model.head, State()
    texts = [" ".join(text.split()) for text in (*request.turns, request.response)]
    vectors = [model.encoder.vectors([model.encoder.row(text)])[0] for text in texts]
    for vector in vectors[:-1]:
        state = head.read(state, head.project(vector))
    chance = head.score(head.context(state), head.project(np.asarray(vectors[-1])))
    return {"other": 1 - chance, "next": chance}
