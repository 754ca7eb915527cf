"""Agreement against the krippendorff package, scikit-learn and the tables of USR and Holistic."""

from __future__ import annotations

import csv
import time
import warnings

import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import cohen_kappa_score

from turnwise.stats.agreement import FORMS, agreement, by_rater

SCALES = ("nominal", "ordinal", "interval")
KAPPAS = {"kappa": None, "kappa-linear": "linear", "kappa-quadratic": "quadratic"}

matrices = st.tuples(st.integers(4, 12), st.integers(2, 4)).flatmap(
    lambda shape: arrays(float, shape, elements=st.sampled_from([1.0, 2.0, 3.0, 5.0, np.nan]))
)


def value_of(form, ratings, raters=None):
    return agreement(form, ratings, raters, resamples=0).value


# --- against other libraries -----------------------------------------------------------------------------


@settings(max_examples=40)
@given(matrices)
def test_alpha_equals_the_krippendorff_package(matrix):
    pairable = matrix[(~np.isnan(matrix)).sum(axis=1) >= 2]
    assume(len(np.unique(pairable[~np.isnan(pairable)])) > 1)
    for scale in SCALES:
        expected = krippendorff.alpha(reliability_data=matrix.T, level_of_measurement=scale)
        assert value_of(f"alpha-{scale}", matrix) == pytest.approx(expected, abs=1e-10)


@settings(max_examples=40)
@given(arrays(float, st.tuples(st.integers(3, 20), st.just(2)), elements=st.integers(1, 4).map(float)))
def test_kappa_equals_scikit_learn(ratings):
    first, second = ratings.T
    assume(len(np.unique(ratings)) > 1)
    for form, weights in KAPPAS.items():
        expected = cohen_kappa_score(first, second, weights=weights, labels=[1, 2, 3, 4])
        assert value_of(form, ratings) == pytest.approx(expected, abs=1e-12)


def test_kappa_is_averaged_over_the_pairs_that_overlap():
    rng = np.random.default_rng(0)
    ratings = rng.integers(1, 4, size=(60, 3)).astype(float)
    ratings[:20, 0] = np.nan
    pairs = [(0, 1, slice(20, 60)), (0, 2, slice(20, 60)), (1, 2, slice(0, 60))]
    for form, weights in KAPPAS.items():
        expected = [cohen_kappa_score(ratings[s, a], ratings[s, b], weights=weights) for a, b, s in pairs]
        assert value_of(form, ratings) == pytest.approx(np.mean(expected))


# --- the papers' tables ----------------------------------------------------------------------------------

# USR Table 1, Spearman and Pearson. The paper prints .4318 for Interesting on PersonaChat: two digits changed
# places, for every other cell is met exactly.
USR_AGREEMENT = {
    "usr_personachat": {
        "Understandable": (0.2984, 0.2984),
        "Natural": (0.4842, 0.4716),
        "Maintains Context": (0.6125, 0.6130),
        "Engaging": (0.4138, 0.4288),
        "Uses Knowledge": (0.8115, 0.8115),
        "Overall": (0.6577, 0.6603),
    },
    "usr_topicalchat": {
        "Understandable": (0.5102, 0.5102),
        "Natural": (0.4871, 0.4864),
        "Maintains Context": (0.5599, 0.5575),
        "Engaging": (0.5811, 0.5754),
        "Uses Knowledge": (0.7090, 0.7090),
        "Overall": (0.7183, 0.7096),
    },
}


@pytest.mark.parametrize("corpus", USR_AGREEMENT)
@pytest.mark.parametrize("quality", USR_AGREEMENT["usr_personachat"])
def test_slot_pairs_give_usr_table_1(rated, corpus, quality):
    ratings = rated(corpus).ratings(quality)
    found = [agreement(f"slot-pairs-{method}", ratings, resamples=0) for method in ("spearman", "pearson")]
    assert tuple(round(form.value, 4) for form in found) == USR_AGREEMENT[corpus][quality]
    assert found[0].n_items == len(ratings)
    assert found[0].n_raters == 3


