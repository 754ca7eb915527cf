"""Saying an utterance again in other words: positives, and the pool of wrong paraphrases, for MAUDE.

The authors translated to German and back. Where no such models are at hand, synonyms from WordNet or a causal
language model stand in; whoever trains says which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from turnwise.errors import TurnwiseError
from turnwise.models.generate import Writer
from turnwise.text.augment.substitute import Sense, paraphrases

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
