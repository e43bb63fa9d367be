"""What scikit-learn expects of an estimator, for every method."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils.validation import check_is_fitted

import viewgap.methods as methods
from viewgap.errors import SettingError, ViewgapError


def test_constructor_only_stores(method: Any) -> None:
    kind = methods.get(method)
    for name in kind._get_param_names():
        value = object()
        model = kind(**{name: value})
        assert getattr(model, name) is value
        assert set(vars(model)) == set(kind._get_param_names())


def test_common_parameters_exist(method: Any) -> None:
    parameters = inspect.signature(methods.get(method).__init__).parameters
    defaults = {name: parameters[name].default for name in ("views", "nan", "on_empty")}
    assert defaults == {"views": None, "nan": "mean", "on_empty": "error"}


def test_method_says_what_it_is(method: Any) -> None:
    kind = methods.get(method)
    assert 10 < len(kind.summary) < 100
    assert isinstance(kind.reference, str)
    assert kind.__doc__


def test_sample_weight_is_refused_and_other_keywords_are_unknown(make: Any, problem: Any) -> None:
    X, Y = problem.views(), problem.Y
    for call in (make().fit, make().score):
        with pytest.raises(SettingError, match="leave sample_weight out"):
            call(X, Y, sample_weight=np.ones(len(Y)))
        with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weights'"):
            call(X, Y, sample_weights=None)
    with pytest.raises(NotFittedError):
        make().score(X, Y, sample_weight=None)


def test_fit_again_is_as_if_fitted_once(
    make: Any, problem: Any, other: Any, fitted: Any, tools: Any
) -> None:
    model = make().fit(other.views(), other.Y[:, :2])
    model.fit(problem.views(), problem.Y)
    assert tools.bits(model) == tools.bits(fitted)
    assert set(vars(model)) == set(vars(fitted))


def test_fitted_attributes(fitted: Any, problem: Any) -> None:
    check_is_fitted(fitted)
    assert fitted.view_names_ == ("colour", "shape", "text")
    assert fitted.view_dims_ == (5, 8, 12)
    assert fitted.n_features_in_ == 25
    assert fitted.label_names_ == ("label0", "label1", "label2", "label3")
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2, 3])
    np.testing.assert_allclose(fitted.label_frequency_, np.nanmean(problem.Y, axis=0))


@pytest.mark.parametrize("call", ["predict_proba", "predict", "score"])
def test_not_fitted_error(make: Any, problem: Any, call: Any) -> None:
    arguments = (problem.views(), problem.Y) if call == "score" else (problem.views(),)
    with pytest.raises(NotFittedError, match=r"not fitted yet; call fit") as caught:
        getattr(make(), call)(*arguments)
    assert isinstance(caught.value, ViewgapError)


def test_failed_fit_does_not_pass_for_a_fit(make: Any, problem: Any) -> None:
    model = make(nan="perhaps")
    with pytest.raises(SettingError, match="nan must be"):
        model.fit(problem.views(), problem.Y)
    with pytest.raises(NotFittedError):
        model.predict_proba(problem.views())


def test_failed_second_fit_leaves_no_mixture(
    make: Any, problem: Any, other: Any, monkeypatch: Any
) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError("out of luck")

    model = make().fit(other.views(), other.Y[:, :2])
    monkeypatch.setattr(model, "_fit", fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        model.fit(problem.views(), problem.Y)
    with pytest.raises(NotFittedError):
        model.predict_proba(problem.views())


def test_copies_by_pickle_predict_the_same(fitted: Any, other: Any) -> None:
    # joblib's workers receive estimators this way; a model *file* never is a pickle
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(
        again.predict_proba(other.views()), fitted.predict_proba(other.views())
    )


def test_works_in_cross_validation(make: Any, problem: Any) -> None:
    scores = cross_val_score(make(), problem.views(), problem.Y, cv=KFold(2), error_score="raise")
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()