def test_usr_table_1_differs_from_ours_in_one_misprint(data_dir):
    with (data_dir / "published" / "paper_tables.csv").open(encoding="utf-8", newline="") as file:
        printed = [row for row in csv.DictReader(file) if (row["paper"], row["table"]) == ("usr", "1")]
    corpora = {"PersonaChat": "usr_personachat", "Topical-Chat": "usr_topicalchat"}
    different = [
        (row["corpus"], row["quality"], row["statistic"], float(row["value"]))
        for row in printed
        if float(row["value"]) != USR_AGREEMENT[corpora[row["corpus"]]][row["quality"]][row["statistic"] == "pearson"]
    ]
    assert len(printed) == 24
    assert different == [("PersonaChat", "Engaging", "spearman", 0.4318)]


# Mean and best leave-one-out correlation, Pearson then Spearman.
HOLISTIC_AGREEMENT = {
    ("holistic_coherence", "context_coherence"): (0.6070, 0.9094, 0.5736, 0.8696),
    ("holistic_fluency", "fluency"): (0.6965, 0.8773, 0.6977, 0.8515),
    ("holistic_logic_ws", "logical_consistency"): (0.6411, 0.7964, 0.6437, 0.7948),
}


def leave_one_out(ratings):
    forms = [f"leave-one-out-{over}-{method}" for method in ("pearson", "spearman") for over in ("mean", "max")]
    return tuple(value_of(form, ratings) for form in forms)


@pytest.mark.parametrize(("corpus", "quality"), HOLISTIC_AGREEMENT)
def test_leave_one_out_gives_holistic_tables(rated, corpus, quality):
    ratings = rated(corpus).ratings(quality)
    assert tuple(round(value, 4) for value in leave_one_out(ratings)) == HOLISTIC_AGREEMENT[corpus, quality]
    assert agreement("leave-one-out-mean-pearson", ratings, resamples=0).n_raters == 10


@pytest.mark.parametrize(
    ("corpus", "printed"),
    [("holistic_logic_baseline", (0.61, 0.75, 0.62, 0.74)), ("holistic_logic_ctg", (0.65, 0.75, 0.66, 0.76))],
)
def test_leave_one_out_with_the_one_rating_that_is_missing(rated, corpus, printed):
    """One cell of each file is empty; without it the paper's two printed digits still come out."""
    ratings = rated(corpus).ratings("logical_consistency")
    assert np.isnan(ratings).sum() == 1
    assert tuple(round(value, 2) for value in leave_one_out(ratings)) == printed


def test_the_middle_of_the_scale_in_the_empty_cell_gives_all_four_digits(rated):
    ratings = rated("holistic_logic_baseline").ratings("logical_consistency")
    filled = np.where(np.isnan(ratings), 3, ratings)
    assert tuple(round(value, 4) for value in leave_one_out(filled)) == (0.6117, 0.7542, 0.6248, 0.7380)


def test_rater_pairs_go_by_identity(rated):
    data = rated("usr_topicalchat")
    ratings, raters = data.ratings("Overall"), data.raters()
    matrix, names = by_rater(ratings, raters)
    assert names == ["r1", "r2", "r3", "r4", "r5"]
    found = agreement("rater-pairs-spearman", ratings, raters, resamples=0)
    values = []
    for a in range(5):
        for b in range(a + 1, 5):
            both = ~np.isnan(matrix[:, [a, b]]).any(axis=1)
            if both.any():
                values.append(spearmanr(matrix[both, a], matrix[both, b]).statistic)
    assert found.value == pytest.approx(np.mean(values))
    assert found.n_raters == 5
    # Going by identity is a different measure: it does not give the paper's table.
    assert round(found.value, 4) != USR_AGREEMENT["usr_topicalchat"]["Overall"][0]


# --- properties ------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(arrays(float, st.integers(3, 10), elements=st.integers(1, 5).map(float)), st.integers(2, 4))
def test_perfect_agreement_is_one(ratings, raters):
    assume(len(np.unique(ratings)) > 1)
    matrix = np.tile(ratings[:, None], raters)
    for form in FORMS:
        assert value_of(form, matrix) == pytest.approx(1)


