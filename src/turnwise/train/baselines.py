"""The learned baselines: small networks over precomputed vectors that separate true from wrong responses.

RUBER and InferSent read words with a recurrent network, BERT-RUBER, PONE and DistilBERT-NLI take an encoder's vectors
as they are; skip-thought learns to find the utterance that stands next to another. Their weights have the names that
`turnwise.models.heads` works them out by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from turnwise.engine.answer import answer_requests
from turnwise.engine.cache import Cache
from turnwise.models.heads import CONTEXT_TURNS, CONTEXT_WORDS, LAYER, Activation, directions
from turnwise.models.pack import Pack
from turnwise.models.requests import Embed, Lookup
from turnwise.text.tokenise import plain_words
from turnwise.train.loop import Columns, Indices

NOTHING = -1


class Texts:
    """Gives every text that is added a number, the same text the same one."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, texts: Iterable[str]) -> npt.NDArray[np.int64]:
        """Return the numbers of these texts."""
        return np.array([self._numbers.setdefault(text, len(self._numbers)) for text in texts], dtype=np.int64)

    def listed(self) -> list[str]:
        """Return all texts in the order of their numbers."""
        return list(self._numbers)

    def vectors(self, pack: Pack, cache: Cache | None) -> npt.NDArray[np.float32]:
        """Return the encoder's vector of every text."""
        requests = [Embed(text, layer=LAYER) for text in self.listed()]
        answers = answer_requests(requests, pack, cache=cache)
        return np.stack([np.asarray(answers[request], dtype=np.float32) for request in requests])

    def words(self, pack: Pack) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Return vectors of length one of all words that occur, and each text's last words as numbers of their rows."""
        split = [plain_words(text)[-CONTEXT_WORDS:] for text in self.listed()]
        names = {word: i for i, word in enumerate(dict.fromkeys(word for words in split for word in words))}
        request = Lookup(tuple(names))
        vectors = directions(np.asarray(answer_requests([request], pack)[request], dtype=np.float32))
        ids = np.full((len(split), CONTEXT_WORDS), NOTHING, dtype=np.int32)
        for row, words in zip(ids, split, strict=True):
            row[: len(words)] = [names[word] for word in words]
        return vectors, ids


def context_of(turns: Sequence[str]) -> str:
    """Return the last turns of a context, which the baselines read, as one text."""
    return " ".join(turns[-CONTEXT_TURNS:])


Features = Literal["related", "compared"]
Ids = npt.NDArray[np.int32]
LOWEST = -1e4
WIDTH = 64


