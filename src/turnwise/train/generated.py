"""Saying an utterance again in other words: positives, and the pool of wrong paraphrases, for MAUDE.

The authors translated to German and back. Where no such models are at hand, synonyms from WordNet or a causal
language model stand in; whoever trains says which.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from turnwise.errors import TurnwiseError
from turnwise.files import write_text
from turnwise.models.generate import Writer
from turnwise.text.augment.substitute import Sense, paraphrases
from turnwise.text.inputs import CONTEXT_TOKENS, CONTEXT_TURNS, restyled
from turnwise.train.checkpoint import open_network
from turnwise.train.dialogues import lines_of

if TYPE_CHECKING:
    from turnwise.train.sampling import Places


TEMPERATURES = (0.4, 0.7, 1.0)
MOST_TOKENS = 40
NUCLEUS = 0.95


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What was said, what a model replied, and what the one whose place it took had said last, if anything."""

    context: tuple[str, ...]
    response: str
    earlier: str = ""


@lru_cache(maxsize=2)
def read_replies(path: Path | None) -> tuple[ModelReply, ...]:
    """The replies in a file; none where there is no file."""
    if path is None:
        return ()
    rows = (json.loads(line) for _, line in lines_of(path))
    return tuple(ModelReply(tuple(row["context"]), row["response"], row["earlier"]) for row in rows)


def write_replies(path: Path, replies: Sequence[ModelReply]) -> None:
    """One reply a line."""
    write_text(path, (json.dumps(asdict(reply)) + "\n" for reply in replies))


def asked(places: Places, rng: Random) -> ModelReply:
    """A place in a dialogue where a reply is wanted."""
    dialogue, turn = places.draw(rng)
    kept = rng.randint(1, CONTEXT_TURNS) if rng.random() < 0.5 else CONTEXT_TURNS
    before = dialogue.turns[max(0, turn - kept) : turn]
    speaker = dialogue.turns[turn].speaker
    earlier = next((t.text for t in reversed(before) if t.speaker == speaker), "")
    context = restyled([t.text for t in before], rng, 0.1)
    return ModelReply(tuple(context), "", earlier)


class Replier:
    """A causal language model in a folder that writes many replies at once."""

    def __init__(self, folder: Path, device: str) -> None:
        import torch
        from tokenizers import Tokenizer
        from transformers import LlamaForCausalLM

        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        model: Any = open_network(LlamaForCausalLM, folder, dtype=dtype)
        self._model: Any = model.to(device).eval()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._start = int(self._model.config.bos_token_id)
        self._end = int(self._tokenizer.encode("\n").ids[-1])
        self._device = device

    def __call__(self, contexts: Sequence[Sequence[str]], temperature: float, seed: int) -> list[str]:
        """A reply to each context: one line."""
        import torch

        texts = ["\n".join([*context, ""]) for context in contexts]
        ids = [[self._start, *e.ids[-CONTEXT_TOKENS:]] for e in self._tokenizer.encode_batch_fast(texts)]
        width = max(map(len, ids))
        rows = torch.tensor([[self._start] * (width - len(row)) + row for row in ids], device=self._device)
        real = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids], device=self._device)
        torch.manual_seed(seed)
        with torch.no_grad():
            written = self._model.generate(
                input_ids=rows, attention_mask=real, max_new_tokens=MOST_TOKENS, do_sample=True, top_k=0,
                temperature=temperature, top_p=NUCLEUS, eos_token_id=self._end, pad_token_id=self._end,
            )  # fmt: skip
        lines = self._tokenizer.decode_batch(written[:, width:].tolist())
        return [_whole(line) for line in lines]


def _whole(text: str) -> str:
    r"""The line that was written; of one that was cut off, its whole sentences, if there are any.

    >>> _whole("Yes. So\n"), _whole("Yes, I do. And it is"), _whole("Never")
    ('Yes. So', 'Yes, I do.', 'Never')
    """
    line, end, _ = text.partition("\n")
    whole = len(line) if end else max(line.rfind(mark) for mark in ".!?") + 1
    return (line[:whole] or line).strip()


