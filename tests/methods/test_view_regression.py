"""Views predicted from other views: as a ridge does it, with an honest estimate of the error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.methods.scsd import view_moments, view_regression
from viewgap.methods.scsd.view_moments import PENALTIES, Moments, ScoreTable
from viewgap.methods.scsd.view_regression import ViewRegression
from viewgap.methods.scsd.view_scores import ViewBasis, leading_components

DIMS = {"a": 5, "b": 4, "c": 6}


def make_values(n: int, noise: float, seed: int = 0) -> dict[str, np.ndarray]:
    """Views of three common causes, and noise of this standard deviation."""
    rng, loadings = np.random.default_rng(seed), np.random.default_rng(1)
    causes = rng.normal(size=(n, 3))
    return {
        name: 10 + causes @ loadings.normal(size=(3, d)) + noise * rng.normal(size=(n, d))
        for name, d in DIMS.items()
    }


def make_mask(n: int, rate: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    observed = rng.random((n, len(DIMS))) > rate
    observed[np.arange(n), rng.integers(len(DIMS), size=n)] = True
    return observed


def predict(model: ViewRegression, view: int, views: ViewSet) -> np.ndarray:
    """Standardised columns of a view from all others, whether it is there or not."""
    others = np.array(views.observed)
    others[:, view] = False
    found, learned = model.predict(view, model.scores(views, None), others)
    assert learned.all()
    return found


def test_complete_views_are_predicted_as_by_a_ridge() -> None:
    """Within 5 standard deviations nothing is clipped, and all components are kept."""
    n = 400
    values = {
        name: np.random.default_rng(2).uniform(-1, 1, size=(n, 3)) @ np.eye(3, d) + block / 50
        for (name, d), block in zip(DIMS.items(), make_values(n, 0.5).values(), strict=True)
    }
    model = ViewRegression.fit(ViewSet(values), None)
    new = {name: block[:40] for name, block in values.items()}
    standardised = {
        name: (block - block.mean(axis=0)) / block.std(axis=0) for name, block in values.items()
    }
    for view, name in enumerate(DIMS):
        sources = np.hstack(
            [own / np.sqrt(own.shape[1]) for other, own in standardised.items() if other != name]
        )
        ridge = Ridge(alpha=n * model.penalty[view], fit_intercept=False)
        expected = ridge.fit(sources, standardised[name]).predict(sources[:40])
        found = predict(model, view, ViewSet(new))
        np.testing.assert_allclose(found, expected, atol=2e-4)


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_the_estimate_is_close_to_the_error_on_new_rows(noise: float, rate: float) -> None:
    train = ViewSet(make_values(900, noise), observed=make_mask(900, rate))
    model = ViewRegression.fit(train, None)
    truth = make_values(4000, noise, seed=5)
    new = ViewSet(truth, observed=make_mask(4000, rate, seed=6))
    for view, name in enumerate(DIMS):
        others = np.array(new.observed)
        others[:, view] = False
        rows = np.flatnonzero(others.any(axis=1))
        found, _ = model.predict(view, model.scores(new, None)[rows], others[rows])
        wanted = (truth[name][rows] - model.scaler.mean[view]) * model.scaler.scale[view]
        measured = np.square(found - wanted).sum() / np.square(wanted).sum()
        assert measured < 1.0
        assert abs(model.error[view] - measured) < 0.12


def test_views_that_have_nothing_to_do_with_each_other_are_not_predicted_badly() -> None:
    rng = np.random.default_rng(0)
    views = ViewSet({name: rng.normal(size=(500, d)) for name, d in DIMS.items()})
    model = ViewRegression.fit(views, None)
    assert (model.error > 0.97).all()
    assert (model.error <= 1.0).all()


def test_no_row_with_two_views_teaches_nothing() -> None:
    observed = np.eye(3, dtype=bool)[np.arange(60) % 3]
    views = ViewSet(make_values(60, 0.1), observed=observed)
    model = ViewRegression.fit(views, None)
    np.testing.assert_array_equal(model.error, 1.0)
    found, learned = model.predict(0, model.scores(views, None), observed)
    assert not learned.any()
    np.testing.assert_array_equal(found, 0.0)


def test_a_source_never_seen_with_the_view_is_no_source() -> None:
    """a and b, b and c are seen together, a and c never."""
    observed = np.array([[True, True, False], [False, True, True]])[np.arange(300) % 2]
    values = make_values(300, 0.1)
    model = ViewRegression.fit(ViewSet(values, observed=observed), None)
    assert (model.error < 0.5).all()
    only_c = np.tile([False, False, True], (300, 1))
    views = ViewSet(values, observed=only_c)
    found, learned = model.predict(0, model.scores(views, None), only_c)
    assert not learned.any()
    np.testing.assert_array_equal(found, 0.0)


@pytest.mark.parametrize("fill", [0.0, 1e30, np.nan])
def test_values_under_the_mask_are_never_read(fill: float) -> None:
    observed = make_mask(200, 0.4)
    values = make_values(200, 0.3)
    expected = ViewRegression.fit(ViewSet(values, observed=observed), None).to_arrays()
    other = {
        name: np.where(seen[:, None], block, fill)
        for (name, block), seen in zip(values.items(), observed.T, strict=True)
    }
    found = ViewRegression.fit(ViewSet(other, observed=observed), None).to_arrays()
    assert found.keys() == expected.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name])


def test_one_outlier_among_the_sources_does_not_decide() -> None:
    values = make_values(400, 0.3)
    values["b"][7] = 1e6
    model = ViewRegression.fit(ViewSet(values), None)
    assert model.error[0] < 0.5  # from c, at least
    found = predict(model, 0, ViewSet({name: block[:8] for name, block in values.items()}))
    assert np.abs(found).max() < 10


# ---------------------------------------------------------------------- parts


@pytest.mark.parametrize("shape", [(400, 30), (30, 400), (700, 650)])
def test_leading_components_span_what_an_svd_finds(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    strong = torch.randn(shape[0], 6, generator=generator) * 10
    x = strong @ torch.randn(6, shape[1], generator=generator)
    x = x + torch.randn(shape, generator=generator)
    found = leading_components(x, 6)
    expected = torch.linalg.svd(x - x.mean(dim=0), full_matrices=False).Vh[:6].T
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=2e-3)
    np.testing.assert_allclose(found.T @ found, torch.eye(6), atol=1e-4)


def test_constant_rows_and_single_rows_have_no_components() -> None:
    assert leading_components(torch.ones(20, 4), 3).shape == (4, 0)
    assert leading_components(torch.ones(1, 4), 3).shape == (4, 0)
    assert leading_components(torch.ones(0, 4), 3).shape == (4, 0)


def test_moments_are_means_over_the_rows_with_both_views() -> None:
    rng = np.random.default_rng(0)
    observed = make_mask(50, 0.5)
    parts = [rng.normal(size=(int(seen.sum()), 2)) for seen in observed.T]
    table = ScoreTable.join(observed, parts, parts, [np.square(p).sum(axis=1) for p in parts])
    _, cross = Moments.of(table).means(table)
    both = observed[:, 0] & observed[:, 2]
    naive = sum(np.outer(table.sources[i, :2], table.targets[i, 4:]) for i in np.flatnonzero(both))
    np.testing.assert_allclose(cross[:2, 4:], naive / both.sum())


def test_many_views_and_rows_stay_affordable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, components and judged sets of views are bounded."""
    monkeypatch.setattr(view_regression, "_MOST_ROWS", 100)
    monkeypatch.setattr(view_regression, "_MOST_WORK", 12)
    monkeypatch.setattr(view_moments, "_MOST_PATTERNS", 2)
    views = ViewSet(make_values(300, 0.3), observed=make_mask(300, 0.4))
    model = ViewRegression.fit(views, Standardiser.fit(views, features="auto"))
    assert len(model.covariance) == 3 * 2 * 4
    assert (model.error < 0.9).all()


