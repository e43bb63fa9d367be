"""Folders with one .npy file per view, mapped into memory: a row is read when it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format

from viewgap.data.file_checks import damaged, existing_file
from viewgap.data.npz_files import read_header
from viewgap.errors import DataFileError


def npy_files(folder: Path) -> list[Path]:
    """Return the .npy files of a folder, by name."""
    return [place for place in sorted(folder.glob("*.npy")) if not place.name.startswith(".")]


def load_npy(path: Path) -> np.memmap[Any, Any]:
    """Return the array of a .npy file as a read-only memory map."""
    place = existing_file(path)
    try:
        with place.open("rb") as stream:
            read_header(place, place.name, stream)
        # What np.load(mmap_mode="r") comes down to, without its turn to pickles and archives.
        return npy_format.open_memmap(place, mode="r")
    except DataFileError:
        raise
    except Exception as error:  # numpy raises many kinds for damaged files
        raise damaged(place, error) from error
