"""What a figure is, the file of the latest figures, and the tables made from it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
LATEST = ROOT / "benchmarks" / "latest.json"
README = ROOT / "benchmarks" / "README.md"


class Kind(NamedTuple):
    """How values of a unit compare: whether more is better, and what their ratio means."""

    more_is_better: bool
    ratio_means: str


KINDS = {
    "ms": Kind(False, "times as fast"),
    "s": Kind(False, "times as fast"),
    "rows/s": Kind(True, "times as fast"),
    "GB": Kind(False, "times as much"),
    "exponent": Kind(False, ""),
    "relative": Kind(False, ""),
    "codes": Kind(False, ""),
}


@dataclass(frozen=True)
class Context:
    """Where a run takes place; `quick`: tiny shapes, to see that everything works."""

    device: str
    quick: bool = False


class Measured(NamedTuple):
    """A figure's value and that of its reference, in the figure's unit."""

    value: float
    reference: float | None = None


@dataclass(frozen=True)
class Figure:
    """A named number, how to measure it, and what it should be on which device."""

    name: str
    unit: str
    measure: Callable[[Context], Measured]
    target: dict[str, float] = field(default_factory=dict)
    target_ratio: dict[str, float] = field(default_factory=dict)
    devices: tuple[str, ...] = ("cpu", "cuda")

    def record(self, found: Measured, context: Context, machine: str, torch: str) -> dict[str, Any]:
        """One entry of `latest.json`."""
        kind = KINDS[self.unit]
        ratio = None
        if found.reference is not None:
            faster = not kind.more_is_better and kind.ratio_means == "times as fast"
            ratio = found.reference / found.value if faster else found.value / found.reference
        text, met = self._judge(found.value, ratio, context.device)
        return {
            "name": self.name,
            "value": _short(found.value),
            "unit": self.unit,
            "ratio_to_reference": _short(ratio),
            "ratio_means": kind.ratio_means,
            "reference_value": _short(found.reference),
            "target": text,
            "met": met,
            "machine": machine,
            "torch": torch,
            "command": f"python -m benchmarks --only {self.name} --device {context.device}",
        }

    def _judge(self, value: float, ratio: float | None, device: str) -> tuple[str, bool | None]:
        """The target in words, and whether it was reached."""
        kind = KINDS[self.unit]
        parts, met = [], []
        if device in self.target:
            goal = self.target[device]
            parts.append(f"{'≥' if kind.more_is_better else '≤'} {_number(goal)} {self.unit}")
            met.append(value >= goal if kind.more_is_better else value <= goal)
        if device in self.target_ratio and ratio is not None:
            goal, fast = self.target_ratio[device], kind.ratio_means == "times as fast"
            parts.append(f"{'≥' if fast else '≤'} {_number(goal)} {kind.ratio_means}")
            met.append(ratio >= goal if fast else ratio <= goal)
        return ", ".join(parts), all(met) if met else None


def _short(value: float | None) -> float | None:
    """Four digits: more would only be noise."""
    return None if value is None else float(f"{value:.4g}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


# ------------------------------------------------------------------ the file


def load(path: Path = LATEST) -> list[dict[str, Any]]:
    """The kept figures; none if there is no file yet."""
    if not path.exists():
        return []
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return entries


def merge(
    old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]], order: Sequence[str]
) -> list[dict[str, Any]]:
    """Old entries with those of the same name and machine replaced, machine by machine."""
    entries = {(e["machine"], e["name"]): e for e in [*old, *new]}
    place = {name: number for number, name in enumerate(order)}
    return [
        entries[key]
        for key in sorted(entries, key=lambda k: (k[0], place.get(k[1], len(place)), k[1]))
    ]


def save(entries: Sequence[dict[str, Any]], path: Path = LATEST) -> None:
    """Write the file in one go: a reader sees the old one or the new one."""
    text = json.dumps(list(entries), indent=1, ensure_ascii=False) + "\n"
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


# ------------------------------------------------------------------ the tables

COLUMNS = ("figure", "value", "unit", "to the reference", "target", "met", "machine")


def cells(entry: dict[str, Any]) -> tuple[str, ...]:
    """The row of one entry; a `note`, written by hand into the file, stands beside its name."""
    ratio = entry["ratio_to_reference"]
    compared = "–" if ratio is None else f"{_number(ratio)} {entry['ratio_means']}"
    met = {True: "yes", False: "no", None: "–"}[entry["met"]]
    value, target = _number(entry["value"]), entry["target"] or "–"
    name = f"{entry['name']} ({entry['note']})" if "note" in entry else entry["name"]
    return name, value, entry["unit"], compared, target, met, entry["machine"]


def as_text(entries: Sequence[dict[str, Any]]) -> str:
    """A table for a terminal: of one run, so that its machine is named once, above."""
    rows = [row[:-1] for row in (COLUMNS, *map(cells, entries))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    machine = entries[0]["machine"] if entries else "nothing measured"
    return "\n".join([machine, "", lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def as_markdown(entries: Sequence[dict[str, Any]]) -> str:
    """The same table for a README."""
    rows = [COLUMNS, ("---", "---:", "---", "---:", "---", "---", "---"), *map(cells, entries)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def with_block(text: str, name: str, table: str) -> str:
    """`text` with the table between the markers of this name; unchanged without markers."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if start not in text or end not in text:
        return text
    head, rest = text.split(start, 1)
    return f"{head}{start}\n{table}\n{end}{rest.split(end, 1)[1]}"
