"""`viewgap.compare`: methods cross-validated on one's own data, and how sure the differences are.

The tasks, their journal and the report are those of `bench`: a comparison is an experiment on one
data set whose folds are balanced parts of the rows, with the gaps that the data have.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewgap.bench.analyse.paired import Comparison, MethodScore, compare_to_best
from viewgap.bench.analyse.summary import summarise
from viewgap.bench.results.record import RECORDS, Record, read_failures, read_records
from viewgap.bench.run.execute import load_task_data
from viewgap.bench.run.limits import Limits, parse_duration
from viewgap.bench.run.progress import LineProgress
from viewgap.bench.run.runner import Tally, check_data, run_tasks
from viewgap.bench.run.task import Task
from viewgap.bench.run.task_data import forget, keep_in_memory, looks_like_path, own_files
from viewgap.bench.show.contents import metrics_table
from viewgap.bench.show.paired_table import paired_table
from viewgap.bench.show.report import render_report
from viewgap.bench.show.tables import Table, TitledTable
from viewgap.data.formats.options import ReadOptions
from viewgap.data.splits import group_numbers
from viewgap.data.validation import as_labels, as_viewset
from viewgap.datasets import Dataset, load_dataset
from viewgap.errors import InputError, LabelError, RunError, SettingError, parameter
from viewgap.fsio import make_folder, write_file
from viewgap.methods.estimator.one_label import as_column, find_classes, is_one_label
from viewgap.methods.fitting.processes import refuse_group
from viewgap.metrics import registered_metrics
from viewgap.metrics.evaluation import OF_ROWS
from viewgap.notebook import card, soft, table

if TYPE_CHECKING:
    import pandas as pd

BASELINES = ("label_frequency", "late_fusion_ridge", "extra_trees", "ensemble")
REPORT = "report.html"
DATA_NAME = "data"


@dataclass(frozen=True)
class ComparisonResult:
    """How methods did on the same folds of one data set; made by `compare`.

    Attributes
    ----------
    dataset : str
        Name of the data.
    metric : str
        The metric by which methods are compared.
    best : str
        The method with the best mean of it on the folds that all methods have.
    scores : tuple of MethodScore
        One entry per method, the best first: mean and interval, difference to the best with its
        interval and p-values, seconds a fold, and the means of all metrics.
    n_samples, n_left_out : int
        Samples in the folds, and those without any view or any observed label.
    n_folds : int
        Folds asked for, repetitions included.
    records, failures : list
        What `bench` keeps of each task.
    n_left : int
        Tasks that the time limit left undone.
    out : Path or None
        Folder with the records and `report.html`; None where nothing was kept.
    """

    dataset: str
    metric: str
    best: str
    scores: tuple[MethodScore, ...]
    n_samples: int
    n_left_out: int
    n_folds: int
    records: list[Record] = field(repr=False)
    failures: list[dict[str, Any]] = field(repr=False)
    n_left: int = 0
    out: Path | None = None

    def to_frame(self) -> pd.DataFrame:
        """One row per method, as a DataFrame."""
        import pandas as pd

        rows = [{k: v for k, v in asdict(own).items() if k != "metrics"} for own in self.scores]
        return pd.DataFrame(rows).set_index("method")

    def _repr_html_(self) -> str:
        """The table of the methods, for notebooks."""
        own = self.table()
        head = f"{self.n_samples:,} samples, {self.n_folds} folds"
        lines = [
            [line.title, *(entry.text for entry in line.entries), *line.tail] for line in own.lines
        ]
        failed = [f"{one['method']}, fold {one['fold']}: {one['error']}" for one in self.failures]
        return card(
            f"<b>Comparison</b> {soft(f'{self.dataset}: {head}')}",
            table(["method", *own.columns], lines),
            *(f"<div>{soft(note)}</div>" for note in [*own.notes, *failed]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "data": self.dataset,
            "samples": self.n_samples,
            "samples_left_out": self.n_left_out,
            "folds": self.n_folds,
            "metric": self.metric,
            "best": self.best,
            "methods": [asdict(own) for own in self.scores],
            "failures": [
                {key: failure[key] for key in ("method", "fold", "error")}
                for failure in self.failures
            ],
            "tasks_left": self.n_left,
            "out": None if self.out is None else str(self.out),
        }

    def table(self) -> Table:
        """The comparison as a table, see `bench.show.tables`."""
        return paired_table(self.scores, self.metric, self.best)

    def metrics_table(self) -> Table:
        """Mean and standard deviation of every metric."""
        return metrics_table(summarise(self.records, self.failures))


def compare(
    X: Any,
    y: Any = None,
    *,
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]] = BASELINES,
    folds: int = 5,
    n_repeats: int = 1,
    groups: Any = None,
    metric: str | None = None,
    labels: str | os.PathLike[str] | None = None,
    missing: str = "mean",
    reading: Mapping[str, Any] | None = None,
    view_rate: float = 0.0,
    label_rate: float = 0.0,
    random_state: int = 0,
    n_jobs: int = 1,
    time_limit: str | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: LineProgress | None = None,
) -> ComparisonResult:
    """Cross-validate methods on the same folds of incomplete data and compare them.

    Folds are alike in their labels and in the views that they miss (`BalancedKFold`). Missing views
    and labels stay as they are; labels that were not observed count nowhere. A method that needs
    rows to choose an epoch or thresholds takes them from its training part.

    Parameters
    ----------
    X : ViewSet, dict, list, or path
        The views, see `ViewSet`; or a file, a folder, or the name of a data set.
    y : array or DataFrame of shape (n, c), or 1-D, optional
        The labels; NaN where one was not observed. Not with a path or a name.
    methods : sequence of str, or dict of str to dict, default=BASELINES
        Names of methods, perhaps with their parameters.
    folds : int, default=5
        Number of folds.
    n_repeats : int, default=1
        How often the rows are dealt to folds anew: intervals get narrower, fits more.
    groups : array of shape (n,), or str, optional
        Rows of one group (the samples of a patient, say) are never on both sides of a fold. For
        data at a path: a table by sample id, `"FILE"` or `"FILE:COLUMN"`.
    metric : str, optional
        The metric to compare by, of variant `"clean"`: if None, AP; of a single label, macro AUC.
    labels : path, optional
        Table of labels for data at a path.
    missing : {"mean", "error", "missing_view"}, default="mean"
        What a NaN among the values of a view means.
    reading : dict, optional
        How the files at a path are read: `views`, `label_columns`, `label_separator`, `id_column`
        and `decimal`, see `read_data`.
    view_rate, label_rate : float, default=0
        Shares of views and training labels to hide besides those that are missing.
    random_state : int, default=0
        Seed of the methods.
    n_jobs : int, default=1
        Fits at the same time, in processes.
    time_limit : str, optional
        As `"25m"` or `"2h"`: begin no fit that is not expected to end in time.
    out : path, optional
        Folder for records and report. The same call goes on where an earlier one was stopped; other
        data or settings are other tasks.
    progress : LineProgress, optional
        Shows how it gets on; lines on stderr if None.

    Returns
    -------
    ComparisonResult

    Examples
    --------
    >>> import viewgap
    >>> data = viewgap.load_dataset("synthetic", n_samples=120, noise=0.1, seed=0)
    >>> names = ["label_frequency", "late_fusion_ridge"]
    >>> found = viewgap.compare(data.views, data.labels, methods=names, folds=3)
    >>> found.best
    'late_fusion_ridge'
    """
    refuse_group("compare", "out")
    limits = Limits(
        None if time_limit is None else parse_duration(time_limit, parameter("time_limit"))
    )
    options = {"labels": labels, "groups": groups, "missing": missing}
    with ExitStack() as held:
        if out is None:
            folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        else:
            folder = Path(out)
            make_folder(folder)  # before the work, not after it
        data = _source(X, y, options, reading or {})
        if "files" in data:
            held.callback(forget, data)
        fixed = {
            **data,
            "seed": random_state,
            "view_rate": float(view_rate),
            "label_rate": float(label_rate),
            "validation": "none",
            "cv": folds,
            "variant": "clean",
        }
        tasks = make_tasks(_with_parameters(methods), folds * n_repeats, fixed)
        dataset = load_task_data(tasks[0])  # here, an error names the options of the command line
        metric = _chosen_metric(metric, len(dataset.label_names))
        _check_labels(dataset, metric)
        check_data(tasks)
        tally = run_tasks(tasks, folder, n_jobs, progress, limits=limits)
        return _result(tasks, folder, metric, tally, keep=out is not None)


def make_tasks(
    methods: Mapping[str, Mapping[str, Any]], n_folds: int, fixed: Mapping[str, Any]
) -> list[Task]:
    """All methods on the first fold, then on the second: whatever is done can be compared."""
    if not methods:
        raise SettingError("there is no method to compare; name at least one")
    return [
        Task(method=name, params=dict(params), fold=fold, **fixed)
        for fold in range(n_folds)
        for name, params in methods.items()
    ]


# ---------------------------------------------------------------------- data


def _source(
    X: Any, y: Any, options: Mapping[str, Any], reading: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of a task that say which data it is about."""
    is_file = isinstance(X, str | os.PathLike) and _is_path(os.fspath(X))
    unused = [] if is_file else ReadOptions.of(**reading).given()
    if unused:
        raise SettingError(
            f"{parameter(unused[0])} says how files are read; views in memory and named data sets "
            "have no use for it"
        )
    if not isinstance(X, str | os.PathLike):
        if options["labels"] is not None:
            raise SettingError("labels= is for data at a path; give the labels of X as y")
        return keep_in_memory(_dataset_of(X, y, options))
    if y is not None:
        raise LabelError("y is for views in memory; for data at a path or a name, give labels=")
    name = os.fspath(X)
    given = {key: value for key, value in options.items() if value is not None}
    if _is_path(name):
        if not isinstance(options["groups"], str | os.PathLike | None):
            raise SettingError("groups of data at a path are a table: 'FILE' or 'FILE:COLUMN'")
        paths = {key: os.fspath(value) for key, value in given.items()}
        return own_files(name, {**paths, **reading})
    if options["labels"] is not None or options["groups"] is not None:
        raise SettingError(
            f"{name!r} is a named data set, with labels of its own and without groups; labels and "
            "groups can be given for data at a path"
        )
    load_dataset(name)  # refused here, once, rather than by every task
    return {"dataset": name}


