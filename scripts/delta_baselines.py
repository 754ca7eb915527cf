"""MAUDE's baselines for its tables: RUBER, InferSent and DistilBERT-NLI, trained on the dialogues that MAUDE has.

`Baselines(room, dialogues).trained(name, negatives)` gives a function from contexts and responses to scores. What was
trained before is taken from a folder, WORK/tables/baselines unless another is named.

    python scripts/delta_baselines.py --data DIR --work DIR [--encoder DIR --device cuda] --minutes 0.35
    python scripts/delta_baselines.py ruber infersent bert-nli --negatives all|semantics|syntax ... --minutes 0.5

are how those of the printed tables were made, on a GPU; the first trains where the reading networks start.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from maude_corpora import Room

from turnwise.models.export.heads import pack_weights
from turnwise.models.heads_numpy import unpack_weights
from turnwise.models.protocols import Floats
from turnwise.train.baselines import (
    JUDGES,
    READERS,
    Numbered,
    Thoughts,
    judge_loss,
    load_thoughts,
    neighbour_loss,
    probabilities,
    weights_of,
)
from turnwise.train.heads import Columns, Recipe, fit, predict, seeded
from turnwise.train.maude_data import CORRUPTIONS, Kind, Sampled
from turnwise.train.negatives import maude_random
from turnwise.train.texts import Texts, context_of

Score = Callable[[Sequence[Sequence[str]], Sequence[str]], npt.NDArray[np.float32]]
logger = logging.getLogger(__name__)


class Baselines:
    """The baselines over one set of dialogues; what they share is made once.

    The dialogues, to learn from and to validate on, are only asked for where something has to be trained.
    """

    def __init__(
        self,
        room: Room,
        dialogues: Callable[[], tuple[Sequence[Sampled], Sequence[Sampled]]],
        *,
        folder: Path | None = None,
        minutes: float = 2.0,
        reworded: float = 0.5,
        seed: int = 0,
    ) -> None:
        self._room, self._read = room, dialogues
        self._minutes, self._reworded, self._seed = minutes, reworded, seed
        self._folder = folder or room.work / "tables" / "baselines"

    @cached_property
    def _sides(self) -> tuple[Sequence[Sampled], Sequence[Sampled]]:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._read()

    def trained(self, name: str, negatives: Sequence[Kind]) -> Score:
        """Train a baseline against these kinds of wrong responses."""
        file = self._folder / f"{name}-{'+'.join(negatives)}.safetensors"
        if file.is_file():
            weights = unpack_weights(file.read_bytes())
            model = self._model(name, Texts(), None)
            model.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()})
        else:
            model = self._fitted(name, negatives)
            file.write_bytes(pack_weights(weights_of(model), fineness=None))

        def score(contexts: Sequence[Sequence[str]], responses: Sequence[str]) -> npt.NDArray[np.float32]:
            asked = Texts()
            seen, said = asked.add(map(context_of, contexts)), asked.add(responses)
            self._show(model, asked)
            return predict(model, probabilities, Columns({"context": seen, "responses": said[:, None]}), batch=256)[
                :, 0
            ]

        return score

    def start(self) -> None:
        """Train what the reading networks start from, if it was not yet."""
        _ = self._thoughts

    def _fitted(self, name: str, negatives: Sequence[Kind]) -> Any:
        texts = Texts()
        training, validation = (
            self._pairs(texts, side, negatives, Random(f"{self._seed}:{number}"))
            for number, side in enumerate(self._sides)
        )
        recipe = Recipe(
            weight_decay=1e-4, batch=256, patience=3, minutes=self._minutes, seed=self._seed, device=self._room.device
        )
        model = self._model(name, texts, self._thoughts if name in READERS else None)
        fitted = fit(model, judge_loss, training.columns(), validation.columns(), recipe)
        logger.info("%s against %s: %s", name, "+".join(negatives), fitted.record())
        return model.to("cpu")

    def _model(self, name: str, texts: Texts, start: Thoughts | None) -> Any:
        if name in READERS:
            words = texts.words(self._room.pack)
            return seeded(self._seed, lambda: READERS[name](*words, start))
        table = self._vectors(texts)
        return seeded(self._seed, lambda: JUDGES[name](table))

    def _show(self, model: Any, texts: Texts) -> None:
        """Let a trained network see other texts."""
        if hasattr(model, "texts"):
            table, ids = texts.words(self._room.pack)
            model.table, model.texts = torch.from_numpy(table), torch.from_numpy(ids)
        else:
            model.table = torch.from_numpy(self._vectors(texts))

    def _vectors(self, texts: Texts) -> Floats:
        """The encoder's last layer of each text, from the vectors that MAUDE keeps."""
        listed = texts.listed() or [""]
        rows, index = self._room.store.table(listed)
        width = rows.shape[1] // len(self._room.reading.layers)
        return np.ascontiguousarray(rows[[index[text] for text in listed], -width:])

    @cached_property
    def _thoughts(self) -> Thoughts:
        """Where the reading networks start: which utterance of these dialogues follows which?"""
        file = self._folder / "thoughts.safetensors"
        if not file.is_file():
            texts = Texts()
            training, validation = (_neighbours(texts, side) for side in self._sides)
            words = texts.words(self._room.pack)
            model = seeded(self._seed, lambda: Thoughts(*words))
            recipe = Recipe(
                learning_rate=2e-3, batch=256, patience=2, clip=5, minutes=2 * self._minutes, seed=self._seed,
                device=self._room.device,
            )  # fmt: skip
            fitted = fit(model, neighbour_loss, training, validation, recipe)
            logger.info("neighbours: %s", fitted.record())
            file.write_bytes(pack_weights(weights_of(model), fineness=None))
        return load_thoughts(unpack_weights(file.read_bytes()))

    def _pairs(self, texts: Texts, dialogues: Sequence[Sampled], negatives: Sequence[Kind], rng: Random) -> Numbered:
        """Every turn that has its corruptions, with one wrong response of each kind, drawn once."""
        pools = {
            "rand_utt": [one.turns[1:] for one in dialogues],
            "model_false": [tuple(one.generated.values()) for one in dialogues],
            "rand_back": [tuple(one.reworded.values()) for one in dialogues],
        }
        filled = {kind: [pool for pool in of if pool] for kind, of in pools.items()}
        own = {kind: {n: i for i, n in enumerate(n for n, pool in enumerate(of) if pool)} for kind, of in pools.items()}

        def wrong(kind: Kind, number: int, place: int) -> str:
            if kind in CORRUPTIONS:
                return dialogues[number].corrupted[kind][place]
            if number not in own[kind]:
                return rng.choice(rng.choice(filled[kind]))
            return maude_random(filled[kind], own[kind][number], rng)

        contexts, truth, found = [], [], []
        for number, one in enumerate(dialogues):
            for place in one.corrupted["word_drop"]:
                again = place in one.reworded and rng.random() < self._reworded
                contexts.append(context_of(one.turns[:place]))
                truth.append(one.reworded[place] if again else one.turns[place])
                found += [wrong(kind, number, place) for kind in negatives]
        numbers = texts.add(found).reshape(len(truth), -1)
        return Numbered(texts.add(contexts), texts.add(truth), numbers)


def _neighbours(texts: Texts, dialogues: Sequence[Sampled]) -> Columns:
    first = texts.add(turn for one in dialogues for turn in one.turns[:-1])
    return Columns({"first": first, "second": texts.add(turn for one in dialogues for turn in one.turns[1:])})


def main() -> None:
    """Train baselines against one set of negatives; maude_deltas.py then finds them in the working folder."""
    from train_maude import dialogues

    from turnwise.train.maude import SETS

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="ruber, infersent, bert-nli; none: where the first two start")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--encoder", type=Path, help="the pack's encoder for torch, by encoder_to_torch.py")
    parser.add_argument("--device", default="cpu", help="where torch runs: cpu or cuda")
    parser.add_argument("--negatives", choices=SETS, default="all")
    parser.add_argument("--minutes", type=float, default=2.0, help="the most that one may take")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    room = Room(args.data, args.work, args.models, encoder=args.encoder, device=args.device)
    trainer = Baselines(room, lambda: dialogues(room, "personachat"), minutes=args.minutes)
    if not args.names:
        trainer.start()
    for name in args.names:
        trainer.trained(name, SETS[args.negatives])


if __name__ == "__main__":
    main()
