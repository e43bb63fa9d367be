"""What the report tells, as plain data: no model, no data set, nothing to compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class MethodResult:
    """The metrics of one method; `spread` is the standard deviation when there are several folds.

    `by_views` gives the average precision on the test samples that kept exactly so many views.
    """

    title: str
    metrics: Mapping[str, float]
    seconds: float
    spread: Mapping[str, float] = field(default_factory=dict)
    by_views: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class ViewTrust:
    """How much the fusion listens to a view, and how good the view is on its own."""

    name: str
    weight: float
    alone: float | None = None


@dataclass(frozen=True)
class Example:
    """A test sample with its picture, its true labels and what the model said.

    Shape: `image` (height, width) from 0 (paper) to 1 (ink); `truth` and `probability` one entry
    per label, `observed` one per view.
    """

    name: str
    image: NDArray[Any]
    truth: Sequence[bool]
    probability: Sequence[float]
    observed: Sequence[bool]


@dataclass(frozen=True)
class Story:
    """Everything on the page. `main` is the title of the method that the page is about.

    Shape: `observed` (test samples, views), `history` one list per name, one entry per epoch;
    `best_epoch` counts from 1; `thresholds` one per label, none: one half.
    """

    dataset: str
    main: str
    results: Sequence[MethodResult]
    label_names: Sequence[str]
    view_names: Sequence[str]
    view_rate: float
    label_rate: float
    n_train: int
    n_test: int
    folds: int
    observed: NDArray[np.bool_]
    trust: Sequence[ViewTrust] = ()
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    best_epoch: int | None = None
    thresholds: Sequence[float] = ()
    examples: Sequence[Example] = ()
    sample_noun: tuple[str, str] = ("sample", "samples")
    label_noun: tuple[str, str] = ("label", "labels")
    provenance: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
