"""Files of label sets: thresholds as JSON, bound to the model that they were found for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from viewgap import strict_json
from viewgap.data.rows.values import NAN_POLICIES
from viewgap.decide.thresholds import PatternThresholds
from viewgap.errors import DataFileError, damaged_file
from viewgap.fsio import write_file
from viewgap.methods.base import MultiViewClassifier

KIND, VERSION = "viewgap label sets", 2
_NO_SETS = "no file of label sets; LabelSets.save and viewgap calibrate write them"
MOST_BYTES = 256 * 2**20


def write_sets(
    path: str | os.PathLike[str],
    model: MultiViewClassifier,
    settings: Mapping[str, Any],
    facts: Mapping[str, Any],
    tables: Mapping[str, PatternThresholds],
) -> None:
    """Write settings and thresholds; the file is the old one or the new one."""
    content = {
        "format": f"{KIND} {VERSION}",
        "model": fingerprint(model),
        **settings,
        **facts,
        "view_names": list(model.view_names_),
        "label_names": list(model.label_names_),
        "patterns": {pattern: table.to_dict() for pattern, table in tables.items()},
    }
    write_file(path, strict_json.dumps(content))


def read_sets(
    path: str | os.PathLike[str], model: MultiViewClassifier, names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, PatternThresholds]]:
    """Return the settings of these names, how it was calibrated, and thresholds by pattern."""
    file = Path(path)
    stored = _content(file)
    keys = {"model", "nan", "out_of_fold", "patterns", *names}
    if not keys <= set(stored):
        raise damaged_file(file, "it is no complete file of label sets")
    if type(stored["out_of_fold"]) is not bool or stored["nan"] not in NAN_POLICIES:
        raise damaged_file(file, "it does not say how it was calibrated")
    if stored["model"] != fingerprint(model):
        raise DataFileError(f"{file}: made for another model; calibrate this one")
    settings = {name: stored[name] for name in names}
    if type(settings.get("per_label", False)) is not bool:
        raise damaged_file(file, "per_label must be true or false")
    try:
        tables = _tables(stored["patterns"], len(model.view_names_), len(model.label_names_))
    except ValueError as error:
        raise damaged_file(file, error) from error
    return settings, {name: stored[name] for name in ("nan", "out_of_fold")}, tables


def _content(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > MOST_BYTES:
            raise damaged_file(file, f"it is larger than {MOST_BYTES:,} bytes")
        stored = strict_json.loads(file.read_bytes())
    except OSError as error:
        raise DataFileError(f"{file}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise DataFileError(f"{file}: {_NO_SETS} (it is no JSON: {error})") from error
    kind = stored.get("format") if isinstance(stored, dict) else None
    name, _, version = str(kind).rpartition(" ")
    if name != KIND or not version.isdecimal():
        raise DataFileError(f"{file}: {_NO_SETS}")
    if int(version) > VERSION:
        raise DataFileError(f"{file}: written by a newer viewgap (format {version}); upgrade it")
    if int(version) < VERSION:
        raise DataFileError(
            f"{file}: format {version} promised less for rows with missing labels; calibrate anew"
        )
    return dict(stored)


def _tables(stored: Any, n_views: int, n_labels: int) -> dict[str, PatternThresholds]:
    if not isinstance(stored, dict):
        raise ValueError("patterns must be an object")
    for pattern in stored:
        if len(pattern) != n_views or set(pattern) - {"0", "1"}:
            raise ValueError(f"a pattern is {n_views} times 0 or 1")
    return {key: PatternThresholds.from_dict(value, n_labels) for key, value in stored.items()}


def fingerprint(model: MultiViewClassifier) -> str:
    """Hash of everything that a fitted model predicts with."""
    state = model._get_state()
    digest = hashlib.sha256(repr((model.view_names_, model.label_names_)).encode())
    for name in sorted(state.arrays):
        values = np.ascontiguousarray(state.arrays[name])
        digest.update(f"{name} {values.dtype} {values.shape} ".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()[:32]
