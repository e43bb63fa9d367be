"""Made-up data with signal, of any size: a latent factor model, for tests and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.viewset import ViewSet
from viewgap.datasets.dataset import Dataset
from viewgap.datasets.sources import PUBLISHED, SIX_VIEWS
from viewgap.errors import SettingError

N_FACTORS = 10
FACTORS_PER_VIEW = 0.6
IMBALANCE = 0.8
MOST_FREQUENT = 0.6
CHUNK_VALUES = 2**21


@dataclass(frozen=True)
class Sizes:
    """Samples, columns of every view, labels, labels per sample."""

    n_samples: int
    view_dims: Sequence[int] | Mapping[str, int]
    n_labels: int
    cardinality: float


USUAL = Sizes(600, (20, 30, 15), 12, 2.5)


def make_synthetic(
    n_samples: int | None = None,
    view_dims: Sequence[int] | Mapping[str, int] | None = None,
    n_labels: int | None = None,
    cardinality: float | None = None,
    seed: int = 0,
    noise: float = 0.5,
    like: str | None = None,
) -> Dataset:
    r"""Samples whose views and labels come from shared hidden factors.

    Hidden factors $z_i\sim N(0, I_{10})$. View v sees six of the ten and three factors of its own:
    $x_i^v = \tanh(A_v [z_i; p_i^v]) + \text{noise}\cdot\varepsilon$. So every view knows something
    that the others do not, and a missing view costs something. Label j is present for the samples
    with the highest $b_j^\top z_i + \text{noise}\,\varepsilon/2$; its frequency falls like
    $(j+1)^{-0.8}$, as in the benchmark sets, and all frequencies add up to `cardinality` unless
    that would need labels in more than 60 % of the samples.

    Sizes that are not given are 600 samples, views of 20, 30 and 15 columns, 12 labels, 2.5 per
    sample; or, with `like`, those of a benchmark set (`"corel5k"`, `"pascal07"`, `"espgame"`,
    `"iaprtc12"`, `"mirflickr"`): the samples, six views, labels and labels per sample of Table 1.
    Views are filled in place, a few rows at a time: the largest takes 1.4 GB, and little more
    while it is made.

    Shape: views (n_samples, d_v) float32, labels (n_samples, n_labels). The extras hold the hidden
    factors, (n_samples, 10).
    """
    sizes = USUAL if like is None else _published_sizes(like)
    given: dict[str, Any] = {
        "n_samples": n_samples,
        "view_dims": view_dims,
        "n_labels": n_labels,
        "cardinality": cardinality,
    }
    sizes = replace(sizes, **{key: value for key, value in given.items() if value is not None})
    dims = _named_dims(sizes.view_dims)
    _check(sizes, noise)
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((sizes.n_samples, N_FACTORS))
    views = {name: _view(factors, dim, noise, rng) for name, dim in dims.items()}
    labels = _labels(factors, sizes.n_labels, sizes.cardinality, noise, rng)
    names = tuple(f"label{j}" for j in range(sizes.n_labels))
    title = "synthetic" if like is None else f"synthetic_{like.lower()}"
    return Dataset(title, ViewSet(views), labels, names, extras={"factors": factors})


def _published_sizes(like: str) -> Sizes:
    published = PUBLISHED.get(like.lower())
    if published is None:
        raise SettingError(f"like must be one of {', '.join(PUBLISHED)}, found {like!r}")
    return Sizes(published.n, SIX_VIEWS, published.c, published.cardinality)


def label_frequencies(n_labels: int, cardinality: float) -> NDArray[np.float64]:
    """Falling frequencies (c,) that add up to `cardinality`, none above 60 %."""
    frequency: NDArray[np.float64] = np.arange(1.0, n_labels + 1) ** -IMBALANCE
    for _ in range(n_labels):
        free = frequency < MOST_FREQUENT
        rest = cardinality - MOST_FREQUENT * np.count_nonzero(~free)
        if not free.any() or rest <= 0:
            break
        frequency[free] *= rest / frequency[free].sum()
        frequency = np.minimum(frequency, MOST_FREQUENT)
    return frequency


def _view(
    factors: NDArray[np.float64], dim: int, noise: float, rng: np.random.Generator
) -> NDArray[np.float32]:
    n, n_factors = factors.shape
    seen = rng.permutation(n_factors)[: round(FACTORS_PER_VIEW * n_factors)]
    own = rng.standard_normal((n, 3))
    inputs = np.concatenate([factors[:, seen], own], axis=1)
    mixing = rng.standard_normal((inputs.shape[1], dim)) / np.sqrt(inputs.shape[1])
    view = np.empty((n, dim), dtype=np.float32)
    step = max(1, CHUNK_VALUES // dim)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        clean = np.tanh(inputs[rows] @ mixing)
        view[rows] = clean + noise * rng.standard_normal(clean.shape)
    return view


def _labels(
    factors: NDArray[np.float64],
    n_labels: int,
    cardinality: float,
    noise: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    n, n_factors = factors.shape
    weights = rng.standard_normal((n_factors, n_labels)) / np.sqrt(n_factors)
    scores = factors @ weights + 0.5 * noise * rng.standard_normal((n, n_labels))
    place = np.argsort(np.argsort(-scores, axis=0), axis=0)
    counts = np.maximum(np.round(n * label_frequencies(n_labels, cardinality)), 1)
    labels: NDArray[np.float64] = (place < counts).astype(np.float64)
    return labels


def _named_dims(view_dims: Sequence[int] | Mapping[str, int]) -> dict[str, int]:
    if isinstance(view_dims, Mapping):
        dims = dict(view_dims)
    else:
        dims = {f"view{v}": dim for v, dim in enumerate(view_dims)}
    if not dims or min(dims.values()) < 1:
        raise SettingError(f"view_dims must name at least one view of at least one column: {dims}")
    return dims


def _check(sizes: Sizes, noise: float) -> None:
    if sizes.n_samples < 1 or sizes.n_labels < 1:
        raise SettingError(
            "n_samples and n_labels must be at least 1, found "
            f"{sizes.n_samples} and {sizes.n_labels}"
        )
    if not 0 < sizes.cardinality <= sizes.n_labels:
        raise SettingError(
            f"cardinality must lie between 0 and n_labels = {sizes.n_labels}, "
            f"found {sizes.cardinality}"
        )
    if not noise >= 0:
        raise SettingError(f"noise must not be negative, found {noise}")
