"""The small trainer: it learns what can be learnt, keeps its best epoch, stops in time and repeats itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

torch = pytest.importorskip("torch")

from turnwise.train.loop import Columns, Examples, Recipe, fit_epochs, mean_loss, predict, seeded  # noqa: E402


def rows(count: int, seed: int, noise: float = 0.0) -> Columns:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, 4)).astype(np.float32)
    labels = vectors @ np.array([2, -1, 0, 1]) + noise * rng.normal(size=count) > 0
    return Columns({"x": vectors, "y": labels.astype(np.float32)})


def loss(model: Any, batch: Any) -> Any:
    return torch.nn.functional.binary_cross_entropy_with_logits(model(batch["x"])[:, 0], batch["y"])


def linear(seed: int = 0) -> Any:
    return seeded(seed, lambda: torch.nn.Linear(4, 1))


def test_it_finds_what_logistic_regression_finds() -> None:
    training = rows(4000, 1, noise=1.0)
    model = linear()
    fit_epochs(model, loss, training, training, Recipe(epochs=60, learning_rate=0.01, patience=60, clip=10))
    exact = LogisticRegression(C=np.inf).fit(training.arrays["x"], training.arrays["y"])
    assert model.weight.detach().numpy() == pytest.approx(exact.coef_, abs=0.05)


def test_the_same_recipe_gives_the_same_weights_whatever_was_drawn_before() -> None:
    def trained() -> Any:
        torch.rand(int(np.random.default_rng().integers(1, 9)))
        model = torch.nn.Sequential(linear(), torch.nn.Dropout(0.5))
        fit_epochs(model, loss, rows(200, 1), rows(50, 2), Recipe(epochs=3, seed=5))
        return model[0].weight

    assert torch.equal(trained(), trained())


def test_the_weights_of_the_best_epoch_stay_and_a_run_that_does_not_help_ends() -> None:
    training, other = rows(64, 1), rows(64, 3)
    opposite = Columns({"x": other.arrays["x"], "y": 1 - other.arrays["y"]})
    model = linear()
    fitted = fit_epochs(model, loss, training, opposite, Recipe(epochs=50, patience=4, learning_rate=0.1))
    assert len(fitted.epochs) == fitted.best + 5
    assert fitted.loss == min(row["validation"] for row in fitted.epochs)
    assert mean_loss(model, loss, opposite) == pytest.approx(fitted.loss, abs=1e-4)


def test_it_stops_in_time() -> None:
    assert len(fit_epochs(linear(), loss, rows(64, 1), rows(64, 1), Recipe(epochs=50, minutes=0)).epochs) == 1


def test_predictions_come_in_order_whatever_the_batch() -> None:
    model, examples = linear(), rows(10, 1)
    whole = predict(model, lambda m, batch: m(batch["x"]), examples)
    assert predict(model, lambda m, batch: m(batch["x"]), examples, batch=3) == pytest.approx(whole)


def test_validation_draws_the_same_every_time() -> None:
    class Drawn:
        def __len__(self) -> int:
            return 5

        def batch(self, places: Any, rng: np.random.Generator) -> Any:
            return torch.from_numpy(rng.normal(size=len(places)))

    examples: Examples = Drawn()
    first, second = (mean_loss(linear(), lambda _, batch: batch.mean(), examples, batch=2) for _ in range(2))
    assert first == second


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="equally long"):
        Columns({"x": np.zeros(2), "y": np.zeros(3)})
