"""The models of a service: loaded from their folders, and again when a folder is replaced."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import viewgap.model_folder as model_folder
from viewgap.decide.label_sets import LabelSets
from viewgap.errors import DataFileError, SettingError, ViewgapError, first_few
from viewgap.methods.base import MultiViewClassifier
from viewgap.model_file import load_model
from viewgap.serve.settings import RequestError, ServiceSettings

log = logging.getLogger("viewgap.serve")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CHANGED = "the folder has changed and could not be loaded; the model before it answers on"
_OTHER_SETS = "the label sets do not fit the model that is served now; they have to be made anew"


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """One fitted model as it was loaded; a request uses the same one from its rows to its answer.

    Attributes
    ----------
    name : str
        Name in addresses and answers.
    fitted : MultiViewClassifier
        The model; samples without any view get the label frequencies.
    columns : dict
        Column names by view; "0", "1", ... of a view that was fitted without.
    version : int
        1, and one more for every time that the folder or the label sets were replaced.
    label_sets : LabelSets or None
        What `/decide` answers with.
    label_sets_problem : str
        Why there are none although a file was named.
    """

    name: str
    fitted: MultiViewClassifier
    columns: dict[str, tuple[str, ...]]
    version: int
    label_sets: LabelSets | None = None
    label_sets_problem: str = ""

    def is_named(self, view: str) -> bool:
        """Whether the columns of a view have names, so that a list of values has no order."""
        return view in self.fitted.feature_names_in_

    @property
    def n_values(self) -> int:
        """Numbers that one row and its answer consist of."""
        return self.fitted.n_features_in_ + len(self.fitted.label_names_)


class ServedModel:
    """A model folder, and the model that answers for it.

    Neither the folder nor the file of label sets is ever named to clients.
    """

    def __init__(self, name: str, folder: Path, label_sets: Path | None = None) -> None:
        self.name, self._folder, self._label_sets = name, folder, label_sets
        self._identity = self._look()
        self._lock = threading.Lock()
        self.loaded = self._load(1)
        self.problem = ""
        if label_sets is not None:
            sets = _load_label_sets(label_sets, self.loaded.fitted)
            self.loaded = replace(self.loaded, label_sets=sets)

    def refresh(self) -> None:
        """Look at the folder and the label sets; load both again if one is another than before.

        Requests go on meanwhile, with the old object. A folder that cannot be loaded changes
        nothing but `problem`. Label sets that do not fit the model are left out: `/decide` says so.
        """
        with self._lock:
            found = self._look()
            if found == self._identity:
                return
            self._identity = found
            try:
                self.loaded = self._with_label_sets(self._load(self.loaded.version + 1))
            except Exception as error:
                self.problem = _CHANGED
                log.error("model %s: %s: %s", self.name, _CHANGED, error)
                return
            self.problem = ""
            log.info("model %s: loaded again, version %d", self.name, self.loaded.version)

    def _look(self) -> tuple[Any, ...]:
        own = () if self._label_sets is None else (_status(self._label_sets),)
        return _identity(self._folder) + own

    def _with_label_sets(self, loaded: LoadedModel) -> LoadedModel:
        if self._label_sets is None:
            return loaded
        try:
            return replace(loaded, label_sets=_load_label_sets(self._label_sets, loaded.fitted))
        except ViewgapError as error:
            log.error("model %s: %s: %s", self.name, _OTHER_SETS, error)
            return replace(loaded, label_sets_problem=_OTHER_SETS)

    def _load(self, version: int) -> LoadedModel:
        fitted = load_model(self._folder)
        fitted.set_params(on_empty="prior")
        counted = zip(fitted.view_names_, fitted.view_dims_, strict=True)
        columns = {
            view: fitted.feature_names_in_.get(view) or tuple(map(str, range(dim)))
            for view, dim in counted
        }
        return LoadedModel(self.name, fitted, columns, version)


def _load_label_sets(file: Path, fitted: MultiViewClassifier) -> LabelSets:
    """Label sets whose missing values were taken as the service takes them."""
    sets = LabelSets.load(file, fitted)
    if sets.nan != fitted.nan:
        raise DataFileError(
            f"{file}: calibrated with nan={sets.nan!r}, the model was fitted with "
            f"nan={fitted.nan!r}, as which it is served; calibrate it so"
        )
    return sets


def _identity(folder: Path) -> tuple[Any, ...]:
    """What differs for a folder that was replaced or written into; a few calls of `stat`."""
    names = (model_folder.MODEL, model_folder.WEIGHTS, model_folder.CHECKSUMS)
    paths = [folder, *(folder / name for name in names)]
    return tuple(map(_status, paths))


def _status(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


class ModelStore:
    """All models of a service, by name.

    `folders` are by the names of their models; of a sequence, these are the folders' own names.
    `label_sets` are files by the names of their models.
    """

    def __init__(
        self,
        folders: Mapping[str, Any] | Sequence[Any],
        label_sets: Mapping[str, Any] | None = None,
    ) -> None:
        named = _named_folders(folders)
        sets = {name: Path(file) for name, file in (label_sets or {}).items()}
        for name in sets:
            if name not in named:
                served = first_few(named, 20)
                raise SettingError(
                    f"label sets for {name!r}, which is not served; there is {served}"
                )
        self.models = {
            name: ServedModel(name, folder, sets.get(name)) for name, folder in named.items()
        }

    def find(self, name: str | None, field: str = "model") -> ServedModel:
        """The model of this name; the only one where none is named."""
        if name is None:
            if len(self.models) == 1:
                return next(iter(self.models.values()))
            raise RequestError(f"several models are served; name one of {self._shown()}", field)
        if name not in self.models:
            raise RequestError(f"no model {name[:60]!r}; there is {self._shown()}", field, 404)
        return self.models[name]

    def refresh(self) -> None:
        """Look at all folders."""
        for model in self.models.values():
            model.refresh()

    def _shown(self) -> str:
        return first_few(self.models, 20)


def _named_folders(folders: Mapping[str, Any] | Sequence[Any]) -> dict[str, Path]:
    if isinstance(folders, str | os.PathLike):
        folders = [folders]
    if not isinstance(folders, Mapping):
        paths = [Path(folder) for folder in folders]
        names = [path.resolve().name for path in paths]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise SettingError(
                f"several model folders are called {min(repeated)!r}; give them names: NAME=FOLDER"
            )
        folders = dict(zip(names, paths, strict=True))
    if not folders:
        raise SettingError("no model to serve; name at least one model folder")
    for name in folders:
        if not _NAME.fullmatch(name):
            raise SettingError(
                f"{name!r} cannot be the name of a model in an address (letters, digits and ._- "
                "only); give it another one: NAME=FOLDER"
            )
    return {name: Path(folder) for name, folder in folders.items()}


def described(model: ServedModel, settings: ServiceSettings) -> dict[str, Any]:
    """What clients are told about a model; nothing of where it lies."""
    loaded, fitted = model.loaded, model.loaded.fitted
    thresholds = np.broadcast_to(fitted.thresholds_, len(fitted.label_names_))
    views = [
        {
            "name": view,
            "n_columns": len(loaded.columns[view]),
            "named": loaded.is_named(view),
            "columns": list(loaded.columns[view]),
        }
        for view in fitted.view_names_
    ]
    labels = [
        {
            "name": label,
            "frequency": None if np.isnan(frequency) else float(frequency),
            "threshold": float(threshold),
        }
        for label, frequency, threshold in zip(
            fitted.label_names_, fitted.label_frequency_, thresholds, strict=True
        )
    ]
    return {
        "name": model.name,
        "version": loaded.version,
        "method": type(fitted).__name__,
        "views": views,
        "labels": labels,
        "nan": fitted.nan,
        "max_rows": settings.rows_of(loaded.n_values),
        "max_body": settings.max_body,
        "label_sets": None if loaded.label_sets is None else guarantee(loaded.label_sets),
        "problem": model.problem or loaded.label_sets_problem or None,
    }


def guarantee(sets: LabelSets) -> dict[str, Any]:
    """What label sets promise, and under which assumption."""
    return {
        "risk": sets.risk,
        "target_level": sets.target_level,
        "confidence_level": sets.confidence_level,
        "per_label": sets.per_label,
        "promise": sets.promise,
        "assumption": sets.assumption,
    }
