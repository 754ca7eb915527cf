"""What can be chosen when MAUDE (Sinha et al. 2020) is trained, and the forms that were published."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from turnwise.errors import TurnwiseError
from turnwise.models.maude_head import Difference
from turnwise.train.maude_data import KINDS, SEMANTICS, SYNTAX, Kind

Loss = Literal["mean", "paper"]
Down = Literal["learned", "pca"]
# "all" in the papers' tables; corrupted contexts are not among them.
SETS: Mapping[str, tuple[Kind, ...]] = {"all": SYNTAX + SEMANTICS, "semantics": SEMANTICS, "syntax": SYNTAX}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Everything that can be chosen. The defaults are those of the recommended form; `MODES` has the other two.

    `weights` says how much a kind of negative counts beside the others, 1 where nothing is said. `reworded` is how
    often a positive is replaced by its paraphrase. `standardise` centres and scales the encoder's vectors.

    `recent` are rates at which turns fade: the scorer is also told how alike the response is to the turns so far, once
    for each rate; 0 is the last turn alone. `in_batch` is how many true responses of other dialogues of the batch
    are random utterances too, and `contrast` how much it counts to pick the true response out of these, and out of
    `in_dialogue` responses to other turns of its own dialogue, which are on its topic. `sharpness` gives more of the
    batch's weight to those that the network takes for true: 0 to all of them alike. `learning` names the parts of the
    network that learn, such as `down`: all of them if it is empty.
    """

    negatives: tuple[Kind, ...] = SETS["all"]
    weights: Mapping[Kind, float] = field(default_factory=dict)
    loss: Loss = "mean"
    bidirectional: bool = False
    difference: Difference = "absolute"
    down: Down = "learned"
    down_size: int = 300
    hidden: int = 300
    layers: int = 2
    dense: int = 200
    dropout: float = 0.2
    input_dropout: float = 0.0
    standardise: bool = True
    frozen: bool = True
    reworded: float = 0.5
    fresh: bool = True
    recent: tuple[float, ...] = ()
    in_batch: int = 0
    in_dialogue: int = 0
    contrast: float = 0.0
    sharpness: float = 0.0
    learning: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [kind for kind in (*self.negatives, *self.weights) if kind not in KINDS]
        if unknown:
            raise TurnwiseError(f"unknown negative '{unknown[0]}'; choose from {', '.join(KINDS)}")
        if not self.negatives:
            raise TurnwiseError("MAUDE learns by contrast: give at least one kind of negative")
        if not self.frozen and (self.standardise or self.down == "pca"):
            raise TurnwiseError("vectors that change cannot be standardised or projected by PCA; set frozen=true")
        if min((1.0, *self.weights.values())) < 0 or not any(self.weights.get(k, 1.0) for k in self.negatives):
            raise TurnwiseError("weights of negatives are 0 or more, and one of them is above 0")
        if any(not 0 <= rate < 1 for rate in self.recent):
            raise TurnwiseError("recent: turns fade at rates from 0 to below 1")
        if self.contrast and not self.others:
            raise TurnwiseError("contrast needs in_batch, and random utterances among the negatives")

    @property
    def others(self) -> int:
        """How many responses of the batch each context is held against, if random utterances are to be learnt."""
        return self.in_batch if "rand_utt" in self.negatives else 0

    def record(self) -> dict[str, Any]:
        """The options as JSON can hold them."""
        listed = {name: list(getattr(self, name)) for name in ("negatives", "recent", "learning")}
        return dataclasses.asdict(self) | listed


_AS_PUBLISHED: dict[str, Any] = {"standardise": False, "fresh": False}
MODES: Mapping[str, Mapping[str, Any]] = {
    "recommended": {},
    "released": {**_AS_PUBLISHED, "reworded": 0.0},
    "paper": {**_AS_PUBLISHED, "bidirectional": True, "difference": "signed", "loss": "paper", "frozen": False},
}
