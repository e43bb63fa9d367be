"""MultiDigits: pictures of one to three handwritten digits, described in six ways.

Made when it is loaded, from the 1,797 real digits inside scikit-learn; nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from viewgap.data.viewset import ViewSet
from viewgap.datasets import _descriptors
from viewgap.datasets.dataset import Dataset
from viewgap.errors import SettingError

CANVAS_SIZE = 16
DIGITS_PER_SAMPLE = (0.35, 0.40, 0.25)
LARGEST_SHIFT = 2.5
LARGEST_ROTATION = np.deg2rad(12)
SCALES = (1.0, 1.3)
INKS = (0.6, 1.0)
PIXEL_NOISE = 0.05

VIEWS = {
    "pixels": _descriptors.pixels,
    "gradients": _descriptors.gradients,
    "fourier": _descriptors.fourier,
    "profiles": _descriptors.profiles,
    "patterns": _descriptors.binary_patterns,
    "moments": _descriptors.moments,
}


def make_multidigits(n_samples: int = 5000, seed: int = 0) -> Dataset:
    """Canvases of 16 x 16 pixels with one to three different digits, and which digits they show.

    Each digit of a canvas is one of the real 8 x 8 digits, put at random with its own rotation,
    size and ink; digits overlap, and all pixels get noise.
    Labels "0" to "9", about 1.9 per sample. Views: grey values, histograms of gradient
    orientation, Fourier magnitudes, projections, local binary patterns and Zernike moments.
    The canvases themselves are `extras["canvas"]`, (n, 16, 16) float32.

    With 5,000 samples each source digit occurs about five times, so training and test canvases
    share sources. No copy is exact: every placement is warped anew, stands among other digits and
    under other noise. It is worth nothing measurable: trained on canvases of 70 % of the sources,
    ridge, logistic regression and SCSD reached AP .622, .612, .642 on new canvases of these sources
    and .620, .613, .650 on canvases of the other sources (`benchmarks/multidigits_sources.py`).

    The same seed gives the same bits.

    Shape: views (n_samples, d_v) float32, labels (n_samples, 10).
    """
    if n_samples < 1:
        raise SettingError(f"n_samples must be at least 1, found {n_samples}")
    rng = np.random.default_rng(seed)
    images, digits = _source_digits()
    placed = _draw_placements(n_samples, digits, rng)
    canvas = _draw_canvases(n_samples, images, placed, rng)
    labels = np.zeros((n_samples, 10))
    labels[placed.sample, digits[placed.source]] = 1
    views = {name: describe(canvas).astype(np.float32) for name, describe in VIEWS.items()}
    extras: dict[str, NDArray[Any]] = {"canvas": canvas.astype(np.float32)}
    names = tuple(str(digit) for digit in range(10))
    return Dataset("multidigits", ViewSet(views), labels, names, extras=extras)


@dataclass(frozen=True)
class _Placements:
    """One entry per digit drawn: its sample, its source image and how it is warped."""

    sample: NDArray[np.intp]
    source: NDArray[np.intp]
    centre: NDArray[np.float64]
    rotation: NDArray[np.float64]
    scale: NDArray[np.float64]
    ink: NDArray[np.float64]


def _source_digits() -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images / 16, bunch.target.astype(np.intp)


def _draw_placements(
    n_samples: int, digits: NDArray[np.intp], rng: np.random.Generator
) -> _Placements:
    count = rng.choice([1, 2, 3], size=n_samples, p=DIGITS_PER_SAMPLE)
    sample = np.repeat(np.arange(n_samples), count)
    order = np.concatenate([np.arange(k) for k in count])
    digit = rng.permuted(np.tile(np.arange(10), (n_samples, 1)), axis=1)[sample, order]
    total = len(sample)
    by_digit = np.argsort(digits, kind="stable")
    sizes = np.bincount(digits)
    starts = np.cumsum(sizes) - sizes
    source = by_digit[starts[digit] + rng.integers(0, sizes[digit])]
    shift = rng.uniform(-LARGEST_SHIFT, LARGEST_SHIFT, (total, 2))
    return _Placements(
        sample,
        source,
        centre=(CANVAS_SIZE - 1) / 2 + shift,
        rotation=rng.uniform(-LARGEST_ROTATION, LARGEST_ROTATION, total),
        scale=rng.uniform(*SCALES, total),
        ink=rng.uniform(*INKS, total),
    )


def _draw_canvases(
    n_samples: int, images: NDArray[np.float64], placed: _Placements, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Warp all digits at once; where two overlap, the darker ink shows."""
    pixels = np.indices((CANVAS_SIZE, CANVAS_SIZE)).reshape(2, 1, -1)
    down, across = pixels - placed.centre.T[:, :, None]
    cosine, sine = np.cos(placed.rotation)[:, None], np.sin(placed.rotation)[:, None]
    middle = (images.shape[1] - 1) / 2
    rows = (cosine * down + sine * across) / placed.scale[:, None] + middle
    columns = (cosine * across - sine * down) / placed.scale[:, None] + middle
    source = np.broadcast_to(placed.source[:, None], rows.shape)
    drawn = ndimage.map_coordinates(images, [source, rows, columns], order=1, mode="constant")
    canvas = np.zeros((n_samples, CANVAS_SIZE**2))
    np.maximum.at(canvas, placed.sample, drawn * placed.ink[:, None])
    canvas += rng.normal(0, PIXEL_NOISE, canvas.shape)
    return np.clip(canvas, 0, 1).reshape(n_samples, CANVAS_SIZE, CANVAS_SIZE)
