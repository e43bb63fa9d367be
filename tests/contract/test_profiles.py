"""The profiles of every method that has them: what the promises say holds for each."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from viewgap import methods
from viewgap.data.viewset import ViewSet
from viewgap.model_file import load_model, save_model


@pytest.fixture(params=["default", "paper", "equations"])
def profile(request: pytest.FixtureRequest, method: str) -> str:
    if request.param not in getattr(methods.get(method), "profiles", ()):
        pytest.skip("this method does not have the profile")
    return str(request.param)


@pytest.fixture
def paper(make: Any) -> Any:
    """Make estimators of the published form; the other files of this folder use the default."""
    if "profile" not in make.known:
        pytest.skip("this method has one form only")
    return partial(make, profile="paper")


def test_a_view_may_be_absent_from_training_batches(
    make: Any, paper: Any, problem: Any, other: Any
) -> None:
    """Rows of the paper profiles come in the order given: whole batches then lack a view."""
    if "batch_size" not in make.known:
        pytest.skip("this method has no batches")
    observed = problem.observed.copy()
    observed[:70, 1] = False
    observed[:, 0] |= ~observed.any(axis=1)
    views = ViewSet(problem.blocks, observed=observed)
    model = paper().fit(views, problem.Y, validation=(other.views(), other.Y))
    assert np.isfinite(model.predict_proba(other.views())).all()


def test_values_under_the_mask_are_never_read(paper: Any, problem: Any, tools: Any) -> None:
    blocks = {name: block.copy() for name, block in problem.blocks.items()}
    for j, block in enumerate(blocks.values()):
        block[~problem.observed[:, j]] = tools.garbage(block[~problem.observed[:, j]].shape)
    spoiled = paper().fit(ViewSet(blocks, observed=problem.observed), problem.Y)
    clean = paper().fit(problem.views(), problem.Y)
    assert tools.bits(spoiled) == tools.bits(clean)  # and so: same seed, same bits


def test_saved_and_loaded_is_the_same(
    paper: Any, problem: Any, other: Any, tools: Any, tmp_path: Any
) -> None:
    model = paper().fit(problem.views(), problem.Y)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert tools.bits(loaded) == tools.bits(model)
    np.testing.assert_array_equal(
        loaded.predict_proba(other.views()), model.predict_proba(other.views())
    )


def test_labels_of_one_value_or_none(paper: Any, problem: Any, other: Any) -> None:
    Y = problem.Y.copy()
    Y[:, 0] = 0.0
    Y[:, 3] = 1.0
    Y[::3] = np.nan  # samples without any observed label
    found = paper().fit(problem.views(), Y).predict_proba(other.views())
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.filterwarnings("ignore:early stopping is off")
@pytest.mark.parametrize(("n", "n_labels"), [(1, 1), (1, 3), (17, 1), (33, 3)])
def test_few_samples_of_one_view(
    make: Any, method: Any, profile: Any, n: int, n_labels: int
) -> None:
    if (method, profile) == ("naim3l", "paper"):
        pytest.skip("its published updates may diverge")
    rng = np.random.default_rng(0)
    X, Y = {"only": rng.normal(size=(n, 5))}, (rng.random((n, n_labels)) < 0.5).astype(float)
    model = make(profile=profile).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()
    for values in getattr(model, "history_", {}).values():
        assert np.isfinite(values).all()


# After 50 epochs these are within five spreads of the bar of the next test; all others are below.
SLOW_LEARNERS = ("aimnet", "lmvcat")


@pytest.mark.slow
def test_loss_falls_on_a_tiny_set(
    make: Any, method: Any, tools: Any, profile: Any, trained: Any
) -> None:
    if (method, profile) == ("naim3l", "paper"):
        pytest.skip("its published updates need not go down, and may diverge")
    if method == "cdmm":
        pytest.skip("solves one system per view, and has no loss that falls")
    # One set for every seed: how far a loss can fall depends on the set, not on the training.
    tiny = tools.make_problem(24, seed=11)
    epochs = 100 if method in SLOW_LEARNERS else 50
    longer = {"max_epochs": epochs, "patience": 100, "max_iter": 40, "validation_fraction": 0.0}
    longer["random_state"] = trained.seed
    settings = {name: value for name, value in longer.items() if name in make.known}
    settings |= tools.learning_rate(method)
    model = make(profile=profile, **settings).fit(tiny.views(), tiny.Y)
    if hasattr(model, "objective_"):
        course = list(model.objective_)
    else:
        # The terms that do not get new weights from epoch to epoch.
        course = model.history_["classification"]
    # Dropout makes the loss of a single epoch jump.
    trained.below(
        np.mean(course[-10:]) / course[0], 0.9, "mean of the last ten losses to the first"
    )
