"""scikit-learn's callbacks, where the installed version has them (1.9): a fit is a task.

`set_callbacks` of a method takes them, and meta-estimators such as `GridSearchCV` hand theirs on.
Without them nothing here costs anything.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def _installed() -> Any:
    try:
        return importlib.import_module("sklearn.callback")
    except ImportError:
        return None


_callback = _installed()
_Base: Any = object if _callback is None else _callback.CallbackSupportMixin


class CallbackSupport(_Base):  # type: ignore[misc]
    """`set_callbacks` of scikit-learn; nothing where it has no callbacks."""


def fit_as_task(estimator: Any, X: Any, y: Any, fit: Callable[[], None]) -> None:
    """Call `fit`, as a task of scikit-learn's callbacks if the estimator has any.

    The epochs of a network are parts of the task.
    """
    wanted = vars(estimator).keys() & {"_skl_callbacks", "_parent_callback_ctx"}
    if _callback is None or not wanted:
        fit()
        return
    run = _callback.with_callbacks(_run)  # tears callbacks down, also after an error
    run(estimator, X, y, fit)


def _run(estimator: Any, X: Any, y: Any, fit: Callable[[], None]) -> None:
    n_parts = None if estimator._fits_in_epochs else 0  # None = not known yet
    task = estimator._init_callback_context(max_subtasks=n_parts)
    task.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
    fit()
    fitted = {"is_fitted_": True}
    task.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes=fitted)
