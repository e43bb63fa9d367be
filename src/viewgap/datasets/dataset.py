"""Dataset: a named set of views and labels, and its folds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.formats import read_fold_file
from viewgap.data.formats.base import label_summary
from viewgap.data.splits import Fold, make_fold
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, SettingError

_NUMBER = r"(\d*\.?\d+)"
_FOLD_FILE = re.compile(
    rf"_MaskRatios_{_NUMBER}_LabelMaskRatio_{_NUMBER}_TraindataRatio_{_NUMBER}\.mat$"
)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Views and labels of n samples under a name.

    `labels` is (n, c) in {0, 1, NaN}, read-only. `fold_files` are files with ready-made folds.
    `extras` holds what is not needed for learning (the canvases of MultiDigits). `groups` (n,) says
    which samples belong together, so that no cross-validation takes them apart.
    """

    name: str
    views: ViewSet
    labels: NDArray[np.float64]
    label_names: tuple[str, ...]
    fold_files: tuple[Path, ...] = ()
    extras: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    groups: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        expected = (len(self.views), len(self.label_names))
        if self.labels.shape != expected:
            raise LabelError(
                f"dataset {self.name!r}: expected labels of shape {expected} (samples, label "
                f"names), found {self.labels.shape}"
            )
        self.labels.setflags(write=False)

    def __len__(self) -> int:
        return len(self.views)

    def __repr__(self) -> str:
        size = self.statistics()
        return (
            f"Dataset({self.name!r}: {size['n']} samples, {size['m']} views, {size['c']} "
            f"labels, {size['cardinality']:.3f} per sample)"
        )

    def fold_file(
        self, view_rate: float = 0.5, label_rate: float = 0.5, train_share: float = 0.7
    ) -> Path | None:
        """File with ready-made folds for these rates, if there is one."""
        wanted = (view_rate, label_rate, train_share)
        for path in self.fold_files:
            rates = fold_file_rates(path)
            if rates and all(map(math.isclose, rates, wanted)):
                return path
        return None

    def folds(
        self,
        count: int = 10,
        view_rate: float = 0.5,
        label_rate: float = 0.5,
        train_share: float = 0.7,
    ) -> list[Fold]:
        """Return `count` folds: of the fold file for these rates, else made with seeds 0, 1, ..."""
        if count < 1:
            raise SettingError(f"the number of folds must be at least 1, found {count}")
        path = self.fold_file(view_rate, label_rate, train_share)
        if path is None:
            return [self.fold(k, view_rate, label_rate, train_share) for k in range(count)]
        folds = read_fold_file(path, self.labels)
        if count > len(folds):
            raise SettingError(
                f"{count} folds were asked for, but {path} holds {len(folds)}; ask for at most as "
                "many, or move the file away to have folds made"
            )
        return folds[:count]

    def fold(
        self,
        number: int,
        view_rate: float = 0.5,
        label_rate: float = 0.5,
        train_share: float = 0.7,
    ) -> Fold:
        """Return fold `number` of `folds`, without drawing those before it."""
        if self.fold_file(view_rate, label_rate, train_share) is not None:
            return self.folds(number + 1, view_rate, label_rate, train_share)[number]
        return make_fold(
            self.views,
            self.labels,
            view_rate=view_rate,
            label_rate=label_rate,
            train_share=train_share,
            seed=number,
        )

    def statistics(self) -> dict[str, Any]:
        """Return n, m, dims per view, c, cardinality, and the percentage of missing views.

        The cardinality is the mean number of positive labels per sample; labels that are not
        observed count as absent.
        """
        return {
            **label_summary(self.labels),
            "m": self.views.n_views,
            "dims": dict(zip(self.views.names, self.views.dims, strict=True)),
            "percent_missing": float(100 * (1 - self.views.observed.mean())),
        }


def fold_file_rates(path: Path) -> Sequence[float] | None:
    """Missing rate of views, of labels, and share of training rows, from a fold file's name."""
    match = _FOLD_FILE.search(path.name)
    return [float(text) for text in match.groups()] if match else None
