"""Are the tests green on any processor? `python -m benchmarks.anywhere --help`.

Runs the numeric tests as processors with other instruction sets would round, on one and two
threads, and the learning tests with several seeds besides. Every figure of a trained model that a
test compares with a bar is kept: its worst value over all runs must stay `ENOUGH` standard
deviations away from the bar.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.machine import machine_name
from benchmarks.record import ROOT

OUT = ROOT / "benchmarks" / "anywhere.json"
ENOUGH = 5.0
# From the least to the most. MKL multiplies for torch, OpenBLAS for NumPy and SciPy.
SETTINGS = {
    "default": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "MKL_CBWR": "COMPATIBLE",
        "NPY_DISABLE_CPU_FEATURES": "all",
    },
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_CBWR": "AVX2",
        "NPY_DISABLE_CPU_FEATURES": "AVX512 X86_V4",
    },
    "avx512": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "OPENBLAS_CORETYPE": "SkylakeX",
    },
}


def supported() -> list[str]:
    """The settings that this processor can run."""
    best = torch.backends.cpu.get_cpu_capability().lower()
    names = list(SETTINGS)
    return names[: names.index(best) + 1] if best in names else names[:1]


def environment(setting: str, threads: int) -> dict[str, str]:
    """The variables of a run; NumPy wants the features that it shall not use by name."""
    variables = dict(SETTINGS[setting])
    unwanted = variables.pop("NPY_DISABLE_CPU_FEATURES", "")
    # What is switched off already is not found any more.
    names = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    if unwanted != "all":
        names = [name for name in names if unwanted and name.startswith(tuple(unwanted.split()))]
    if names:
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(names)
    counts = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    # Several processes share the cores: a thread that waits must not keep one busy.
    variables["OMP_WAIT_POLICY"] = "passive"
    return variables | dict.fromkeys(counts, str(threads))


def run_tests(
    setting: str, threads: int, seed: int, marker: str, figures: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """One run of pytest: what came out, and which tests failed."""
    command = [sys.executable, "-m", "pytest", "-m", marker, "-r", "fE", "-p", "no:cacheprovider"]
    command += ["-n", str(options.jobs), "--dist", "worksteal"]
    # Triton's interpreter is slow, and says nothing of the processor that kernels run on.
    wanted = [f"({options.only})", "not test_kernels"] if options.only else ["not test_kernels"]
    command += ["-k", " and ".join(wanted)]
    command += [f"--seed-shift={seed}", f"--figures={figures}", "tests"]
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | environment(setting, threads),
        capture_output=True,
        text=True,
        check=False,
    )
    count = dict.fromkeys(("passed", "failed", "skipped", "errors"), 0)
    lines = done.stdout.strip().splitlines() or [""]
    for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", lines[-1]):
        count["errors" if word == "error" else word] += int(number)
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if done.returncode not in (0, 1):
        failures.append(f"pytest ended with {done.returncode}: {(done.stderr or lines[-1])[-500:]}")
    named = {"setting": setting, "threads": threads, "seed": seed, "tests": marker}
    named |= {"only": options.only} if options.only else {}
    return named | count | {"seconds": round(time.perf_counter() - start), "failures": failures}


def summarise(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Every trained figure over all runs, those nearest to their bars first."""
    found = defaultdict(list)
    for line in lines:
        entry = json.loads(line)
        figure = entry.pop("figure")
        found[tuple(entry.items())].append(figure)
    table = []
    for key, values in found.items():
        entry = dict(key)
        worst = min(values) if entry["side"] == "above" else max(values)
        spread = statistics.pstdev(values)
        margin = (worst - entry["bar"]) * (1 if entry["side"] == "above" else -1)
        numbers = {"worst": worst, "mean": statistics.fmean(values), "spread": spread}
        entry |= {"runs": len(values)} | {k: float(f"{v:.3g}") for k, v in numbers.items()}
        # A figure that never moves has no spread; nor has one run.
        entry["margin_in_spreads"] = float(f"{margin / spread:.3g}") if spread > 1e-9 else None
        table.append(entry)
    return sort(table)


