"""`inspect`: all looks at views and labels together, and what they give back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewgap.data.labels import Labels, SparseLabels, is_too_large
from viewgap.data.validation import as_labels, as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, counted, printable
from viewgap.inspection import copies as copying
from viewgap.inspection import disguised, outliers, patterns, samples
from viewgap.inspection import labels as of_labels
from viewgap.inspection.columns import read_columns
from viewgap.inspection.findings import SEVERITIES, Finding, in_order
from viewgap.inspection.missingness import LabelFromGaps, labels_from_gaps
from viewgap.inspection.reading import collected_notes, without_refused_values
from viewgap.inspection.tables import column_findings, column_table, view_table
from viewgap.strict_json import plain

if TYPE_CHECKING:
    import pandas as pd

TABLES = (
    "views",
    "samples",
    "patterns",
    "pairs",
    "labels",
    "missingness",
    "copies",
    "duplicates",
    "outliers",
)


@dataclass(frozen=True, eq=False)
class Inspection:
    """What `inspect` found: findings first, then tables as DataFrames.

    Attributes
    ----------
    findings : list of Finding
        Errors, warnings, notes, in this order.
    views : DataFrame
        A line per view: columns, samples, missing values, constant and duplicated columns, scales.
    columns : DataFrame
        A line per column of every view. Not in `to_dict`, for views may be wide.
    samples : DataFrame
        How many samples there are, of which sort.
    patterns : DataFrame
        Samples per pattern of views.
    pairs : DataFrame
        Samples that have both views of a pair.
    labels : DataFrame
        Positives, negatives and unknown entries of every label.
    missingness : DataFrame
        For every label the cross-validated AUC of what is missing, and the range of chance.
    copies : DataFrame
        Columns that another view has too.
    duplicates : DataFrame
        Samples with the same values in the same views.
    outliers : DataFrame
        The most remote values, by robust z.
    """

    findings: list[Finding]
    views: pd.DataFrame
    columns: pd.DataFrame
    samples: pd.DataFrame
    patterns: pd.DataFrame
    pairs: pd.DataFrame
    labels: pd.DataFrame
    missingness: pd.DataFrame
    copies: pd.DataFrame
    duplicates: pd.DataFrame
    outliers: pd.DataFrame

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables by name, without that of all columns."""
        return {name: getattr(self, name) for name in TABLES}

    def count(self, severity: str) -> int:
        """Number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def size(self) -> str:
        """The numbers of samples, views and labels in words."""
        n_samples = int(self.samples["samples"].iloc[0])
        parts = [counted(n_samples, "sample"), counted(len(self.views), "view")]
        if len(self.labels):
            parts.append(counted(len(self.labels), "label"))
        return ", ".join(parts)

    @property
    def summary(self) -> str:
        """Data and findings in one line."""
        counts = [counted(self.count(kind), kind) for kind in SEVERITIES]
        return f"{self.size}: {', '.join(counts)}"

    def to_dict(self) -> dict[str, Any]:
        """Findings and tables as plain values; what is not a number is None."""
        tables = {name: table.to_dict("records") for name, table in self.tables.items()}
        return dict(plain({"findings": self.findings, **tables}))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page (`.html`) or the values (`.json`), by the suffix of the path."""
        from viewgap.fsio import write_file

        suffix = Path(path).suffix.lower()
        if suffix in (".html", ".htm"):
            text = self.to_html()
        elif suffix == ".json":
            text = json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)
        else:
            raise SettingError(f"the path must end in .html or .json, found {os.fspath(path)!r}")
        write_file(path, text.encode("utf-8", "backslashreplace"))

    def to_html(self, title: str = "Inspection of the data") -> str:
        """One page that needs no other file, no network and no script."""
        from viewgap.inspection.page import render_page

        return render_page(self, title)

    def _repr_html_(self) -> str:
        from viewgap.inspection.page import render_notebook

        return render_notebook(self)

    def __str__(self) -> str:
        lines = [self.summary, *(f"- {finding}" for finding in self.findings)]
        for name, table in self.tables.items():
            if len(table):
                shown = table.to_string(index=False, max_rows=12, float_format="{:.4g}".format)
                lines += ["", name, printable(shown)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Inspection({self.summary})"


def inspect(
    X: Any, y: Any = None, *, views: Mapping[str, Any] | None = None, nan: str = "mean"
) -> Inspection:
    """Look at views and labels before a fit.

    Finds what `fit` would refuse, what is suspicious, and what will be done about it. Work and
    memory are linear in the data: rows are read in blocks, and no column is compared with all
    others.

    Parameters
    ----------
    X : ViewSet, dict, list, array or DataFrame
        The views, as `fit` takes them.
    y : array or DataFrame of shape (n_samples, n_labels), or 1-D, optional
        0, 1, and NaN where a label is unknown. Without it only the views are looked at.
    views : dict, optional
        `{name: columns}`, where X is one table.
    nan : {"mean", "error", "missing_view"}, default="mean"
        What a NaN in an observed row means, as in `fit`.

    Returns
    -------
    Inspection

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> rng = np.random.default_rng(0)
    >>> genes, drugs = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    >>> drugs[:, 1] = 1.0
    >>> result = viewgap.inspect({"genes": genes, "drugs": drugs}, rng.random((40, 2)) < 0.5)
    >>> [finding.columns for finding in result.findings if finding.kind == "constant_columns"]
    [('1',)]
    >>> result.views["columns"].tolist()
    [3, 2]
    """
    with collected_notes() as notes:
        checked, refused = without_refused_values(
            lambda policy: as_viewset(X, views=views, nan=policy), nan
        )
        labels = None if y is None else _labels(y, checked)
    return inspect_checked(checked, labels, [*refused, *notes])


def _labels(y: Any, views: ViewSet) -> Labels:
    from viewgap.methods.estimator.one_label import as_column, find_classes, is_one_label

    return as_labels(as_column(y, find_classes(y)) if is_one_label(y) else y, views)


def inspect_checked(
    views: ViewSet, labels: Labels | None, before: Sequence[Finding] = ()
) -> Inspection:
    """As `inspect`, of what input validation has made; `before` are findings of reading it."""
    import pandas as pd

    about_labels: list[Finding] = []
    if labels is None:
        about_labels.append(_only_views("no_labels", "there are no labels"))
    elif isinstance(labels, SparseLabels) and is_too_large(labels.shape):
        n, c = labels.shape
        text = f"labels of {n:,} samples x {c:,} labels are kept sparse"
        about_labels.append(_only_views("sparse_labels", text))
        labels = None
    summaries = [read_columns(views, name) for name in views.names]
    groups = samples.duplicate_groups(views, summaries)
    pairs = patterns.pair_table(views)
    copied = copying.copies_across_views(views)
    from_gaps = [] if labels is None else labels_from_gaps(views, labels)
    found = [
        *before,
        *about_labels,
        *([] if labels is None else _label_findings(views, labels, from_gaps)),
        *patterns.pattern_findings(views, pairs),
        *samples.sample_findings(views, labels, summaries, groups),
        *copying.copy_findings(views, copied),
        *column_findings(views, summaries),
        *outliers.outlier_findings(views, summaries),
        *disguised.disguised_findings(views, summaries),
    ]
    return Inspection(
        in_order(found),
        view_table(views, summaries),
        column_table(summaries),
        samples.sample_table(views, labels, groups),
        patterns.pattern_table(views),
        pairs,
        pd.DataFrame() if labels is None else of_labels.label_table(labels),
        pd.DataFrame([asdict(own) for own in from_gaps], columns=_fields(LabelFromGaps)),
        copying.copy_table(copied),
        samples.duplicate_table(views, groups),
        outliers.outlier_table(views, summaries),
    )


def _only_views(kind: str, text: str) -> Finding:
    return Finding("note", kind, text, "only the views were looked at")


def _label_findings(
    views: ViewSet, labels: Labels, from_gaps: list[LabelFromGaps]
) -> Iterator[Finding]:
    yield from copying.label_copy_findings(copying.label_copies(views, labels))
    yield from of_labels.missingness_findings(from_gaps)
    yield from of_labels.label_findings(labels)


def _fields(kind: type[Any]) -> list[str]:
    return list(kind.__dataclass_fields__)