def _is_path(name: str) -> bool:
    return Path(name).exists() or looks_like_path(name)


def _dataset_of(X: Any, y: Any, options: Mapping[str, Any]) -> Dataset:
    if y is None:
        raise LabelError("compare needs labels: pass y, with NaN where a label was not observed")
    views = as_viewset(X, nan=options["missing"])
    known = as_labels(as_column(y, find_classes(y)) if is_one_label(y) else y, views)
    groups = options["groups"]
    if groups is not None:
        groups = _groups_of(groups, len(views))
    fixed = views.with_fixed_row_order()
    return Dataset(DATA_NAME, fixed, known.as_float(), known.names, groups=groups)


def _groups_of(groups: Any, n: int) -> Any:
    if isinstance(groups, str | os.PathLike):
        raise SettingError("groups of views in memory are an array with one value per sample")
    return group_numbers(groups, n)


def _with_parameters(
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]],
) -> dict[str, Mapping[str, Any]]:
    if isinstance(methods, str):
        methods = [methods]
    if isinstance(methods, Mapping):
        return dict(methods)
    repeated = [name for name in methods if list(methods).count(name) > 1]
    if repeated:
        raise SettingError(f"the method {repeated[0]!r} is named twice")
    return {name: {} for name in methods}


def _chosen_metric(metric: str | None, n_labels: int) -> str:
    if metric is None:
        return "AP" if n_labels > 1 else "macro AUC"
    known = [own.name for own in registered_metrics()]
    if metric not in known:
        raise SettingError(f"unknown metric {metric!r}; available: {', '.join(known)}")
    if n_labels == 1 and metric in OF_ROWS:
        raise SettingError(
            f"{metric} is about the order of the labels of a sample, and the data have one label; "
            f"use {parameter('metric', 'macro AUC')}"
        )
    return metric


