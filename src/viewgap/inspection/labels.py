"""Labels: positives, negatives and unknown ones, and those that cannot be learned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.errors import counted, first_few
from viewgap.inspection.findings import Finding, Severity, named
from viewgap.inspection.hashing import Hashes, groups_of_equal, mixed, multipliers
from viewgap.inspection.missingness import LabelFromGaps

if TYPE_CHECKING:
    import pandas as pd

FEW = 5
"""Fewer positives, or negatives, are a note."""
FEW_LABELLED = 20
_KEY, _FEWEST_ALIKE = 3, 3


def label_table(labels: Labels) -> pd.DataFrame:
    """Positives, negatives and unknown entries of every label."""
    import pandas as pd

    positive, known = _counts(labels)
    return pd.DataFrame(
        {
            "label": list(labels.names),
            "positives": positive,
            "negatives": known - positive,
            "unknown": len(labels) - known,
            "frequency": labels.frequency(),
        }
    )


def _counts(labels: Labels) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    positive = labels.values.sum(axis=0, dtype=np.intp)
    return positive, labels.observed.sum(axis=0, dtype=np.intp)


def label_findings(labels: Labels) -> Iterator[Finding]:
    """Labels without positives, negatives or both, with few of them, and the same ones twice."""
    positive, known = _counts(labels)
    negative = known - positive
    rarer = np.minimum(positive, negative)
    judged: list[tuple[NDArray[np.bool_], Severity, str, str, str]] = [
        (
            *(known == 0, "warning" if known.any() else "error", "label_never_known"),
            "known for no sample",
            "predictions for them are NaN: leave them out, or find out some of their values",
        ),
        (
            *((known > 0) & (positive == 0), "warning", "label_without_positives"),
            "never positive",
            "nothing tells when they would be: leave them out",
        ),
        (
            *((known > 0) & (negative == 0), "warning", "label_without_negatives"),
            "never negative where they are known",
            "if blanks mean absent, write 0: blank is read as unknown",
        ),
        (
            *((rarer > 0) & (rarer < FEW), "note", "label_rare"),
            f"with fewer than {FEW} positives or negatives",
            "they are fitted, but their scores depend on single samples",
        ),
    ]
    for which, severity, kind, text, remedy in judged:
        names = [labels.names[j] for j in np.flatnonzero(which)]
        if names:
            shown = f"{counted(len(names), 'label')} {text}: {first_few(names)}"
            yield Finding(severity, kind, shown, remedy, labels=named(names))
    yield from _rows(labels)
    yield from _same_labels(labels)


def _rows(labels: Labels) -> Iterator[Finding]:
    known = labels.observed.any(axis=1)
    unlabelled, n_known = int((~known).sum()), int(known.sum())
    if unlabelled:
        yield Finding(
            "note",
            "samples_without_label",
            f"{counted(unlabelled, 'sample')} of {len(labels):,} have no known label",
            "methods learn from them only where they learn from values alone; scores leave them "
            "out",
        )
    without = int((known & ~labels.values.any(axis=1)).sum())
    if without:
        yield Finding(
            "note",
            "samples_without_positive",
            f"{counted(without, 'sample')} of {len(labels):,} have no positive label",
            "they count as negatives in the fit; the clean ranking metrics leave them out. If "
            "their labels are unknown rather than absent, leave them blank",
        )
    if n_known < FEW_LABELLED:
        yield Finding(
            "warning",
            "few_labelled_samples",
            f"only {counted(n_known, 'sample')} have a known label",
            f"networks do without early stopping below {FEW_LABELLED}, and scores say little; use "
            "late-fusion ridge or the label frequencies as a baseline",
        )


def _same_labels(labels: Labels) -> Iterator[Finding]:
    of_rows = multipliers(len(labels), _KEY)
    hashes = [_hash(labels, j, of_rows) for j in range(labels.n_labels)]
    first = groups_of_equal(np.array(hashes, dtype=np.uint64))
    positive, known = _counts(labels)
    varies = np.minimum(positive, known - positive) >= _FEWEST_ALIKE  # fewer agree by chance
    twice = np.flatnonzero((first < np.arange(labels.n_labels)) & varies)
    if len(twice):
        pairs = [f"{labels.names[j]} = {labels.names[first[j]]}" for j in twice]
        yield Finding(
            "warning",
            "same_labels",
            f"{counted(len(twice), 'label')} with the values of another label: {first_few(pairs)}",
            "keep one of them: metrics count the same answer twice",
            labels=named(labels.names[j] for j in twice),
        )


def _hash(labels: Labels, j: int, of_rows: Hashes) -> np.uint64:
    entries = np.where(labels.observed[:, j], labels.values[:, j].astype(np.float64), np.nan)
    total: np.uint64 = (mixed(entries) * of_rows).sum(dtype=np.uint64)
    return total


def missingness_findings(found: list[LabelFromGaps]) -> Iterator[Finding]:
    """Labels that the gaps alone predict."""
    telling = sorted((own for own in found if own.predicts), key=lambda own: -own.auc)
    if not telling:
        return
    worst = min(telling, key=lambda own: own.p_value)
    shown = first_few(f"{own.label} {own.auc:.2f}" for own in telling)
    text = (
        f"what is missing predicts {counted(len(telling), 'label')} of {len(found)} judged, "
        f"without any value being read (AUC: {shown})"
    )
    if worst.view:
        text += (
            f"; {worst.label} is positive in {100 * worst.frequency_with:.1f} % of the samples "
            f"with the view {worst.view} and in {100 * worst.frequency_without:.1f} % of those "
            "without it"
        )
    yield Finding(
        "warning",
        "missingness_predicts_labels",
        text,
        "find out why views are missing: scores are too good if they will be missing for other "
        "reasons when the model is used. Compare with a score on samples of one pattern of views",
        view=worst.view or None,
        labels=named(own.label for own in telling),
    )
