"""`--models paper`: each role's model as its paper had it, by its name on the hub, through transformers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnwise.errors import TurnwiseError
from turnwise.models.kinds import Model, ModelSource
from turnwise.models.requests import WHOLE, Window
from turnwise.models.transformers_backend import Kind, open_transformers


@dataclass(frozen=True)
class Source:
    """A hub model and how its paper used it. Without labels the model's own are used."""

    kind: Kind
    name: str
    window: Window = WHOLE
    labels: tuple[str, ...] = ()
    trained: bool = True


# Where `trained` is false the paper fine-tuned the model on its own dialogues and the hub holds only the base:
# a fresh classifier head would answer at random, so it is refused rather than used.
PAPER: dict[str, Source] = {
    "encoder": Source("encoder", "bert-base-uncased"),
    "encoder-roberta": Source("encoder", "roberta-base"),
    "encoder-roberta-large": Source("encoder", "roberta-large"),
    "encoder-distilbert": Source("encoder", "distilbert-base-uncased"),
    "masked-lm": Source("masked-lm", "roberta-base"),
    "masked-lm-bert": Source("masked-lm", "bert-base-uncased"),
    "causal-lm": Source("causal-lm", "gpt2"),
    "nli": Source(
        "classifier",
        "roberta-large-mnli",
        Window(total=128, keep="start"),
        ("contradiction", "neutral", "entailment"),
    ),
    "nup": Source("classifier", "bert-base-uncased", trained=False),
    "dr-f": Source("classifier", "roberta-base", Window(total=128, keep="start"), trained=False),
    "vup": Source("classifier", "bert-base-uncased", Window(total=25), trained=False),
    "emotion": Source("classifier", "bert-base-uncased", trained=False),
}


class PaperModels(ModelSource):
    """The papers' models by role; loaded when first asked for."""

    name = "paper"

    def __init__(self, device: str = "auto") -> None:
        self._device = device
        self._models: dict[str, Model] = {}

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that the hub has a ready model for."""
        return tuple(role for role, source in PAPER.items() if source.trained)

    def label(self, roles: Iterable[str]) -> str:
        """The names of the models that answer for these roles."""
        return "+".join(dict.fromkeys(self._source(role).name for role in sorted(roles)))

    def _source(self, role: str) -> Source:
        if role not in PAPER:
            has = f"it has: {', '.join(self.roles)}"
            raise TurnwiseError(f"--models paper has no model for '{role}'; give other --models ({has})")
        return PAPER[role]

    def model(self, role: str) -> Model:
        """The model of a role."""
        source = self._source(role)
        if not source.trained:
            raise TurnwiseError(
                f"--models paper: '{role}' was {source.name} fine-tuned on dialogues, of which the hub has no copy; "
                f"train one (see 'turnwise train --help'), and give --models its folder or a pack that is built with it"
            )
        if role not in self._models:
            self._models[role] = open_transformers(
                source.kind, source.name, device=self._device, window=source.window, labels=source.labels
            )
        return self._models[role]
