"""Prediction where the data are: batches of one wide table, as Spark and Dask hand them over.

A `BatchPredictor` holds the path of a model and its digest, and no model: it is small, can be
pickled, and every process that it comes to loads the model once. An answer depends on its row only,
so that it has the same bits however the table is cut into batches.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import viewgap.model_folder as model_folder
from viewgap.data.formats.options import Patterns, ReadOptions
from viewgap.data.formats.wide import columns_by_view
from viewgap.data.rows.alignment import NamedMatrix, is_frame, refuse_duplicates
from viewgap.data.rows.ids import unusable_ids
from viewgap.data.rows.tables import is_table
from viewgap.data.rows.values import check_nan_policy
from viewgap.data.viewset import ViewSet
from viewgap.errors import ModelFileError, SettingError, ViewError, ViewgapWarning, first_few
from viewgap.hub_download import is_address, local_folder
from viewgap.methods.base import MultiViewClassifier
from viewgap.model_file import load_model
from viewgap.prediction.batch_tables import NAME, ArrowBatch, Batch, FrameBatch, Wanted
from viewgap.prediction.blocks import Answers, answers_by_batch, predict_blocks, rounds_by_batch
from viewgap.prediction.writers import WHAT, label_columns

MOST_MODELS = 4
"""Models that a process keeps; the one that was not used for longest is given up."""

Columns = str | Mapping[str, str]
"""Of a view: the one that holds it as arrays, or those of its numbers by their names in the fit."""

_SPARK_TYPES = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "double"}


def predict_batches(
    batches: Iterable[Any],
    model: str | os.PathLike[str],
    *,
    id_column: str | None,
    what: str = "probabilities",
    views: Mapping[str, Patterns] | None = None,
    nan: str | None = None,
    device: str | None = None,
) -> Iterator[Any]:
    """Predict the batches of one wide table, one after the other.

    Parameters
    ----------
    batches : iterable of DataFrame or RecordBatch
        Rows of pandas or pyarrow.
    model, id_column, what, views, nan, device
        As of `BatchPredictor`.

    Returns
    -------
    iterator of DataFrame or RecordBatch
        The answers, a batch for each, of the same kind. A batch is read when its answers are asked
        for.

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(30, 2))}
    >>> folder = tempfile.mkdtemp() + "/model"
    >>> fitted = viewgap.LateFusionRidge().fit(X, (X["a"] > 0).astype(float))
    >>> viewgap.save_model(fitted, folder)
    >>> batch = pd.DataFrame({"id": [7, 8], "a:0": [1.0, -1.0], "a:1": [0.5, 0.0]})
    >>> (answers,) = viewgap.predict_batches([batch], folder, id_column="id")
    >>> answers[["id", "no_view"]].values.tolist()
    [[7, False], [8, False]]
    """
    predictor = BatchPredictor(
        model, id_column=id_column, what=what, views=views, nan=nan, device=device
    )
    answers: Iterator[Any] = predictor(batches)
    return answers


class BatchPredictor:
    """Predicts batches of one wide table with a saved model; for Spark and Dask.

    It is called with an iterator of batches, as by `mapInPandas` and `mapInArrow` of Spark, or with
    one table, as by `map_partitions` of Dask, and answers in kind. The columns of a view are named
    `view:column`, or told by `views`; or one column with the name of the view holds its rows as
    arrays, in the order of the fit. A view of which no column is there is missing; so it is in rows
    in which all of its values, or its array, are null.

    Parameters
    ----------
    model : str or path
        Folder of a saved model, which every process must be able to read, or an address
        `hf://owner/name[@revision]`.
    id_column : str or None
        Name of the column of sample ids, which stands unchanged before the answers; None keeps no
        column (the index of a DataFrame is always kept).
    what : {"probabilities", "decisions", "both"}, default="probabilities"
        What to answer of every label.
    views : mapping of str to str or list of str, optional
        Names of columns by view; `*` stands for any letters, as in `viewgap predict --views`.
    nan : {"mean", "missing_view", "error"}, optional
        What single missing values mean; without it, what they meant in the fit.
    device : str, optional
        Where the model computes, as in `load_model`.

    Attributes
    ----------
    digest : str
        SHA-256 over the files of the model. A process that finds another model at the path refuses
        to answer: no table has answers of two models.

    Examples
    --------
    `spark_frame.mapInPandas(predictor, predictor.output_schema("bigint"))` and
    `dask_frame.map_partitions(predictor, meta=predictor.meta(dask_frame))`.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        id_column: str | None,
        what: str = "probabilities",
        views: Mapping[str, Patterns] | None = None,
        nan: str | None = None,
        device: str | None = None,
    ) -> None:
        if what not in WHAT:
            raise SettingError(f"what must be one of {', '.join(WHAT)}; found {what!r}")
        if nan is not None:
            check_nan_policy(nan)
        path = os.fspath(model)
        self.model = path if is_address(path) else os.path.abspath(path)
        self.id_column, self.what, self.nan, self.device = id_column, what, nan, device
        self.views = {name: list(own) for name, own in ReadOptions.of(views).views.items()}
        self.digest = model_folder.digest(local_folder(self.model))
        fitted = self._loaded().model
        if answers_by_batch(fitted):
            raise SettingError(
                f"{path}: this model answers for a sample by the samples beside it "
                "(prediction='batch'), so that answers would depend on how the table is cut; use "
                "viewgap predict on the whole table, or fit it with prediction='row'"
            )
        self._check_names(self._wanted(fitted))

    def __call__(self, batches: Any) -> Any:
        """Answer a table with a table, and an iterable of tables with an iterator of tables."""
        if is_frame(batches) or is_table(batches):
            return self._answer(batches)
        return map(self._answer, batches)

    def __repr__(self) -> str:
        return f"BatchPredictor({self.model!r}, id_column={self.id_column!r}, what={self.what!r})"

    def __dask_tokenize__(self) -> Any:
        """What Dask tells two of them apart by."""
        return type(self).__name__, sorted(vars(self).items())

    # ------------------------------------------------------------------ what comes out

    def output_schema(self, id_type: str = "string") -> str:
        """Return the columns of the answers with their types, as Spark's DDL.

        Parameters
        ----------
        id_type : str
            Spark's type of the id column: `dict(frame.dtypes)[id_column]`.

        Returns
        -------
        str
        """
        fitted = self._loaded().model
        wanted = self._wanted(fitted)
        decided = _SPARK_TYPES.get(_decision_dtype(fitted).kind, "string")
        ids = [] if self.id_column is None else [(self.id_column, id_type)]
        labels = [(name, "double") for name in wanted.probabilities or ()]
        labels += [(name, decided) for name in wanted.decisions or ()]
        columns = [*ids, ("no_view", "boolean"), *labels]
        return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns)

    def meta(self, frame: Any) -> Any:
        """Return the answers to no row: what Dask asks for as `meta`.

        Parameters
        ----------
        frame : DataFrame
            Of Dask, or of pandas with the same columns.

        Returns
        -------
        DataFrame
        """
        return self._answer(getattr(frame, "_meta", frame).iloc[:0])

    def _wanted(self, fitted: MultiViewClassifier) -> Wanted:
        names = [str(name) for name in fitted.label_names_]
        return Wanted(
            self.id_column,
            None if self.what == "decisions" else names,
            None
            if self.what == "probabilities"
            else label_columns(names, self.what)[-len(names) :],
            np.isnan(fitted.label_frequency_),
        )

    def _check_names(self, wanted: Wanted) -> None:
        ids = [] if self.id_column is None else [self.id_column]
        names = [*ids, "no_view", *(wanted.probabilities or ()), *(wanted.decisions or ())]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise SettingError(
                f"two columns of the answers would be named {repeated[0]!r}; name the column of "
                "ids otherwise, or ask for probabilities or decisions alone"
            )

    # ------------------------------------------------------------------ one batch

    def _answer(self, table: Any) -> Any:
        batch = (FrameBatch if is_frame(table) else ArrowBatch)(table)
        refuse_duplicates(f"{NAME}: column names", batch.names, ViewError)
        if self.id_column is not None and self.id_column not in batch.names:
            raise ViewError(
                f"{NAME}: no column is named {self.id_column!r} (id_column); found "
                f"{first_few(batch.names)}"
            )
        loaded = self._loaded()
        columns = self._columns(batch, loaded.model)
        if batch.n_rows == 0:
            answers = _no_answers(loaded.model)
        else:
            views = self._views(batch, columns, loaded.model)
            with loaded.lock:
                answers = _predicted(loaded.model, views)
        return batch.answered(answers, self._wanted(loaded.model))

    def _columns(self, batch: Batch, fitted: MultiViewClassifier) -> dict[str, Columns]:
        """Columns by view; those of ids and labels belong to none."""
        others = {self.id_column, *map(str, fitted.label_names_)}
        values = [name for name in batch.names if name not in others]
        dims = dict(zip(fitted.view_names_, fitted.view_dims_, strict=True))
        found: dict[str, Columns] = {}
        if not self.views:
            found |= {name: name for name in values if _has_arrays(batch, name, dims.get(name))}
        rest = [name for name in values if name not in found]
        if not found or any(":" in name for name in rest):
            named = columns_by_view(NAME, ReadOptions.of(self.views or None), rest)
            twice = sorted(named.keys() & found.keys())
            if twice:
                raise ViewError(
                    f"{NAME}: view {twice[0]!r} is there twice, as a column of arrays and as "
                    f"{first_few(named[twice[0]].values())}; leave one of them out"
                )
            for view, own in named.items():
                only = next(iter(own.values()))
                whole = len(own) == 1 and self.views and _has_arrays(batch, only, dims.get(view))
                found[view] = only if whole else own
        used = {name for own in found.values() for name in _names(own)}
        left = [name for name in values if name not in used]
        if left:
            warnings.warn(
                f"{len(left)} columns belong to no view and are not read: {first_few(left)}",
                ViewgapWarning,
                stacklevel=4,
            )
        return found

    def _views(
        self, batch: Batch, columns: Mapping[str, Columns], fitted: MultiViewClassifier
    ) -> ViewSet:
        """The views of a batch; messages name rows with repeated or absent ids by their number."""
        import pandas as pd

        index = pd.RangeIndex(batch.n_rows)
        if self.id_column is not None:
            ids = pd.Index(batch.ids(self.id_column), dtype=object)
            index = index if unusable_ids(ids) or not ids.is_unique else ids
        dims = dict(zip(fitted.view_names_, fitted.view_dims_, strict=True))
        views: dict[str, Any] = {}
        for view, own in columns.items():
            if isinstance(own, str):
                # In the order of the fit, as an array in Python is.
                names = fitted.feature_names_in_.get(view)
                views[view] = NamedMatrix(batch.arrays(own, dims[view], index), index, names)
            else:
                numbers = batch.numbers(list(own.values()))
                views[view] = numbers.set_axis(list(own), axis=1).set_axis(index)
        return ViewSet(views)

    def _loaded(self) -> _Loaded:
        return _load(self.model, self.digest, self.device, self.nan)


