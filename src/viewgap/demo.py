"""The demo: SCSD and the simple picks on MultiDigits, one table and one picture.

Half of the views and half of the training labels are missing, by the paper's protocol.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.results.record import Record, save_records
from viewgap.bench.run.execute import FittedCell, fit_cell
from viewgap.bench.run.task import Cell
from viewgap.bench.show.tables import Row, as_rich, summarise
from viewgap.datasets import Dataset, load_dataset
from viewgap.fsio import make_folder, write_file
from viewgap.metrics.evaluation import field_metrics
from viewgap.report import Example, MethodResult, Story, ViewTrust, render_report

if TYPE_CHECKING:
    from rich.table import Table

DATASET = "multidigits"
MAIN = "scsd"
TITLES = {
    "label_frequency": "label frequency",
    "late_fusion_ridge": "late-fusion ridge",
    "imputed_logistic": "imputed logistic regression",
    "random_forest": "random forest",
    "scsd": "SCSD",
}
# Later epochs gain little here, and a demo should end while somebody is still watching.
PARAMS: Mapping[str, Mapping[str, Any]] = {"scsd": {"max_epochs": 45}}
EXAMPLES = 12
FEWEST_SAMPLES = 10  # an average over fewer says nothing


@dataclass(frozen=True)
class DemoResult:
    """What the demo made, and where it lies."""

    records: list[Record]
    table: Table
    results: Path
    report: Path


def run_demo(
    out: Path,
    folds: int = 1,
    methods: Sequence[str] = tuple(TITLES),
    params: Mapping[str, Mapping[str, Any]] | None = None,
    dataset_options: Mapping[str, Any] | None = None,
) -> DemoResult:
    """Run the methods, write `results.json` and `report.html` into `out`.

    `params` ({method: parameters}) and `dataset_options` replace the defaults, for a shorter run.
    """
    make_folder(out)  # a place that cannot be written fails first
    options = dict(dataset_options or {})
    fitted = [
        _fit(
            Cell(
                DATASET,
                name,
                params=dict((PARAMS if params is None else params).get(name, {})),
                fold=fold,
                dataset_options=options,
            )
        )
        for fold in range(folds)
        for name in methods
    ]
    records = [cell.record for cell in fitted]
    rows = summarise(records)
    save_records(records, out / "results.json")
    story = tell_story(load_dataset(DATASET, **options), fitted, rows, folds)
    write_file(out / "report.html", render_report(story).encode())
    title = "MultiDigits, 50 % of the views and 50 % of the labels missing"
    return DemoResult(records, as_rich(rows, title), out / "results.json", out / "report.html")


def _fit(cell: Cell) -> FittedCell:
    fitted = fit_cell(cell, verbose=sys.stderr.isatty())
    record = fitted.record
    print(
        f"{TITLES[cell.method]:<28} fold {cell.fold}   AP {record.metrics['AP']:.3f}   "
        f"{record.seconds:6.1f} s",
        file=sys.stderr,
        flush=True,
    )
    return fitted


# ---------------------------------------------------------------------------------- the picture


def tell_story(
    dataset: Dataset, fitted: Sequence[FittedCell], rows: Sequence[Row], folds: int
) -> Story:
    """What the report shows: metrics over all folds, everything else from the first fold."""
    first = {cell.record.method: cell for cell in fitted if cell.record.fold == 0}
    main = first[MAIN]
    model: Any = main.model
    test = main.split.test[0]
    return Story(
        dataset="MultiDigits",
        main=TITLES[MAIN],
        results=[_result(row, first[row.method]) for row in rows],
        label_names=dataset.label_names,
        view_names=test.names,
        view_rate=float(main.record.settings["view_rate"]),
        label_rate=float(main.record.settings["label_rate"]),
        n_train=len(main.fold.train),
        n_test=len(main.fold.test),
        folds=folds,
        observed=test.observed,
        trust=_trust(main),
        history=model.history_,
        best_epoch=model.best_epoch_,
        thresholds=np.broadcast_to(model.thresholds_, len(dataset.label_names)).tolist(),
        examples=_examples(dataset, main),
        sample_noun=("canvas", "canvases"),
        label_noun=("digit", "digits"),
        provenance=_provenance(main.record),
        command=f"viewgap demo --folds {folds}" if folds > 1 else "viewgap demo",
    )


def _result(row: Row, cell: FittedCell) -> MethodResult:
    kept = cell.split.test[0].observed.sum(axis=1)
    groups = {int(n): kept == n for n in np.unique(kept)}
    return MethodResult(
        title=TITLES[row.method],
        metrics=row.mean,
        seconds=row.seconds or 0.0,
        spread=row.spread if row.folds > 1 else {},
        by_views={
            n: _ap(cell.split.test[1][rows], cell.probabilities[rows])
            for n, rows in groups.items()
            if rows.sum() >= FEWEST_SAMPLES
        },
    )


def _trust(cell: FittedCell) -> list[ViewTrust]:
    model: Any = cell.model
    test, truth = cell.split.test
    alone = model.predict_views(test)
    return [
        ViewTrust(name, model.view_weights_[name], _ap(truth[seen], alone[name][seen]))
        for name, seen in zip(test.names, test.observed.T, strict=True)
    ]


def _ap(truth: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    return field_metrics(truth, scores)["AP"]


def _examples(dataset: Dataset, cell: FittedCell) -> list[Example]:
    """The first test canvases with one view, with two views, ...: chosen by gaps, not by result."""
    test, truth = cell.split.test
    kept = test.observed.sum(axis=1)
    rank_in_group = np.array([(kept[:i] == kept[i]).sum() for i in range(len(kept))])
    chosen = np.lexsort((kept, rank_in_group))[:EXAMPLES]
    chosen = chosen[np.argsort(kept[chosen], kind="stable")]
    pictures = dataset.extras["canvas"][cell.fold.test[chosen]]
    return [
        Example(
            name=f"canvas {test.sample_ids[row]}",
            image=_enlarge(picture),
            truth=[bool(t) for t in truth[row] == 1],
            probability=[float(p) for p in cell.probabilities[row]],
            observed=[bool(o) for o in test.observed[row]],
        )
        for row, picture in zip(chosen, pictures, strict=True)
    ]


def _enlarge(canvas: NDArray[Any], factor: int = 6) -> NDArray[Any]:
    """A canvas from 0 to 1, smooth enough to be read by people."""
    from scipy.ndimage import zoom

    return np.asarray(zoom(np.clip(canvas, 0, 1), factor, order=3))


def _provenance(record: Record) -> dict[str, str]:
    found = record.provenance
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    return {
        "machine": f"{found['cpu']}, {found['cores']} cores; trained on {found['device']}",
        "versions": versions,
        "seed": str(record.seed),
    }
