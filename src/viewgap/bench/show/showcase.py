"""What the demo adds to the report: the missing views of its test samples, and examples of them."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.bench.show.tables import TitledTable

BAR_HEIGHT = 46.0
COLUMN = 22.0
_KINDS = {
    (True, True): "hit",
    (True, False): "miss",
    (False, True): "alarm",
    (False, False): "none",
}


@dataclass(frozen=True)
class Example:
    """A test sample with its picture, its true labels and what the model predicted.

    Shape: `image` (height, width) from 0 (paper) to 1 (ink); `truth` and `probability` one entry
    per label, `observed` one per view.
    """

    name: str
    image: NDArray[Any]
    truth: Sequence[bool]
    probability: Sequence[float]
    observed: Sequence[bool]


@dataclass(frozen=True)
class Showcase:
    """A fitted model on its test samples.

    Shape: `observed` (test samples, views); `thresholds` one per label. `headline` and `summary`
    stand at the top of the page; `main` is the title of the method it is about.
    """

    headline: str
    summary: str
    main: str
    view_names: Sequence[str]
    label_names: Sequence[str]
    observed: NDArray[np.bool_]
    thresholds: Sequence[float]
    examples: Sequence[Example] = ()
    tables: Sequence[TitledTable] = ()
    sample_noun: tuple[str, str] = ("sample", "samples")
    label_noun: tuple[str, str] = ("label", "labels")
    bar_height: float = BAR_HEIGHT

    @property
    def n_test(self) -> int:
        """Test samples."""
        return len(self.observed)

    @property
    def strips(self) -> list[dict[str, Any]]:
        """Which of the first 90 samples have each view, those with most views first."""
        shown = self.observed[:90]
        order = np.lexsort((*(~shown.T)[::-1], -shown.sum(axis=1)))
        return [
            {
                "name": name,
                "present": np.flatnonzero(shown[order, index]).tolist(),
                "absent": np.flatnonzero(~shown[order, index]).tolist(),
                "count": len(shown),
                "missing": float(1 - self.observed[:, index].mean()),
            }
            for index, name in enumerate(self.view_names)
        ]

    @property
    def gallery(self) -> list[dict[str, Any]]:
        """The examples with their pictures as data URIs and their bars as coordinates."""
        return [
            {
                "name": example.name,
                "image": _png_uri(example.image),
                "chart": self._bars(example),
                "truth": [n for n, t in zip(self.label_names, example.truth, strict=True) if t],
                "views": list(zip(self.view_names, example.observed, strict=True)),
            }
            for example in self.examples
        ]

    def _bars(self, example: Example) -> dict[str, Any]:
        marks = []
        groups: dict[str, list[str]] = {"hit": [], "miss": [], "alarm": [], "none": []}
        columns = zip(
            self.label_names, example.truth, example.probability, self.thresholds, strict=True
        )
        for index, (name, true, p, limit) in enumerate(columns):
            probability = 0.0 if math.isnan(p) else p
            kind = _KINDS[bool(true), probability > limit]
            groups[kind].append(name)
            marks.append(
                {
                    "text": name[:3],
                    "name": name,
                    "kind": kind,
                    "probability": probability,
                    "x": COLUMN * (index + 0.5),
                    "height": round(BAR_HEIGHT * probability, 2),
                    "limit": round(BAR_HEIGHT * limit, 2),
                }
            )
        return {"marks": marks, "width": COLUMN * len(marks), "summary": _sentence(groups)}


def _sentence(groups: Mapping[str, Sequence[str]]) -> str:
    parts = [
        f"{word} {', '.join(groups[kind])}"
        for kind, word in (("hit", "found"), ("miss", "missed"), ("alarm", "false alarm"))
        if groups[kind]
    ]
    return "; ".join(parts) or "nothing to find, nothing found"


def _png_uri(ink: NDArray[Any]) -> str:
    """Data URI of an 8-bit grey PNG. Shape: `ink` (height, width), 0 = paper, 1 = ink."""
    grey = np.round(255 * (1 - np.clip(np.nan_to_num(ink), 0, 1))).astype(np.uint8)
    height, width = grey.shape
    rows = np.hstack([np.zeros((height, 1), np.uint8), grey])  # each row starts with "no filter"
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    content = (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
        + _chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(content).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