class Judge(nn.Module):
    """Two vectors to the logit that they belong together; the texts are rows of a table of vectors."""

    table: Tensor

    def __init__(
        self,
        table: npt.NDArray[np.float32],
        features: Features,
        hidden: Sequence[int],
        *,
        width: int | None = None,
        activation: Activation = "relu",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.register_buffer("table", torch.from_numpy(table), persistent=False)
        width = width or table.shape[1]
        self.features, self.activation = features, activation
        # Starts as the identity: a few thousand pairs do not train a random matrix well.
        start = torch.eye(width) / (width if features == "related" else 1)
        self.matrix = nn.Parameter(start)
        sizes = [2 * width + 1 if features == "related" else 4 * width, *hidden, 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = nn.Dropout(dropout)

    def read(self, name: str, texts: Tensor) -> Tensor:
        """Return the vectors of texts, given by number."""
        return self.table[texts]

    def forward(self, contexts: Tensor, responses: Tensor) -> Tensor:
        """Return the logits (rows, responses) of several responses to each context."""
        rows, count = responses.shape
        context = self.read("context", contexts)[:, None].expand(-1, count, -1)
        response = self.read("response", responses.reshape(-1)).reshape(rows, count, -1)
        if self.features == "related":
            product = ((context @ self.matrix) * response).sum(dim=-1, keepdim=True)
            hidden = torch.cat([context, product, response], dim=-1)
        else:
            mapped = context @ self.matrix.T
            hidden = torch.cat([mapped, response, (mapped - response).abs(), mapped * response], dim=-1)
        for layer in self.layers[:-1]:
            hidden = layer(hidden)
            hidden = self.dropout(hidden.tanh() if self.activation == "tanh" else hidden.relu())
        logits: Tensor = self.layers[-1](hidden)
        return logits[..., 0]


class TextJudge(Judge):
    """The same over texts that a recurrent network reads word by word, one network for each side.

    `texts` holds each text's words as numbers of rows of `vectors`, filled up with `NOTHING`. Both networks start from
    what `thoughts` learnt, if it is given: a few thousand pairs alone do not teach reading.
    """

    texts: Tensor

    def __init__(
        self,
        vectors: npt.NDArray[np.float32],
        texts: Ids,
        features: Features,
        hidden: Sequence[int],
        *,
        width: int = WIDTH,
        thoughts: Thoughts | None = None,
        **of: Any,
    ) -> None:
        super().__init__(vectors, features, hidden, width=2 * width, **of)
        self.register_buffer("texts", torch.from_numpy(texts), persistent=False)
        self.context, self.response = (_both_ways(vectors, width) for _ in range(2))
        start = self.context if thoughts is None else thoughts.bi
        for network in (self.context, self.response):
            network.load_state_dict(start.state_dict())

    def read(self, name: str, texts: Tensor) -> Tensor:
        # The same utterance can be the wrong response of several rows: it is encoded once.
        unique, places = torch.unique(texts, return_inverse=True)
        return _read(getattr(self, name), self.table, self.texts[unique])[places]


class Thoughts(nn.Module):
    """Skip-thought by discrimination: picks the neighbour of an utterance among those of a batch.

    One network reads forwards and one both ways; `following` maps an utterance's vector to where the next one should
    be, and backwards to where the one before should. It serves training alone.
    """

    table: Tensor
    texts: Tensor

    def __init__(self, vectors: npt.NDArray[np.float32], texts: Ids, width: int = WIDTH) -> None:
        super().__init__()
        self.register_buffer("table", torch.from_numpy(vectors), persistent=False)
        self.register_buffer("texts", torch.from_numpy(texts), persistent=False)
        self.uni = nn.GRU(vectors.shape[1], width, batch_first=True)
        self.bi = _both_ways(vectors, width)
        self.following = nn.Linear(3 * width, 3 * width, bias=False)

    def forward(self, texts: Tensor) -> Tensor:
        """Return the vectors of texts, given by number."""
        ids = self.texts[texts]
        return torch.cat([_read(network, self.table, ids) for network in (self.uni, self.bi)], dim=1)


def _both_ways(vectors: npt.NDArray[np.float32], width: int) -> nn.GRU:
    return nn.GRU(vectors.shape[1], width, batch_first=True, bidirectional=True)


def _read(network: nn.GRU, table: Tensor, ids: Tensor) -> Tensor:
    """Return the maximum of a recurrent network's states by dimension; an empty text is one word of zeros."""
    lengths = (ids != NOTHING).sum(dim=1).clamp(min=1)
    ids = ids[:, : int(lengths.max())]
    words = table[ids.clamp(min=0)] * (ids != NOTHING)[..., None]
    packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
    states, _ = pad_packed_sequence(network(packed)[0], batch_first=True, padding_value=LOWEST)
    return states.amax(dim=1)


def load_thoughts(weights: Mapping[str, npt.NDArray[np.float32]]) -> Thoughts:
    """Return a trained skip-thought network from its saved weights."""
    wide, read = weights["uni.weight_hh_l0"].shape[1], weights["uni.weight_ih_l0"].shape[1]
    model = Thoughts(np.zeros((1, read), np.float32), np.zeros((1, 1), np.int32), wide)
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()}, strict=False)
    return model