def replies(replier: Replier, places: Places, seed: int, size: int) -> Iterator[list[ModelReply]]:
    """Replies without end, a batch at a time; what is empty is left out."""
    number = 0
    while True:
        rng = Random(f"{seed}:reply:{number}")
        wanted = [asked(places, rng) for _ in range(size)]
        said = replier([one.context for one in wanted], rng.choice(TEMPERATURES), number)
        yield [ModelReply(one.context, text, one.earlier) for one, text in zip(wanted, said, strict=True) if text]
        number += 1


# Three examples teach a language model that was never told to rewrite what a rewrite is.
EXAMPLES = (
    ("i have two dogs and a cat .", "there are two dogs and a cat at my home ."),
    ("what do you do for a living ?", "what is your job ?"),
    ("i am not a fan of cooking .", "i do not really like to cook ."),
)
GERMAN = ("Helsinki-NLP/opus-mt-en-de", "Helsinki-NLP/opus-mt-de-en")
BEAMS = 5


class Paraphraser(Protocol):
    """Says utterances again. One that it can say in no other way comes back as it was."""

    name: str

    def say_again(self, texts: Sequence[str]) -> list[str]:
        """Another wording of each text, in order."""


@dataclass(frozen=True)
class Synonyms:
    """WordNet substitution."""

    sense: Sense = "first"
    seed: int = 0
    name: str = field(default="wordnet", init=False)

    def say_again(self, texts: Sequence[str]) -> list[str]:
        """One kind of word is exchanged in each text: its verbs, its nouns or its modifiers, whichever come first."""
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> str:
        found = paraphrases(text, sense=self.sense, seed=self.seed)
        return found[0].text if found else text


@dataclass
class Rewriter:
    """A causal language model that is shown how a rewrite looks and writes one; its best that is new is taken."""

    writer: Writer
    name: str = field(default="causal-lm", init=False)

    def say_again(self, texts: Sequence[str]) -> list[str]:
        """One rewrite of each text."""
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> str:
        line = " ".join(text.split())
        found = self.writer.beams(rewriting_prompt(line), 3)
        return next((beam.text for beam in found if beam.text.lower() != line.lower()), text)


def rewriting_prompt(text: str) -> str:
    """Examples of rewriting, and the text that is to be rewritten next.

    >>> rewriting_prompt("hi !").splitlines()[-2:]
    ['said: hi !', 'in other words:']
    """
    shown = [f"said: {said}\nin other words: {again}" for said, again in EXAMPLES]
    return "\n".join([*shown, f"said: {text}", "in other words:"])


class BackTranslation:
    """English to German and back by two MarianMT models, by names on a hub or folders; needs the extra [torch]."""

    name = "back-translation"

    def __init__(
        self,
        models: tuple[str | Path, str | Path] = GERMAN,
        *,
        beams: int = BEAMS,
        batch: int = 32,
        open_model: Callable[[str | Path], tuple[Any, Any]] | None = None,
    ) -> None:
        self._beams, self._batch = beams, batch
        self._steps = [(open_model or open_marian)(model) for model in models]

    def say_again(self, texts: Sequence[str]) -> list[str]:
        """Each text, there and back."""
        said = list(texts)
        for tokens, network in self._steps:
            parts = (said[start : start + self._batch] for start in range(0, len(said), self._batch))
            said = [text for part in parts for text in self._translate(part, tokens, network)]
        return [again.strip() or text for text, again in zip(texts, said, strict=True)]

    def _translate(self, texts: Sequence[str], tokens: Any, network: Any) -> list[str]:
        import torch

        with torch.no_grad():
            inputs = tokens(list(texts), return_tensors="pt", padding=True, truncation=True)
            written = network.generate(**inputs, num_beams=self._beams)
        found: list[str] = tokens.batch_decode(written, skip_special_tokens=True)
        return found


def open_marian(model: str | Path) -> tuple[Any, Any]:
    """The tokenizer and the network of a translation model."""
    try:
        from transformers import AutoTokenizer, MarianMTModel
    except ImportError:
        raise TurnwiseError("back-translation needs torch; pip install 'turnwise[torch]'") from None
    try:
        network: Any = MarianMTModel.from_pretrained(model, use_safetensors=True)
        return AutoTokenizer.from_pretrained(model), network.train(False)
    except (OSError, ValueError, ImportError) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise TurnwiseError(f"{model}: not a MarianMT model in safetensors that opens ({reason})") from None
