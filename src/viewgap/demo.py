"""The demo: an experiment on MultiDigits and its report, with examples of the test samples.

The experiment is `bench/configs/demo.toml`: half of the views and half of the training labels are
missing, by the protocol of the field.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap import strict_json
from viewgap.bench.analyse.summary import Row, summarise
from viewgap.bench.results.record import RECORDS, Record
from viewgap.bench.run.execute import FittedTask, fit_task, load_task_data
from viewgap.bench.run.experiment import expand, shipped_config
from viewgap.bench.run.task import Task
from viewgap.bench.show.contents import metrics_table
from viewgap.bench.show.report import render_report
from viewgap.bench.show.showcase import Example, Showcase
from viewgap.bench.show.tables import Line, Table, TableEntry, TitledTable, to_rich
from viewgap.datasets import Dataset
from viewgap.fsio import make_folder, write_file
from viewgap.metrics.evaluation import field_metrics

if TYPE_CHECKING:
    from rich.table import Table as RichTable

MAIN = "scsd"
TITLES = {
    "label_frequency": "label frequency",
    "late_fusion_ridge": "late-fusion ridge",
    "imputed_logistic": "imputed logistic regression",
    "random_forest": "random forest",
    "scsd": "SCSD",
}
EXAMPLES = 12
FEWEST_SAMPLES = 10  # an average over fewer says nothing


@dataclass(frozen=True)
class DemoResult:
    """What the demo made, and where it lies."""

    records: list[Record]
    table: RichTable
    results: Path
    report: Path


def run_demo(out: Path, folds: int = 1, experiment: Mapping[str, Any] | None = None) -> DemoResult:
    """Run the experiment, write `results.json`, `records.jsonl` and `report.html` into `out`.

    `experiment` replaces the content of the experiment file, for a shorter run.
    """
    make_folder(out)  # a folder that cannot be written fails first
    content = dict(experiment or shipped_config("demo"))
    content["experiment"] = {**content["experiment"], "folds": folds}
    tasks = sorted(expand(content, "demo"), key=lambda task: task.fold)
    fitted = [_fit(task) for task in tasks]
    records = [own.record for own in fitted]
    plain = [record.to_dict() for record in records]
    write_file(out / "results.json", strict_json.dumps(plain))
    lines = [json.dumps(record, allow_nan=False) for record in plain]
    write_file(out / RECORDS, ("\n".join(lines) + "\n").encode())
    rows = summarise(records)
    showcase = make_showcase(load_task_data(tasks[0]), fitted, rows)
    write_file(out / "report.html", render_report(records, showcase=showcase).encode())
    title = "MultiDigits, 50 % of the views and 50 % of the labels missing"
    table = to_rich(metrics_table(rows), title)
    return DemoResult(records, table, out / "results.json", out / "report.html")


def _fit(task: Task) -> FittedTask:
    fitted = fit_task(task, verbose=sys.stderr.isatty())
    record = fitted.record
    print(
        f"{_title(task.method):<28} fold {task.fold}   AP {record.metrics['AP']:.3f}   "
        f"{record.seconds:6.1f} s",
        file=sys.stderr,
        flush=True,
    )
    return fitted


def _title(method: str) -> str:
    return TITLES.get(method, method)


# ---------------------------------------------------------------------- what the report adds


def make_showcase(dataset: Dataset, fitted: Sequence[FittedTask], rows: Sequence[Row]) -> Showcase:
    """The headline from the metrics over all folds, everything else from the first fold."""
    first = {own.record.method: own for own in fitted if own.record.fold == 0}
    main = first[MAIN]
    model: Any = main.model
    test = main.split.test[0]
    ranked = sorted(rows, key=lambda row: -row.mean["AP"])
    return Showcase(
        headline=headline([row.method for row in ranked], main.record.settings),
        summary=summary(ranked, len(test), "canvases"),
        main=_title(MAIN),
        view_names=test.names,
        label_names=dataset.label_names,
        observed=test.observed,
        thresholds=np.broadcast_to(model.thresholds_, len(dataset.label_names)).tolist(),
        examples=_examples(dataset, main),
        tables=[_by_views([first[row.method] for row in ranked]), _view_weights(main)],
        sample_noun=("canvas", "canvases"),
        label_noun=("digit", "digits"),
    )


def headline(ranked: Sequence[str], settings: Mapping[str, Any]) -> str:
    """What happened, in one or two short sentences that the numbers back."""
    views, missing = _share(settings["view_rate"]), _share(settings["label_rate"])
    gone = _sentence_start(f"{views} of the views and {missing} of the labels are missing.")
    if ranked[0] == MAIN:
        return f"{gone} {_title(MAIN)} still ranks the digits best."
    winner = _sentence_start(_title(ranked[0]))
    return (
        f"{gone} {winner} ranks the digits best; {_title(MAIN)} is number "
        f"{list(ranked).index(MAIN) + 1} of {len(ranked)}."
    )


def summary(ranked: Sequence[Row], n_test: int, samples: str = "samples") -> str:
    """The headline's number, and its distance to the best baseline."""
    main = next(row for row in ranked if row.method == MAIN)
    ap = main.mean["AP"]
    folds = f", mean of {main.folds} folds" if main.folds > 1 else ""
    text = f"Average precision {ap:.3f} on {n_test:,} {samples} it has never seen{folds}"
    others = [row for row in ranked if row.method != MAIN]
    if not others:
        return text + "."
    gap = ap - others[0].mean["AP"]
    side = "above" if gap >= 0 else "below"
    return f"{text}: {abs(gap):.3f} {side} the best baseline, {_title(others[0].method)}."


