"""Small grey pictures as data URIs, so that the page needs no other file."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def png_uri(ink: NDArray[Any]) -> str:
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
