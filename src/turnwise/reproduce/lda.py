"""Linear discriminant analysis in a few lines: directions that part groups best, and which group a point is nearest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        """Where points lie along the directions."""
        found: Floats = (points - self.centre) @ self.directions
        return found

    def nearest(self, points: Floats) -> NDArray[np.intp]:
        """The group whose mean each point is nearest to."""
        distances = ((self.project(points)[:, None] - self.means[None]) ** 2).sum(axis=2)
        found: NDArray[np.intp] = self.groups[distances.argmin(axis=1)]
        return found


def discriminant(points: Floats, groups: NDArray[np.intp], most: int = 2) -> Discriminant:
    """Directions along which groups differ most against how far each is spread.

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