def _sentence_start(text: str) -> str:
    return text[:1].upper() + text[1:]


def _share(rate: float) -> str:
    return "half" if rate == 0.5 else f"{100 * rate:.0f} %"


def _by_views(fitted: Sequence[FittedTask]) -> TitledTable:
    """Average precision on the test samples that kept exactly so many views."""
    kept = fitted[0].split.test[0].observed.sum(axis=1)
    groups = {int(n): kept == n for n in np.unique(kept) if (kept == n).sum() >= FEWEST_SAMPLES}
    lines = []
    for own in fitted:
        truth = own.split.test[1]
        values = [_ap(truth[rows], own.probabilities[rows]) for rows in groups.values()]
        entries = tuple(TableEntry(f"{value:.3f}") for value in values)
        lines.append(Line("", _title(own.record.method), entries))
    columns = tuple(f"{n} view{'s' * (n != 1)}, {rows.sum()} samples" for n, rows in groups.items())
    return TitledTable(
        "What a missing view costs",
        Table(columns, lines, ["average precision by the number of views that a sample kept"]),
    )


def _view_weights(fitted: FittedTask) -> TitledTable:
    """How much the fusion listens to a view, and how good the view is on its own."""
    model: Any = fitted.model
    test, truth = fitted.split.test
    alone = model.predict_views(test)
    values = {
        name: (model.view_weights_[name], _ap(truth[seen], alone[name][seen]))
        for name, seen in zip(test.names, test.observed.T, strict=True)
    }
    lines = [
        Line("", name, (TableEntry(f"{100 * weight:.1f} %"), TableEntry(f"{ap:.3f}")))
        for name, (weight, ap) in sorted(values.items(), key=lambda item: -item[1][0])
    ]
    note = "weights of the fusion when all views are observed, learned on rows held out of training"
    return TitledTable(
        f"View weights of {_title(MAIN)}",
        Table(("weight", "AP of the view alone"), lines, [note]),
        row_name="view",
    )


def _ap(truth: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    return field_metrics(truth, scores, ("AP",))["AP"]


def _examples(dataset: Dataset, fitted: FittedTask) -> list[Example]:
    """The first test canvases with one view, with two views, ...: chosen by gaps, not by result."""
    test, truth = fitted.split.test
    kept = test.observed.sum(axis=1)
    rank_in_group = np.array([(kept[:i] == kept[i]).sum() for i in range(len(kept))])
    chosen = np.lexsort((kept, rank_in_group))[:EXAMPLES]
    chosen = chosen[np.argsort(kept[chosen], kind="stable")]
    pictures = dataset.extras["canvas"][fitted.fold.test[chosen]]
    return [
        Example(
            name=f"canvas {test.sample_ids[row]}",
            image=_enlarge(picture),
            truth=[bool(t) for t in truth[row] == 1],
            probability=[float(p) for p in fitted.probabilities[row]],
            observed=[bool(o) for o in test.observed[row]],
        )
        for row, picture in zip(chosen, pictures, strict=True)
    ]


def _enlarge(canvas: NDArray[Any]) -> NDArray[Any]:
    """A canvas from 0 to 1, smooth enough to be read by people."""
    from scipy.ndimage import zoom

    return np.asarray(zoom(np.clip(canvas, 0, 1), 6, order=3))