# ---------------------------------------------------------------------- files

STORED = {
    "no covariance": lambda arrays: arrays.pop("covariance"),
    "another shape": lambda arrays: arrays.update(cross=arrays["cross"][:, 1:]),
    "another type": lambda arrays: arrays.update(cross=arrays["cross"].astype(np.float64)),
    "infinite numbers": lambda arrays: arrays.update(covariance=arrays["covariance"] * np.inf),
    "a penalty of zero": lambda arrays: arrays.update(penalty=np.zeros(3)),
    "an error above one": lambda arrays: arrays.update(error=np.full(3, 2.0)),
    "no errors": lambda arrays: arrays.pop("error"),
    "a basis of other columns": lambda arrays: arrays.update({"0/clipped": arrays["1/clipped"]}),
    "a centre too short": lambda arrays: arrays.update({"0/centre": arrays["0/centre"][1:]}),
    "no scaling": lambda arrays: arrays.pop("scaler/mean_1"),
    "columns that nothing prepares": lambda arrays: arrays.update(
        {"0/prepared": np.ones((5, 1), dtype=np.float32)}
    ),
}


@pytest.mark.parametrize("change", STORED)
def test_arrays_that_do_not_fit_are_refused(change: str) -> None:
    views = ViewSet(make_values(60, 0.3))
    arrays = ViewRegression.fit(views, None).to_arrays()
    arguments = (views.names, views.dims, None)
    restored = ViewRegression.from_arrays(arrays, *arguments)
    np.testing.assert_array_equal(predict(restored, 0, views), predict(restored, 0, views))
    STORED[change](arrays)
    with pytest.raises((ValueError, KeyError)):
        ViewRegression.from_arrays(arrays, *arguments)


def test_the_smallest_penalty_keeps_a_restored_model_solvable() -> None:
    assert min(PENALTIES) > 0
    basis = ViewBasis.fit(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), None)
    assert basis.n_scores == basis.n_targets == 3