def _check_labels(dataset: Dataset, metric: str) -> None:
    """Refuse data on which no fit could be measured, before the first one."""
    labels = dataset.labels[dataset.views.has_view]
    if not (labels == labels).any():
        raise LabelError(f"{dataset.name}: no sample has both a view and an observed label")
    if metric in OF_ROWS and not (labels == 1).any():
        raise LabelError(
            f"{dataset.name}: no label is positive in any sample, so {metric} is not defined; use "
            f"{parameter('metric', '1-HL')}, or look at how the labels are coded"
        )


# ---------------------------------------------------------------------- result


def _result(
    tasks: Sequence[Task], folder: Path, metric: str, tally: Tally, *, keep: bool
) -> ComparisonResult:
    wanted = {task.id for task in tasks}
    records = [record for record in read_records(folder) if record.task in wanted]
    failures = [failure for failure in read_failures(folder) if failure["task"] in wanted]
    if not records:
        raise RunError(_nothing_done(failures, tally))
    found = _compared(records, failures, metric)
    dataset = load_task_data(tasks[0])
    usable = dataset.views.has_view & (dataset.labels == dataset.labels).any(axis=1)
    if keep:
        first = TitledTable(
            "Difference to the best", paired_table(found.scores, metric, found.best)
        )
        title = f"Methods on {dataset.name}"
        page = render_report(records, failures, title, reference=found.best, tables=[first])
        write_file(folder / REPORT, page.encode())
    return ComparisonResult(
        dataset=dataset.name,
        metric=metric,
        best=found.best,
        scores=found.scores,
        n_samples=int(usable.sum()),
        n_left_out=int((~usable).sum()),
        n_folds=1 + max(task.fold for task in tasks),
        records=records,
        failures=failures,
        n_left=len(tally.left),
        out=folder if keep else None,
    )


def _compared(
    records: Sequence[Record], failures: Sequence[Mapping[str, Any]], metric: str
) -> Comparison:
    try:
        return compare_to_best(records, failures, metric)
    except InputError as error:
        raise InputError(f"the methods cannot be compared by {metric}: {error}") from error


def _nothing_done(failures: Sequence[Mapping[str, Any]], tally: Tally) -> str:
    if failures:
        first = failures[0]
        return f"every fit failed; first: {first['method']}, fold {first['fold']}: {first['error']}"
    return (
        f"no fit ended in time ({len(tally.left)} are left); give more time, fewer methods or a "
        f"folder ({RECORDS} is kept there) to go on in"
    )