def sort(figures: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those nearest to their bars first."""
    return sorted(figures, key=lambda e: (e["margin_in_spreads"] is None, e["margin_in_spreads"]))


def as_text(runs: Sequence[dict[str, Any]], figures: Sequence[dict[str, Any]]) -> str:
    """Both tables in short."""
    names = ("setting", "threads", "seed", "tests", "passed", "failed", "errors", "skipped")
    rows = [(*names, "seconds"), *([str(run[k]) for k in (*names, "seconds")] for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines += ["", f"{len(figures)} figures of trained models; nearest to their bars:"]
    for entry in figures[:8]:
        lines.append(
            f"  {entry['margin_in_spreads']} spreads: {entry['test']}, {entry['name']}:"
            f" worst {entry['worst']}, spread {entry['spread']},"
            f" {entry['side']} {entry['bar']} in {entry['runs']} runs"
        )
    return "\n".join(lines)


def is_good(runs: Sequence[dict[str, Any]], figures: Sequence[dict[str, Any]]) -> bool:
    """No failure, and with several runs no figure near its bar."""
    near = [
        entry
        for entry in figures
        if entry["runs"] > 2 and (entry["margin_in_spreads"] or ENOUGH) < ENOUGH
    ]
    return not any(run["failures"] for run in runs) and not near


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.anywhere", description=__doc__)
    parser.add_argument("--settings", nargs="+", choices=tuple(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seeds", type=int, default=3, help="of the learning tests")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--only-learning", action="store_true", help="the learning tests alone")
    parser.add_argument(
        "--only",
        metavar="EXPRESSION",
        help="tests of this name, as pytest's -k; their figures replace those in the file",
    )
    parser.add_argument("--out", type=Path, default=OUT, help="file to keep the tables in")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    can_run = supported()
    for setting in options.settings:
        if setting not in can_run:
            print(f"{setting}: left out, this processor has no such instructions")
    chosen = [setting for setting in options.settings if setting in can_run]
    plan = [(s, t, n) for s in chosen for t in options.threads for n in range(options.seeds)]
    kept = (
        json.loads(options.out.read_text("utf-8"))
        if options.only and options.out.exists()
        else None
    )
    runs: list[dict[str, Any]] = []
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.jsonl"
        file.touch()
        for number, (setting, threads, seed) in enumerate(plan, start=1):
            # Seeds move the learning tests only.
            marker = "learning" if seed or options.only_learning else "numeric"
            runs.append(run_tests(setting, threads, seed, marker, file, options))
            figures = summarise(file.read_text(encoding="utf-8").splitlines())
            save(runs, figures, options, kept)
            print(f"[{number}/{len(plan)}] {as_line(runs[-1])}", file=sys.stderr, flush=True)
    print(as_text(runs, figures))
    return 0 if is_good(runs, figures) else 1


def as_line(run: dict[str, Any]) -> str:
    head = f"{run['setting']}, {run['threads']} threads, seed {run['seed']}, {run['tests']} tests"
    count = f"{run['passed']} passed, {run['failed']} failed, {run['skipped']} skipped"
    return "\n  ".join([f"{head}: {count} in {run['seconds']} s", *run["failures"]])


def is_there(test: str) -> bool:
    """Whether a test of this name, as pytest writes it, is in the repository."""
    file, _, rest = test.partition("::")
    path, name = ROOT / file, rest.partition("[")[0]
    return path.is_file() and f"\ndef {name}(" in path.read_text(encoding="utf-8")


def save(
    runs: Sequence[dict[str, Any]],
    figures: Sequence[dict[str, Any]],
    options: argparse.Namespace,
    kept: dict[str, Any] | None = None,
) -> None:
    """After every run, so that a run that is stopped leaves what it has.

    Runs of some tests only are added to those `kept`, and their figures replace the earlier ones.
    Figures of tests that are gone, or have another name now, go with them.
    """
    words = ["--settings", *options.settings, "--threads", *map(str, options.threads)]
    words += ["--seeds", str(options.seeds), *["--only-learning"] * options.only_learning]
    words += ["--only", shlex.quote(options.only)] if options.only else []
    named = {s: environment(s, 1) for s in options.settings}
    commands, table = [f"python -m benchmarks.anywhere {' '.join(words)}"], list(figures)
    if kept is not None:
        commands, runs = [kept["command"], *commands], [*kept["runs"], *runs]
        again = {entry["test"] for entry in figures}
        still = [old for old in kept["figures"] if is_there(old["test"])]
        table = sort([*table, *(old for old in still if old["test"] not in again)])
    now = {
        "command": "; ".join(commands),
        "machine": machine_name("cpu"),
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
        "settings": {**(kept or {}).get("settings", {}), **named},
        "runs": list(runs),
        "figures": table,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
