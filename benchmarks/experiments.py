"""What the scripts share that fit methods on folds of data sets, or count what goes wrong."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

RATES = {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7}
NATURAL_GAPS = ("birds", "cll")


def fold_numbers(text: str) -> range:
    """Folds of `first:last`, the last left out."""
    first, _, last = text.partition(":")
    return range(int(first), int(last))


def split_of(dataset: str, fold: int) -> Any:
    """(views, labels) of the training, validation and test rows of a fold of the protocol.

    Data sets with gaps of their own lose nothing more.
    """
    from viewgap.datasets import load_dataset

    data = load_dataset(dataset)
    rates = dict.fromkeys(("view_rate", "label_rate"), 0.0) if dataset in NATURAL_GAPS else {}
    return data.fold(fold, **RATES | rates).split(data.views, data.labels)


def append(out: Path | None, line: dict[str, Any]) -> None:
    """Add a line of JSON to a file, if there is one."""
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def keep(out: Path | None, **figures: Any) -> None:
    """Write figures as JSON, with the machine and the words of the command, if there is a file."""
    from benchmarks.machine import machine_name

    if out is not None:
        kept = {"machine": machine_name("cpu"), "arguments": sys.argv[1:], **figures}
        out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def forked(work: Callable[[], None]) -> int:
    """The number of a new process that does this work; its status is 0 if that ended well."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)