@settings(max_examples=40)
@given(matrices, st.randoms(use_true_random=False))
def test_order_of_items_and_raters_does_not_matter(matrix, random):
    rows, columns = list(range(matrix.shape[0])), list(range(matrix.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    for form in FORMS:
        plain, shuffled = value_of(form, matrix), value_of(form, matrix[rows][:, columns])
        assert (plain is None) == (shuffled is None)
        assert plain is None or plain == pytest.approx(shuffled, abs=1e-9)


@settings(max_examples=40)
@given(matrices)
def test_undefined_is_none_and_silent(matrix):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for form in FORMS:
            found = agreement(form, matrix, resamples=20)
            assert found.value is None or np.isfinite(found.value)
            assert found.value is None or found.value <= 1 + 1e-12
            if found.low is not None:
                assert found.low <= found.high


@pytest.mark.parametrize("form", FORMS)
def test_nothing_to_compare(form):
    for matrix in (np.full((5, 3), np.nan), np.ones((5, 3)), np.array([[1.0], [2.0], [3.0]]), np.empty((0, 2))):
        found = agreement(form, matrix, resamples=10)
        assert (found.value, found.low, found.high) == (None, None, None)


def test_leave_one_out_with_gaps():
    ratings = np.array([[1, 2, np.nan], [2, np.nan, 4], [5, 4, 4], [3, 1, 2], [np.nan, np.nan, 1]])
    first = [1, 2, 5, 3], [2, 4, 4, 1.5]
    second = [2, 4, 1], [1, 4.5, 2.5]
    third = [4, 4, 2], [2, 4.5, 2]
    expected = [pearsonr(*pair).statistic for pair in (first, second, third)]
    assert value_of("leave-one-out-mean-pearson", ratings) == pytest.approx(np.mean(expected))
    assert value_of("leave-one-out-max-pearson", ratings) == pytest.approx(np.max(expected))
    assert agreement("leave-one-out-mean-pearson", ratings, resamples=0).n_items == 4


# --- intervals -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_interval_equals_resampling_the_items(form):
    rng = np.random.default_rng(1)
    quality = rng.normal(size=80)
    ratings = np.clip(np.round(3 + quality[:, None] + 0.8 * rng.normal(size=(80, 3))), 1, 5)
    ratings[rng.random((80, 3)) < 0.1] = np.nan
    contexts = np.arange(80) // 4
    values = []
    for _ in range(400):
        drawn = rng.integers(0, 20, size=20)
        values.append(value_of(form, ratings[(4 * drawn[:, None] + np.arange(4)).ravel()]))
    low, high = np.quantile(values, [0.025, 0.975])
    found = agreement(form, ratings, clusters=contexts)
    assert found.low < found.high
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.04)


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_interval_depends_only_on_the_seed_and_holds_the_value(seed):
    rng = np.random.default_rng(seed)
    ratings = np.clip(np.round(3 + rng.normal(size=(100, 1)) + rng.normal(size=(100, 3))), 1, 5)
    for form in ("slot-pairs-spearman", "kappa", "alpha-ordinal"):
        found = agreement(form, ratings, resamples=200, seed=seed)
        assert found == agreement(form, ratings, resamples=200, seed=seed)
        assert found.low <= found.value <= found.high


def test_one_cluster_gives_no_interval():
    ratings = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 4.0], [5.0, 5.0]])
    found = agreement("alpha-interval", ratings, clusters=["only"] * 4)
    assert found.value is not None
    assert (found.low, found.high) == (None, None)


def test_every_form_is_quick():
    rng = np.random.default_rng(2)
    ratings = rng.integers(1, 6, size=(360, 3)).astype(float)
    started = time.process_time()
    for form in FORMS:
        agreement(form, ratings)
    assert (time.process_time() - started) / len(FORMS) < 1


# --- raters ----------------------------------------------------------------------------------------------


def test_by_rater_places_every_rating():
    ratings = np.array([[1, 2], [3, np.nan], [5, 6], [7, 8]])
    raters = np.array([["bea", "al"], ["al", None], ["cy", "bea"], ["al", None]], dtype=object)
    matrix, names = by_rater(ratings, raters)
    assert names == ["al", "bea", "cy"]
    expected = [[2, 1, np.nan], [3, np.nan, np.nan], [np.nan, 6, 5], [7, np.nan, np.nan]]
    assert np.array_equal(matrix, expected, equal_nan=True)


def test_a_rater_rates_an_item_once():
    with pytest.raises(ValueError, match="rater 'al' rated item 0 twice"):
        by_rater([[1, 2]], np.array([["al", "al"]], dtype=object))