def _no_answers(model: MultiViewClassifier) -> Answers:
    shape = (0, len(model.label_names_))
    decisions = np.empty(shape, _decision_dtype(model))
    return Answers(np.empty(0, int), np.empty(0, np.bool_), np.empty(shape), decisions)


def _decision_dtype(model: MultiViewClassifier) -> np.dtype[Any]:
    """Type of decisions: whole numbers; after a fit on a 1-D y, that of its values."""
    return np.asarray(model.classes_).dtype if model.one_label_ else np.dtype(np.int64)


def _has_arrays(batch: Batch, name: str, width: int | None) -> bool:
    """Whether a column holds a whole view; `width`: of the view of this name, None without one.

    Where all is null, nothing tells arrays from numbers; a view of several columns is then missing.
    """
    arrays = batch.holds_arrays(name) if width is not None else False
    return width != 1 if arrays is None else arrays


def _names(own: Columns) -> Iterable[str]:
    return [own] if isinstance(own, str) else own.values()


def _predicted(model: MultiViewClassifier, views: ViewSet) -> Answers:
    """The answers, which must not depend on the samples that happen to be in a batch."""
    parts = list(predict_blocks(model, views, 1 if rounds_by_batch(model) else None))
    if len(parts) == 1:
        return parts[0]
    names = ("ids", "no_view", "probabilities", "decisions")
    return Answers(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


# ---------------------------------------------------------------------- models of this process


@dataclass(frozen=True, eq=False)
class _Loaded:
    """A model; one thread at a time uses it (Dask has several threads in a process)."""

    model: MultiViewClassifier
    lock: threading.Lock = field(default_factory=threading.Lock)


_Key = tuple[str, str, str | None, str | None]
_models: OrderedDict[_Key, _Loaded] = OrderedDict()
_models_lock = threading.Lock()


def _load(path: str, digest: str, device: str | None, nan: str | None) -> _Loaded:
    """The model of this digest, as this process has it; loaded once."""
    key = (path, digest, device, nan)
    with _models_lock:
        found = _models.get(key)
        if found is None:
            folder = local_folder(path)
            _check_digest(path, digest, model_folder.digest(folder))
            model = load_model(folder, device=device)
            _check_digest(path, digest, model_folder.digest(folder))  # replaced meanwhile?
            model.set_params(nan=model.nan if nan is None else nan, on_empty="prior")
            found = _models[key] = _Loaded(model)
            while len(_models) > MOST_MODELS:
                _models.popitem(last=False)
        _models.move_to_end(key)
    return found


def _check_digest(path: str, expected: str, found: str) -> None:
    if found != expected:
        raise ModelFileError(
            f"{path} is another model (digest {found[:12]}) than when the work began "
            f"({expected[:12]}); put that one back, or begin again, so that all answers are of one "
            "model"
        )
