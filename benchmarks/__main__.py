"""Measures the figures, prints them, and keeps them: `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import (
    end_to_end,
    figures_agreement,
    figures_fit,
    figures_memory,
    figures_metrics,
    figures_predict,
    figures_start,
    figures_step,
    floor,
    record,
)
from benchmarks.machine import machine_name
from benchmarks.record import Context, Figure

FIGURES: list[Figure] = [
    *figures_step.FIGURES,
    *figures_fit.FIGURES,
    *figures_predict.FIGURES,
    *figures_memory.FIGURES,
    *figures_metrics.FIGURES,
    *figures_agreement.FIGURES,
    *figures_start.FIGURES,
]
NAMES = [figure.name for figure in FIGURES]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="figures whose name starts so")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="cuda if there is one")
    parser.add_argument("--quick", action="store_true", help="tiny shapes; keeps nothing")
    parser.add_argument("--out", type=Path, help="file to keep figures in (benchmarks/latest.json)")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--table", action="store_true", help="print the kept figures as Markdown")
    parser.add_argument("--write-readme", action="store_true", help="put the tables in README.md")
    return parser.parse_args(arguments)


def choose(only: Sequence[str] | None, device: str) -> list[Figure]:
    """The figures asked for, of those that this device has."""
    unknown = [start for start in only or () if not any(n.startswith(start) for n in NAMES)]
    if unknown:
        raise SystemExit(f"no figure is named {unknown[0]}...; there are: {', '.join(NAMES)}")
    wanted = tuple(only or ("",))
    return [f for f in FIGURES if f.name.startswith(wanted) and device in f.devices]


def run(figures: Sequence[Figure], context: Context) -> tuple[list[dict[str, Any]], list[str]]:
    """Entries of the figures that could be measured, and a line for each that could not."""
    machine, entries, failures = machine_name(context.device), [], []
    for number, figure in enumerate(figures, start=1):
        start = time.perf_counter()
        try:
            found = figure.measure(context)
            entries.append(figure.record(found, context, machine, torch.__version__))
            outcome = f"{entries[-1]['value']:g} {figure.unit}"
        except Exception as error:  # one figure must not cost the others
            failures.append(f"{figure.name}: failed, {type(error).__name__}: {error}")
            outcome = "failed"
        seconds = time.perf_counter() - start
        line = f"[{number}/{len(figures)}] {figure.name}: {outcome} ({seconds:.0f} s)"
        print(line, file=sys.stderr, flush=True)
    return entries, failures


def with_tables(text: str, entries: Sequence[dict[str, Any]]) -> str:
    """A README with its generated tables, where it has the markers for them."""
    text = record.with_block(text, "bench", record.as_markdown(entries))
    text = record.with_block(text, "floor", floor.as_markdown(entries))
    whole_fits = json.loads(end_to_end.OUT.read_text(encoding="utf-8"))
    return record.with_block(text, "end_to_end", end_to_end.as_markdown(whole_fits))


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    out = options.out or record.LATEST
    if options.list:
        print("\n".join(NAMES))
    elif options.table:
        print(record.as_markdown(record.load(out)))
    elif options.write_readme:
        text = record.README.read_text(encoding="utf-8")
        record.README.write_text(with_tables(text, record.load(out)), encoding="utf-8")
    else:
        return measure(options, out)
    return 0


def measure(options: argparse.Namespace, out: Path) -> int:
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    context = Context(device, options.quick)
    entries, failures = run(choose(options.only, device), context)
    if entries and (options.out or not options.quick):
        record.save(record.merge(record.load(out), entries, NAMES), out)
    print("\n".join([record.as_text(entries), *failures]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
