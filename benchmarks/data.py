"""The data of the figures: random numbers in the shapes of real data sets, never zeros."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

import viewgap
from benchmarks import scsd_reference
from benchmarks.record import Context
from viewgap.datasets.synthetic import make_synthetic

# The bare network: one network with the published fusion, mirrored decoders and all pairs of views,
# on plain features, in batches of 128. No profile builds it; it shows what a network itself costs.
BARE_NETWORK = {
    "fusion": "label_correlation",
    "pooling": "network",
    "features": "plain",
    "decoder": "mirrored",
    "pairs": "all",
    "n_networks": 1,
    "cross_fit": False,
    "batch_size": 128,
}
# What is measured: the estimator as it comes, as published, and the bare network.
MODELS: dict[str, dict[str, Any]] = {
    "paper": {"profile": "paper"},
    "default": {},
    "bare_network": BARE_NETWORK,
}
POSITIVES = 3.4  # labels of a sample, as in Corel5k
WORDS = 200.0  # of a sample in a view of counts


@dataclass(frozen=True)
class Shape:
    """Rows, columns of every view, labels; `sizes`: network sizes in place of the profile's.

    Shapes of real data have no `sizes`: there a model has what its profile gives it.
    """

    n: int
    dims: tuple[int, ...]
    labels: int
    sizes: tuple[tuple[str, Any], ...] = ()


def make_model(name: str, device: str, shape: Shape | None = None, **params: Any) -> viewgap.SCSD:
    """The model of this name, unfitted; `params` say how long it trains, not what it is."""
    what = {**MODELS[name], **dict(() if shape is None else shape.sizes)}
    return viewgap.SCSD(device=device, random_state=0, **what, **params)


SMALL_NETWORK = (
    ("hidden", (16, 12)),
    ("embedding", 16),
    ("codebook_size", 16),
    ("batch_size", 32),
)
COREL5K = Shape(3500, (1000, 100, 512, 4096, 4096, 4096), 260)
MIRFLICKR = Shape(25_000, COREL5K.dims, 457)
TINY = Shape(200, (12, 5, 8), 10, SMALL_NETWORK)


def corel5k(context: Context) -> Shape:
    return TINY if context.quick else COREL5K


def random_views(shape: Shape, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Standard normal views."""
    rng = np.random.default_rng(seed)
    return {
        f"view{v}": rng.standard_normal((shape.n, d), dtype=np.float32)
        for v, d in enumerate(shape.dims)
    }


def random_labels(shape: Shape, seed: int = 0) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed + 1)
    drawn = rng.random((shape.n, shape.labels)) < min(POSITIVES / shape.labels, 0.5)
    drawn[np.arange(shape.labels) % shape.n, np.arange(shape.labels)] = True
    return drawn.astype(np.float64)


def with_gaps(views: dict[str, Any], labels: NDArray[np.float64], seed: int = 0) -> Any:
    """(views, labels) with half of the views and half of the labels missing."""
    return viewgap.amputate(views, labels, view_rate=0.5, label_rate=0.5, seed=seed)


@lru_cache(maxsize=2)
def random_data(shape: Shape, seed: int = 0) -> Any:
    """Random views and labels of this shape, with gaps."""
    return with_gaps(random_views(shape, seed), random_labels(shape, seed), seed)


def synthetic_data(n: int, n_views: int) -> Any:
    """Views of 15 to 40 columns and 12 labels, with something to learn and gaps."""
    return learnable_data(Shape(n, tuple((20, 30, 15, 40)[v % 4] for v in range(n_views)), 12))


@lru_cache(maxsize=2)
def learnable_data(shape: Shape) -> Any:
    """The library's generator, with gaps: data with something to learn."""
    data = make_synthetic(shape.n, shape.dims, n_labels=shape.labels)
    views = {name: data.views.rows(name) for name in data.views.names}
    return with_gaps(views, data.labels)


def learnable_counts(shape: Shape) -> Any:
    """Counts of words as sparse views: few of them in a sample, more of what its factors favour."""
    data = make_synthetic(shape.n, (8,), n_labels=shape.labels)
    factors, rng = data.extras["factors"], np.random.default_rng(1)
    views = {}
    for v, d in enumerate(shape.dims):
        favour = np.exp(0.5 * factors @ rng.standard_normal((factors.shape[1], d)))
        rate = WORDS * favour / favour.sum(axis=1, keepdims=True)
        views[f"view{v}"] = csr_array(rng.poisson(rate).astype(np.float32))
    return with_gaps(views, data.labels)


def dense_tensors(views: viewgap.ViewSet, device: str) -> tuple[list[Tensor], Tensor]:
    """Views with zeros where missing, and what is observed: the input of the reference."""
    tensors = [torch.from_numpy(views.rows(name)).to(device) for name in views.names]
    return tensors, torch.from_numpy(views.observed.copy()).to(device)


def naive_training(
    views: viewgap.ViewSet, Y: Any, settings: Any, weights: dict[str, Tensor], device: str
) -> scsd_reference.Training:
    """The reference, ready to step, from the weights of the library."""
    network = scsd_reference.from_weights(views.dims, Y.shape[1], settings, weights)
    labels = torch.from_numpy(np.asarray(Y)).to(device)
    return scsd_reference.Training(network, *dense_tensors(views, device), labels)
