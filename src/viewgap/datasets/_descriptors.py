"""Six different descriptions of small grey images, each a view: numpy and scipy only.

All functions take canvases (n, s, s) with values around 0..1 and return (n, d) float64.
"""

from __future__ import annotations

from functools import cache
from math import factorial

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Images = NDArray[np.float64]
Block = NDArray[np.float64]

ORIENTATIONS = 8
CELL = 4
ZERNIKE_ORDER = 8


def pixels(canvas: Images) -> Block:
    """Grey values, slightly smoothed. Shape: (n, s * s)."""
    return _flat(ndimage.gaussian_filter(canvas, sigma=(0, 0.5, 0.5)))


def gradients(canvas: Images) -> Block:
    """Histograms of gradient orientation in cells of 4 x 4 pixels, weighted by magnitude.

    Each histogram is divided by the norm of its neighbourhood of 3 x 3 cells, so that strokes of
    weak and strong ink look alike. Shape: (n, 8 * (s / 4)^2).
    """
    down = ndimage.sobel(canvas, axis=1) / 8
    across = ndimage.sobel(canvas, axis=2) / 8
    magnitude = np.hypot(down, across)
    angle = np.arctan2(down, across) % (2 * np.pi) * (ORIENTATIONS / (2 * np.pi))
    lower = np.floor(angle).astype(int)
    upper_share = angle - lower
    histograms = np.stack(
        [
            _cell_sums(
                magnitude * (1 - upper_share) * (lower % ORIENTATIONS == k)
                + magnitude * upper_share * ((lower + 1) % ORIENTATIONS == k)
            )
            for k in range(ORIENTATIONS)
        ],
        axis=-1,
    )
    energy = ndimage.uniform_filter((histograms**2).sum(axis=-1), size=(1, 3, 3))
    return _flat(histograms / np.sqrt(energy + 0.1)[..., None])


def fourier(canvas: Images) -> Block:
    """Logarithm of the Fourier magnitudes at low frequencies: blind to where a digit stands.

    Shape: (n, (s - 1) * s / 2) for the half plane of frequencies below the highest.
    """
    magnitude = np.abs(np.fft.rfft2(canvas))
    half = canvas.shape[1] // 2
    rows = np.r_[0:half, canvas.shape[1] - half + 1 : canvas.shape[1]]
    return _flat(np.log1p(magnitude[:, rows, :half]))


def profiles(canvas: Images) -> Block:
    """Ink along rows, columns and both diagonals: four projections. Shape: (n, 2s + 2(2s - 1))."""
    size = canvas.shape[1]
    offsets = range(-size + 1, size)
    falling = [canvas.trace(k, axis1=1, axis2=2) for k in offsets]
    rising = [canvas[:, ::-1].trace(k, axis1=1, axis2=2) for k in offsets]
    return np.concatenate(
        [canvas.sum(axis=2), canvas.sum(axis=1), np.stack(falling, 1), np.stack(rising, 1)], axis=1
    )


def binary_patterns(canvas: Images) -> Block:
    """Histograms of local binary patterns in four quadrants and the whole canvas.

    A pixel's pattern says which of its eight neighbours are brighter; uniform patterns (at most two
    changes around the circle) keep their own bin, all others share one. Shape: (n, 5 * 59).
    """
    smooth = ndimage.gaussian_filter(canvas, sigma=(0, 0.6, 0.6))
    padded = np.pad(smooth, ((0, 0), (1, 1), (1, 1)), mode="edge")
    size = canvas.shape[1]
    code = np.zeros(canvas.shape, dtype=np.int64)
    ring = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))
    for bit, (row, column) in enumerate(ring):
        neighbour = padded[:, row : row + size, column : column + size]
        code += (neighbour > smooth + 0.02).astype(np.int64) << bit
    pattern = _uniform_patterns()[code]
    half = size // 2
    halves = (slice(0, half), slice(half, size))
    parts = [_histogram(pattern[:, rows, columns]) for rows in halves for columns in halves]
    block: Block = np.sqrt(np.concatenate([*parts, np.sum(parts, axis=0)], axis=1))
    return block


def moments(canvas: Images) -> Block:
    """Zernike moments up to order 8 of the disc around the canvas, real and imaginary parts.

    Shape: (n, 45): moments with m = 0 are one number, the others two.
    """
    block: Block = _flat(canvas) @ _zernike_basis(canvas.shape[1])
    return block


def _flat(block: Images) -> Block:
    return block.reshape(len(block), -1)


def _cell_sums(values: Images) -> Images:
    n, size, _ = values.shape
    cells = values.reshape(n, size // CELL, CELL, size // CELL, CELL)
    sums: Images = cells.sum(axis=(2, 4))
    return sums


def _histogram(pattern: NDArray[np.int64]) -> Block:
    n = len(pattern)
    kinds = int(_uniform_patterns().max()) + 1
    flat = pattern.reshape(n, -1) + kinds * np.arange(n)[:, None]
    counts = np.bincount(flat.ravel(), minlength=n * kinds)
    return counts.reshape(n, kinds).astype(np.float64)


@cache
def _uniform_patterns() -> NDArray[np.int64]:
    """Bin of each of the 256 codes: 58 uniform ones, then one for the rest."""
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    changes = (bits != np.roll(bits, 1, axis=1)).sum(axis=1)
    uniform = changes <= 2
    return np.where(uniform, np.cumsum(uniform) - 1, uniform.sum()).astype(np.int64)


@cache
def _zernike_basis(size: int) -> Block:
    """Real Zernike functions on the disc around the canvas, one column each: (s * s, 45)."""
    axis = (2 * np.arange(size) + 1 - size) / size
    rows, columns = np.meshgrid(axis, axis, indexing="ij")
    radius = np.hypot(rows, columns) / np.sqrt(2)
    angle = np.arctan2(rows, columns)
    functions = []
    for n in range(ZERNIKE_ORDER + 1):
        for m in range(n % 2, n + 1, 2):
            radial = np.sqrt(n + 1) * _zernike_radial(radius, n, m) / size
            functions.append(radial * np.cos(m * angle))
            if m:
                functions.append(radial * np.sin(m * angle))
    return np.stack([f.ravel() for f in functions], axis=1)


def _zernike_radial(radius: Block, n: int, m: int) -> Block:
    total = np.zeros_like(radius)
    for k in range((n - m) // 2 + 1):
        scale = factorial(k) * factorial((n + m) // 2 - k) * factorial((n - m) // 2 - k)
        total += (-1) ** k * factorial(n - k) / scale * radius ** (n - 2 * k)
    return total
