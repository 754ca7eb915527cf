"""The models that read text: texts to token ids, requests to rows of ids, results to answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from turnwise.errors import TurnwiseError, in_brief
from turnwise.models.kinds import (
    CPU_BUDGET,
    KINDS,
    Batch,
    CausalLM,
    Classifier,
    Encoder,
    MaskedLM,
    Model,
    ModelKind,
    TokenRow,
    pool,
)
from turnwise.models.onnx.session import thread_count
from turnwise.models.requests import (
    WHOLE,
    Classify,
    Continuation,
    Embed,
    Floats,
    Ints,
    MaskedLikelihood,
    Pieces,
    TokenScores,
    Window,
)

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from turnwise.models.pack import Pack
    from turnwise.models.sources import Checkpoint

MASKS = ("[MASK]", "<mask>")
_NOTHING = TokenScores((), ())
# The groups of a masked language model's rows: their places are masked, or stay as they are.
MASKED, PLAIN = 0, 1


class Tokens:
    """A tokenizer with its model's limit and begin-of-text id."""

    def __init__(
        self, tokenizer: Tokenizer, limit: int | None, window: Window | None = None, begin: int | None = None
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.tokenizer, self.limit, self.window, self._begin = tokenizer, limit, window or WHOLE, begin
        added = tokenizer.get_added_tokens_decoder()
        self.special = frozenset(index for index, token in added.items() if token.special)
        self._names: dict[int, str] = {}
        self._read: dict[str, list[Encoding]] = {}

    @classmethod
    def from_bytes(
        cls,
        content: bytes,
        limit: int | None,
        window: Window | None = None,
        begin: int | None = None,
        *,
        file: str | Path = "tokenizer.json",
    ) -> Tokens:
        """Return the tokenizer in the bytes of a tokenizer.json; errors name it `file`."""
        return cls(read_tokenizer(content, file), limit, window, begin)

    @property
    def mask(self) -> int:
        """Return the id of the mask token."""
        for name in MASKS:
            if (index := self.tokenizer.token_to_id(name)) is not None:
                return int(index)
        raise TurnwiseError(f"this model's tokenizer has no mask token (looked for {', '.join(MASKS)})")

    @property
    def begin(self) -> int:
        """Return the id of the token that stands before a text."""
        if self._begin is None:
            raise TurnwiseError("model: expected a begin-of-text token, got none. Fix: use begin=False")
        return self._begin

    def name(self, token: int) -> str:
        """Return how the tokenizer spells a token."""
        if token not in self._names:
            self._names[token] = self.tokenizer.id_to_token(token) or ""
        return self._names[token]

    def read_ahead(self, texts: Iterable[str]) -> None:
        """Read texts that are about to be asked for, on all cores at a time; each is kept until it is asked for."""
        wanted = [_clean(text) for text in texts]
        self._read = {}
        for text, encoding in zip(wanted, self.tokenizer.encode_batch(wanted, add_special_tokens=False), strict=True):
            self._read.setdefault(text, []).append(encoding)

    def plain(self, text: str) -> Encoding:
        """Return the text alone, without the template's special tokens."""
        text = _clean(text)
        # An encoding that was read ahead is removed, since callers truncate it.
        return ready.pop() if (ready := self._read.get(text)) else self.tokenizer.encode(text, add_special_tokens=False)

    def encode(self, text: str, pair: str | None, window: Window | None) -> Encoding:
        """Return a text or a pair in the model's template. A pair whose first text is empty is its second alone."""
        window = window or self.window
        if pair is None or not text.strip():
            text, pair = (text if pair is None else pair), None
        first, second = (None, self.plain(text)) if pair is None else (self.plain(text), self.plain(pair))
        if first is None and window.keep == "last":
            whole = self.tokenizer.post_process(second)
            whole.truncate(min([len(whole.ids), *_totals(window, self.limit)]), direction="left")
            return whole
        special = self.tokenizer.num_special_tokens_to_add(pair is not None)
        lengths = (len(first.ids) if first else 0, len(second.ids))
        a, b = lengths_within(*lengths, special, window, self.limit)
        second.truncate(b, direction="right")
        if first is None:
            return self.tokenizer.post_process(second)
        if window.keep == "end":
            # Of bounds that hold together the total cuts ends, as longest-first truncation did for the authors.
            first.truncate(within_own_bounds(*lengths, window)[0] if window.together else a, direction="left")
        first.truncate(a, direction="right")
        return self.tokenizer.post_process(first, second)


def _clean(text: str) -> str:
    # A lone surrogate has no UTF-8 form, and the tokenizer would refuse the whole text for it.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def read_tokenizer(content: bytes, file: str | Path) -> Tokenizer:
    """Return the tokenizer that the content of a tokenizer.json holds."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_buffer(content)
    except Exception as problem:  # the library has no class of its own for this
        reason = in_brief(problem)
        raise TurnwiseError(f"{file}: not a tokenizer that can be read ({reason}); save it again") from None


def lengths_within(first: int, second: int, special: int, window: Window, limit: int | None) -> tuple[int, int]:
    """Return how many tokens of each text stay: each within its own bound, then the longer one shortened to the total.

    >>> lengths_within(200, 30, 3, Window(first=160, second=64), 512)
    (160, 30)
    >>> lengths_within(80, 80, 3, Window(total=128), 512)
    (63, 62)
    >>> lengths_within(40, 5, 3, Window(50, 25, 25, together=True), 512)
    (40, 5)
    """
    first, second = within_own_bounds(first, second, window)
    bounds = _totals(window, limit)
    excess = first + second + special - min(bounds) if bounds else 0
    for _ in range(min(max(0, excess), first + second)):
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def within_own_bounds(first: int, second: int, window: Window) -> tuple[int, int]:
    """Return how many tokens of each text its own bound leaves; bounds that hold together may leave all of both.

    >>> within_own_bounds(60, 5, Window(first=25, second=25, together=True))
    (25, 5)
    """
    bound_a = first if window.first is None else window.first
    bound_b = second if window.second is None else window.second
    if window.together and first + second <= bound_a + bound_b:
        return first, second
    return min(first, bound_a), min(second, bound_b)


def _totals(window: Window, limit: int | None) -> list[int]:
    return [bound for bound in (window.total, limit) if bound is not None]


def rectangle(rows: Sequence[Sequence[int]], types: Sequence[Sequence[int]] = ()) -> Batch:
    """Return rows of ids padded with zeros on the right, and their mask.

    >>> rectangle([[5, 6], [7]]).mask.tolist()
    [[1, 1], [1, 0]]
    """
    width = max(map(len, rows), default=0)
    ids, mask = _filled(rows, width)
    return Batch(ids, mask.astype(np.int64), _filled(types, width)[0] if types else np.zeros_like(ids))


def _filled(rows: Sequence[Sequence[int]], width: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the padded rows and their mask. An object that occurs many times is laid out once and copied."""
    places: dict[int, int] = {}
    index = [places.setdefault(id(row), len(places)) for row in rows]
    different = [row for row, place in zip(rows, index, strict=True) if places.pop(id(row), -1) == place]
    lengths = np.fromiter(map(len, different), np.int64, len(different))
    there = np.arange(width) < lengths[:, None]
    laid = np.zeros(there.shape, dtype=np.int64)
    laid[there] = np.fromiter(chain.from_iterable(different), np.int64, int(lengths.sum()))
    return laid[index], there[index]


class MissingLayer(TurnwiseError):  # noqa: N818 - as its base, it names what is wrong
    """An encoder was asked for a layer that it does not have."""

    def __init__(self, layer: int, count: int) -> None:
        super().__init__(
            f"the encoder has layers 0 to {count - 1}, and no layer {layer}; write one of them, as layer=-1"
        )
        self.layer = layer


def check_layer(layer: int, count: int) -> None:
    """Refuse a layer that an encoder with so many does not have."""
    if not -count <= layer < count:
        raise MissingLayer(layer, count)


@dataclass
class TextModel(Model):
    """A network that reads tokens; it may work on several batches at a time, or on a GPU meanwhile.

    `ahead` is the number of batches that should be begun before the first of them is waited for; `pool` holds the
    threads that they run in, where the network has none of its own. For `even` see `Model`.
    """

    network: Any
    tokens: Tokens
    fingerprint: str
    budget: int = CPU_BUDGET
    ahead: int = 0
    pool: Executor | None = None
    even: bool = False

    def read_ahead(self, requests: Iterable[Any]) -> None:
        """Read the texts of requests whose rows are about to be asked for."""
        self.tokens.read_ahead(text for request in requests for text in (request.text, request.pair) if text)

    def begin(self, rows: Sequence[TokenRow]) -> Callable[[], list[Any]]:
        """Start on rows of one group; what comes back waits for their results."""
        return self._start(rows) if self.pool is None else self.pool.submit(self.run, rows).result

    def run(self, rows: Sequence[TokenRow]) -> list[Any]:
        """Return one result per row."""
        return self._start(rows)()

    def _start(self, rows: Sequence[TokenRow]) -> Callable[[], list[Any]]:
        """Start the network on rows, and return a function that waits for their results."""
        raise NotImplementedError


@dataclass
class EncoderModel(TextModel):
    """Answers `Embed`."""

    network: Encoder

    def rows(self, request: Embed) -> list[TokenRow]:
        """Return one row; its places are the tokens that are not special."""
        encoding = self.tokens.encode(request.text, request.pair, request.window)
        ids = tuple(encoding.ids)
        places = tuple(i for i, token in enumerate(ids) if token not in self.tokens.special)
        return [TokenRow(ids, tuple(encoding.type_ids), places, group=self._layer(request.layer))]

    def _layer(self, asked: int | tuple[int, ...]) -> int:
        if isinstance(asked, int):
            return asked
        count = self.network.layers
        # Layer 0, the word embeddings, has no context, so a choice of layers skips it.
        return next((layer for layer in asked if 0 < (layer if layer >= 0 else count + layer) < count), asked[-1])

    def _start(self, rows: Sequence[TokenRow]) -> Callable[[], list[Any]]:
        """Return the hidden states of each row, without padding."""
        hidden = self.network.begin_hidden(_batch(rows), rows[0].group)
        return lambda: [states[: len(row.ids)] for states, row in zip(hidden(), rows, strict=True)]

    def answer(self, request: Embed, rows: Sequence[TokenRow], results: Sequence[Floats]) -> Floats | Pieces:
        """Return the pooled vector, or the tokens with theirs."""
        if request.pooling != "pieces":
            return pool(results[0], request.pooling, rows[0].places)
        template, ids = set(self.tokens.encode("", None, None).ids), rows[0].ids
        return Pieces(tuple(map(self.tokens.name, ids)), tuple(i in template for i in ids), np.array(results[0]))


@dataclass
class MaskedModel(TextModel):
    """Answers `MaskedLikelihood`: one row per token with that token masked, or one row for all of them."""

    network: MaskedLM

    def rows(self, request: MaskedLikelihood) -> list[TokenRow]:
        """Return one row for each masked token. Rows share ids and are masked when they run, to save memory."""
        encoding = self.tokens.encode(request.text, request.pair, request.window)
        ids, types = tuple(encoding.ids), tuple(encoding.type_ids)
        places = self._places(encoding, request.span)
        if request.masked:
            return [TokenRow(ids, types, (place,), (ids[place],), group=MASKED) for place in places]
        wanted = tuple(ids[place] for place in places)
        return [TokenRow(ids, types, places, wanted, group=PLAIN)] if places else []

    def _places(self, encoding: Encoding, span: tuple[int, int] | None) -> tuple[int, ...]:
        """Return the positions of the tokens to score."""
        sequences, offsets = encoding.sequence_ids, encoding.offsets
        last = max((sequence for sequence in sequences if sequence is not None), default=0)

        def inside(place: int) -> bool:
            begin, end = offsets[place]
            # A text that lost its opening special token has its first one in that one's place.
            if place == 0 and begin > 0:
                return False
            return span is None or (sequences[place] == last and begin >= span[0] and end <= span[1])

        special = self.tokens.special
        return tuple(place for place, token in enumerate(encoding.ids) if token not in special and inside(place))

    def _start(self, rows: Sequence[TokenRow]) -> Callable[[], list[Any]]:
        """Return the log-probabilities of the tokens at each row's places."""
        batch, sizes = _batch(rows), [len(row.places) for row in rows]
        numbers = np.repeat(np.arange(len(rows), dtype=np.int64), sizes)
        places, wanted = (
            np.fromiter(chain.from_iterable(values), np.int64, sum(sizes))
            for values in ((row.places for row in rows), (row.wanted for row in rows))
        )
        if rows[0].group == MASKED:
            batch.ids[numbers, places] = self.tokens.mask
        found = self.network.begin_log_probs(batch, numbers, places, wanted)

        def results() -> list[Any]:
            values = iter(found().tolist())
            return [list(islice(values, size)) for size in sizes]

        return results

    def answer(
        self, request: MaskedLikelihood, rows: Sequence[TokenRow], results: Sequence[list[float]]
    ) -> TokenScores:
        """Return the tokens and their log-probabilities, in the order of the text."""
        tokens = map(self.tokens.name, chain.from_iterable(row.wanted for row in rows))
        return TokenScores(tuple(tokens), tuple(chain.from_iterable(results)))


@dataclass
class CausalModel(TextModel):
    """Answers `Continuation`. Rows with the same context share one reading of it."""

    network: CausalLM

    def read_ahead(self, requests: Iterable[Continuation]) -> None:
        """Read the texts of requests whose rows are about to be asked for."""
        self.tokens.read_ahead(request.context + request.response for request in requests)

    def rows(self, request: Continuation) -> list[TokenRow]:
        """Return one row that ends before the last response token, since each position predicts the next token."""
        encoding = self.tokens.plain(request.context + request.response)
        # A token that reaches over the seam belongs to the response, so none of the response goes unjudged.
        start = sum(end <= len(request.context) for _, end in encoding.offsets)
        context, response = encoding.ids[:start], encoding.ids[start:]
        window = request.window or self.tokens.window
        response = response[: window.second]
        bounds = [bound for bound in (window.total, self.tokens.limit) if bound is not None]
        room = min(bounds) - request.begin if bounds else len(context) + len(response)
        response = response[:room]
        kept = min(len(context), room - len(response), *([window.first] if window.first is not None else []))
        context = context[len(context) - kept :]
        if request.begin:
            context = [self.tokens.begin, *context]
        elif not context:
            context, response = response[:1], response[1:]
        if not response:
            return []
        return [TokenRow((context[-1], *response[:-1]), wanted=tuple(response), prefix=tuple(context[:-1]))]

    def _start(self, rows: Sequence[TokenRow]) -> Callable[[], list[Any]]:
        """Return the log-probabilities of each row's wanted tokens."""
        places: dict[tuple[int, ...], int] = {}
        source = np.array([places.setdefault(row.prefix, len(places)) for row in rows], dtype=np.int64)
        ids, wanted = (rectangle(each) for each in ([row.ids for row in rows], [row.wanted for row in rows]))
        found = self.network.begin_log_probs(rectangle(list(places)), source, ids, wanted.ids)
        return lambda: [values[: len(row.wanted)].tolist() for values, row in zip(found(), rows, strict=True)]

    def answer(self, request: Continuation, rows: Sequence[TokenRow], results: Sequence[list[float]]) -> TokenScores:
        """Return the response's tokens and their log-probabilities."""
        return TokenScores(tuple(map(self.tokens.name, rows[0].wanted)), tuple(results[0])) if rows else _NOTHING


@dataclass
class ClassifierModel(TextModel):
    """Answers `Classify`."""

    network: Classifier

    def rows(self, request: Classify) -> list[TokenRow]:
        """Return one row."""
        encoding = self.tokens.encode(request.text, request.pair, request.window)
        return [TokenRow(tuple(encoding.ids), tuple(encoding.type_ids))]

    def _start(self, rows: Sequence[TokenRow]) -> Callable[[], list[Any]]:
        """Return the probabilities of each row's labels."""
        logits = self.network.begin_logits(_batch(rows))
        return lambda: softmax(logits()).tolist()

    def answer(self, request: Classify, rows: Sequence[TokenRow], results: Sequence[Any]) -> dict[str, float]:
        """Return probabilities by label."""
        return dict(zip(self.network.labels, results[0], strict=True))


def softmax(logits: Floats) -> npt.NDArray[np.float64]:
    """Return probabilities in double precision, since good responses crowd together just below 1.

    >>> softmax(np.zeros((1, 2), dtype=np.float32)).tolist()
    [[0.5, 0.5]]
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = shifted / shifted.sum(axis=-1, keepdims=True)
    return probabilities


def _batch(rows: Sequence[TokenRow]) -> Batch:
    return rectangle([row.ids for row in rows], [row.types for row in rows])


def _from_pack(of: type[TextModel], network: str, needed: set[str]) -> Callable[[Pack, str], Model]:
    """Return a function that opens a role of a pack whose graph takes or gives what is needed."""

    def opened(pack: Pack, role: str) -> Model:
        from turnwise.models.onnx import networks

        entry, tokens, session = pack.manifest.role(role), pack.tokens(role), pack.session(role)
        own = {entry.head or ""} if of is ClassifierModel else set()
        networks.check_graph(session, entry.kind, needed | own)
        head = (entry.head, entry.labels) if of is ClassifierModel else ()
        wrapped = getattr(networks, network)(session, *head)
        # Twice as many as there are threads: none waits while results are used.
        return of(wrapped, tokens, pack.fingerprint(role), ahead=2 * thread_count(), pool=pack.pool, even=True)

    return opened


def _from_checkpoint(of: type[TextModel], network: str, auto: str) -> Callable[[Checkpoint], Model]:
    """Return a function that opens a checkpoint with a class of transformers."""

    def opened(checkpoint: Checkpoint) -> Model:
        module = checkpoint.load(auto)
        from turnwise.models import torch_networks

        return checkpoint.text_model(of, getattr(torch_networks, network)(module))

    return opened


def _classifier_from_checkpoint(checkpoint: Checkpoint) -> Model:
    """Open a sequence classifier, or a head that `turnwise train` wrote over its trunk."""
    folder = Path(checkpoint.name)
    trained = (folder / "heads.json").is_file()
    module = checkpoint.load("AutoModel" if trained else "AutoModelForSequenceClassification")
    from turnwise.models import torch_networks

    if not trained:
        names = module.config.id2label
        labels = checkpoint.labels or tuple(names[i].lower() for i in range(len(names)))
        return checkpoint.text_model(ClassifierModel, torch_networks.TorchClassifier(module, labels))
    layout = json.loads((folder / "heads.json").read_text(encoding="utf-8"))
    head = checkpoint.head or next(iter(layout["heads"]))
    if head not in layout["heads"]:
        raise TurnwiseError(f"{folder}: no head '{head}'; it has: {', '.join(layout['heads'])}")
    labels = checkpoint.labels or tuple(layout["heads"][head]["labels"])
    own = Window(first=layout["first_tokens"], second=layout["second_tokens"])
    window = own if checkpoint.window == WHOLE else checkpoint.window
    network = torch_networks.TorchHead(module, folder / "heads.safetensors", head, layout, labels)
    return replace(checkpoint, head=head, labels=labels, window=window).text_model(ClassifierModel, network)


ASKED, REPLY = "Do you like music?", "Yes, I play the piano."
for _kind in (
    ModelKind(
        "encoder",
        Embed,
        _from_pack(EncoderModel, "OnnxEncoder", {"types", "layer_0"}),
        _from_checkpoint(EncoderModel, "TorchEncoder", "AutoModel"),
        lambda role: Embed(ASKED, REPLY, role=role),
        architectures=("Model",),
    ),
    ModelKind(
        "masked-lm",
        MaskedLikelihood,
        _from_pack(MaskedModel, "OnnxMaskedLM", {"asked_rows", "log_probs"}),
        _from_checkpoint(MaskedModel, "TorchMaskedLM", "AutoModelForMaskedLM"),
        lambda role: MaskedLikelihood(REPLY, role=role),
        architectures=("ForMaskedLM",),
    ),
    ModelKind(
        "causal-lm",
        Continuation,
        _from_pack(CausalModel, "OnnxCausalLM", {"past", "log_probs"}),
        _from_checkpoint(CausalModel, "TorchCausalLM", "AutoModelForCausalLM"),
        lambda role: Continuation(ASKED, " " + REPLY, role=role),
        architectures=("ForCausalLM", "LMHeadModel"),
    ),
    ModelKind(
        "classifier",
        Classify,
        _from_pack(ClassifierModel, "OnnxClassifier", {"types"}),
        _classifier_from_checkpoint,
        lambda role: Classify(ASKED, REPLY, role=role),
        architectures=("ForSequenceClassification",),
        folders=("nup", "dr-f", "vup", "nli", "emotion"),
    ),
):
    KINDS.add(_kind.name, _kind, module=__name__)
