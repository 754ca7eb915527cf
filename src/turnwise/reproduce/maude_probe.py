"""MAUDE's Appendix A: how far a conversation has got, told from two utterances; and scores along a dialogue."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.errors import TurnwiseError
from turnwise.models.requests import Embed
from turnwise.reproduce.cells import Cells, Ours, by_corpus
from turnwise.reproduce.maude_samples import TRUE, turns_of
from turnwise.reproduce.published import Key
from turnwise.reproduce.workspace import Workspace
from turnwise.text.corrupt import word_order

Floats = NDArray[np.float64]
# A little of the average variance in every direction, so that few points in many dimensions can be dealt with.
SHRINKAGE = 0.1


@dataclass(frozen=True)
class Discriminant:
    """Directions, and where the groups' means lie along them."""

    centre: Floats
    directions: Floats
    means: Floats
    groups: NDArray[np.intp]

    def project(self, points: Floats) -> Floats:
        """Return where points lie along the directions."""
        found: Floats = (points - self.centre) @ self.directions
        return found

    def nearest(self, points: Floats) -> NDArray[np.intp]:
        """Return the group whose mean each point is nearest to."""
        distances = ((self.project(points)[:, None] - self.means[None]) ** 2).sum(axis=2)
        found: NDArray[np.intp] = self.groups[distances.argmin(axis=1)]
        return found


def discriminant(points: Floats, groups: NDArray[np.intp], most: int = 2) -> Discriminant:
    """Return the directions along which groups differ most, relative to their spread.

    >>> points = np.array([[0.0, 5.0], [0.0, -5.0], [1.0, 5.0], [1.0, -5.0]])
    >>> discriminant(points, np.array([0, 0, 1, 1]), 1).nearest(points).tolist()
    [0, 0, 1, 1]
    """
    centre = points.mean(axis=0)
    names, codes = np.unique(groups, return_inverse=True)
    means = np.stack([points[codes == code].mean(axis=0) for code in range(len(names))])
    within = points - means[codes]
    scatter = within.T @ within / len(points)
    scatter += (SHRINKAGE * np.trace(scatter) / len(scatter) + 1e-12) * np.eye(len(scatter))
    # In coordinates where the spread within groups is the same in every direction, distances decide.
    whiten = np.linalg.inv(np.linalg.cholesky(scatter)).T
    sizes = np.sqrt(np.bincount(codes) / len(points))[:, None]
    between = ((means - centre) * sizes) @ whiten
    directions = whiten @ np.linalg.svd(between, full_matrices=False)[2][:most].T
    return Discriminant(centre, directions, (means - centre) @ directions, names)


PROBED = {
    "PersonaChat": "personachat_valid",
    "DailyDialog": "dailydialog_test",
    "Frames": "frames_train",
    "MultiWOZ": "multiwoz_test",
}
BINS = 5
DIALOGUES, SHORTEST = 80, 6
DRAWN = 250
SHOWN_DIALOGUES = 3


def _points(space: Workspace, file: str) -> tuple[Floats, Any, Any]:
    """Return vectors of neighbouring utterances, the bin of each pair, and its dialogue."""

    def make() -> tuple[Floats, Any, Any]:
        if "encoder" not in space.roles:
            raise TurnwiseError("the models in use have no 'encoder'")
        most = DIALOGUES if space.limit is None else max(space.limit, 2 * BINS)
        dialogues = [turns for turns in turns_of(space, file, 4 * most) if len(turns) >= SHORTEST][:most]
        places = [(number, i) for number, turns in enumerate(dialogues) for i in range(len(turns) - 1)]
        asked = [Embed(dialogues[number][i], dialogues[number][i + 1]) for number, i in places]
        answers = space.ask(asked)
        vectors = np.stack([np.asarray(answers[one], dtype=np.float64) for one in asked])
        # The mean of the two places, counted from 1, as a share of the dialogue's length.
        times = np.array([(i + 1.5) / len(dialogues[number]) for number, i in places])
        return vectors, np.minimum((times * BINS).astype(np.intp), BINS - 1), np.array([n for n, _ in places])

    return space.once(f"pairs of {file}", make)


@by_corpus(PROBED)
def accuracy_cells(space: Workspace, corpus: str) -> Cells:
    """Return how often the right fifth of a dialogue is named, on dialogues that were held out."""
    vectors, bins, dialogues = _points(space, PROBED[corpus])
    held = dialogues % 2 == 1
    key = Key(corpus, "other", "accuracy", "LDA on pairs of utterances", "held out")
    if len(np.unique(bins[~held])) < 2 or not held.any():
        return {key: Ours(why_not="there are too few dialogues")}
    found = discriminant(vectors[~held], bins[~held])
    hits = found.nearest(vectors[held]) == bins[held]
    chance = np.bincount(bins[held]).max() / held.sum()
    return {
        key: Ours(float(hits.mean()), n=len(hits)),
        key._replace(metric="always the commonest fifth"): Ours(float(chance), n=len(hits)),
    }


def scatter(space: Workspace) -> list[dict[str, Any]]:
    """Return the points of held-out pairs along the first two directions, by fifth of the dialogue."""
    rows = []
    for corpus, file in PROBED.items():
        vectors, bins, dialogues = _points(space, file)
        # Points that taught the directions would look far better parted than they are.
        held = dialogues % 2 == 1
        places = discriminant(vectors[~held], bins[~held]).project(vectors[held])
        bins = bins[held]
        if places.shape[1] < 2:
            raise TurnwiseError(f"the dialogues of {file} are too few for two directions")
        some = Random(space.seed).sample(range(len(bins)), min(DRAWN, len(bins)))
        rows += [
            {"panel": corpus, "x": float(places[i, 0]), "y": float(places[i, 1]), "group": f"fifth {bins[i] + 1}"}
            for i in sorted(some, key=lambda i: int(bins[i]))
        ]
    return rows


def along(space: Workspace) -> list[dict[str, Any]]:
    """Return the rows of Figs. 4-6: the score at every turn of some dialogues, as given and with shuffled words."""
    metric = "maude" if not space.lacking("maude") else "nup"
    space.require(metric)
    test = turns_of(space, PROBED["PersonaChat"], SHOWN_DIALOGUES)
    rng = Random(space.seed)
    shown: dict[str, list[tuple[tuple[str, ...], str]]] = {TRUE: [], "words shuffled": []}
    labels = []
    for number, turns in enumerate(test):
        for place in range(1, len(turns)):
            labels.append((f"{metric}, dialogue {number + 1}", place + 1))
            shown[TRUE].append((turns[:place], turns[place]))
            shown["words shuffled"].append((turns[:place], word_order(turns[place], rng)))
    rows = []
    for kind, pairs in shown.items():
        examples = [{"context": list(context), "response": response} for context, response in pairs]
        judged = space.evaluated(examples, [metric], intervals=False).judged
        rows += [
            {"panel": panel, "x": turn, "y": item.scores[metric].value, "group": kind}
            for (panel, turn), item in zip(labels, judged, strict=True)
        ]
    return rows