# The networks by role, as published except for their widths and their start from skip-thought.
READERS: Mapping[str, Callable[[Any, Ids, Thoughts | None], TextJudge]] = {
    "ruber": lambda vectors, ids, start: TextJudge(
        vectors, ids, "related", (128,), activation="tanh", dropout=0.5, thoughts=start
    ),
    "infersent": lambda vectors, ids, start: TextJudge(vectors, ids, "compared", (200,), dropout=0.2, thoughts=start),
}
JUDGES: Mapping[str, Callable[[Any], Judge]] = {
    "bert-ruber": lambda table: Judge(table, "related", (256, 512, 128)),
    "pone": lambda table: Judge(table, "related", (256, 512, 128)),
    "bert-nli": lambda table: Judge(table, "compared", (200,), dropout=0.2),
}


# --- what they learn from ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbered:
    """Texts by number: those of the contexts, of the true responses, and of their wrong ones (rows, kinds)."""

    contexts: npt.NDArray[np.int64]
    responses: npt.NDArray[np.int64]
    wrong: npt.NDArray[np.int64]

    def columns(self) -> Columns:
        """Return each context with its true response first and all its wrong ones."""
        return Columns({"context": self.contexts, "responses": np.column_stack([self.responses, self.wrong])})


@dataclass(frozen=True)
class DrawnPairs:
    """Each context with its true response and one wrong one, drawn anew every time.

    Uniformly; or, with the responses' unit `vectors`, out of `candidates` by how much they resemble the true one
    (PONE's enhanced negatives). A third of such batches is drawn uniformly all the same, as PONE has every third epoch.
    """

    texts: Numbered
    vectors: npt.NDArray[np.float32] | None = None
    candidates: int = 100
    temperature: float = 0.05

    def __len__(self) -> int:
        return len(self.texts.contexts)

    def batch(self, places: Indices, rng: np.random.Generator) -> dict[str, Tensor]:
        """Return the rows at these places, each with what is drawn for it."""
        truth = self.texts.responses[places]
        others = self.texts.responses[rng.integers(len(self), size=(len(places), self.candidates))]
        chosen = np.zeros(len(places), dtype=np.int64)
        if self.vectors is not None and rng.random() < 2 / 3:
            likeness = np.einsum("nd,ncd->nc", self.vectors[truth], self.vectors[others]) / self.temperature
            # The largest of scores with Gumbel noise is a draw from their softmax.
            likeness = np.where(others == truth[:, None], -np.inf, likeness)
            chosen = (likeness + rng.gumbel(size=likeness.shape)).argmax(axis=1)
        responses = np.stack([truth, others[np.arange(len(places)), chosen]], axis=1)
        return {"context": torch.from_numpy(self.texts.contexts[places]), "responses": torch.from_numpy(responses)}


def judge_loss(model: Any, batch: Any) -> Tensor:
    """Return mean binary cross-entropy over the true response, which comes first, and the wrong ones."""
    logits = model(batch["context"], batch["responses"])
    truth = torch.zeros_like(logits)
    truth[:, 0] = 1
    return nn.functional.binary_cross_entropy_with_logits(logits, truth)


def neighbour_loss(model: Any, batch: Any) -> Tensor:
    """Return the cross-entropy of picking, among a batch's utterances, the next one and the previous one."""
    first, second = model(batch["first"]), model(batch["second"])
    scores = nn.functional.normalize(model.following(first)) @ nn.functional.normalize(second).T / 0.05
    numbers = torch.arange(len(scores), device=scores.device)
    return (nn.functional.cross_entropy(scores, numbers) + nn.functional.cross_entropy(scores.T, numbers)) / 2


def probabilities(model: Any, batch: Any) -> Tensor:
    """Return the network's probability for each response."""
    chances: Tensor = model(batch["context"], batch["responses"]).sigmoid()
    return chances


def unit(table: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return vectors of length one."""
    scaled: npt.NDArray[np.float32] = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
    return scaled


def weights_of(model: nn.Module) -> dict[str, npt.NDArray[np.float32]]:
    """Return a trained network's weights by name, without those that only training uses."""
    return {
        name: weight.detach().cpu().numpy().astype(np.float32)
        for name, weight in model.state_dict().items()
        if not name.startswith("following")
    }
