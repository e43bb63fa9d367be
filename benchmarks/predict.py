"""Memory and seconds of `viewgap predict` for tables of growing length.

    python -m benchmarks.predict --rows 100000 500000

The values of a large table lie in a temporary file, and rows are predicted and written in blocks:
what a process holds for itself (RssAnon of /proc) grows with the ids, not with the values.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import viewgap

WIDTHS = {"genes": 100, "drugs": 10}
BLOCK = 2_000


def write_tables(folder: Path, n_rows: int) -> int:
    """Write one CSV per view, drugs without every tenth sample; return their bytes."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(BLOCK, max(WIDTHS.values()))).round(5).astype(str)
    for name, width in WIDTHS.items():
        lines = [",".join(row[:width]) for row in texts]
        with (folder / f"{name}.csv").open("w") as file:
            file.write(",".join(["id", *(f"{name}{j}" for j in range(width))]) + "\n")
            for i in range(n_rows):
                if name == "genes" or i % 10:
                    file.write(f"s{i},{lines[i % BLOCK]}\n")
    return sum(path.stat().st_size for path in folder.iterdir())


def fit_model(folder: Path) -> None:
    """A small model with the columns of the tables."""
    import pandas as pd

    rng = np.random.default_rng(1)
    X = {
        name: pd.DataFrame(rng.normal(size=(200, width))).add_prefix(name)
        for name, width in WIDTHS.items()
    }
    labels = (X["genes"].to_numpy()[:, :5] > 0).astype(float)
    viewgap.save_model(viewgap.LateFusionRidge(random_state=0).fit(X, labels), folder)


def watched(command: list[str]) -> tuple[float, float]:
    """Run a command; return seconds and the largest RssAnon in MiB."""
    start, largest = time.monotonic(), 0
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while child.poll() is None:
        try:
            status = Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            break
        found = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
        largest = max([largest, *map(int, found)])
        time.sleep(0.02)
    if child.wait():
        raise SystemExit(f"{command} ended with {child.returncode}")
    return time.monotonic() - start, largest / 1024


def main() -> None:
    """Print one line per length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 500_000])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        fit_model(root / "model")
        print("rows, MiB of files, MiB of values as float64, seconds, MiB of the process")
        for n_rows in arguments.rows:
            size = write_tables(root / str(n_rows), n_rows)
            command = [sys.executable, "-m", "viewgap", "predict", str(root / "model")]
            out = str(root / f"{n_rows}.parquet")
            seconds, memory = watched([*command, str(root / str(n_rows)), "--out", out])
            values = 8 * n_rows * sum(WIDTHS.values()) / 2**20
            print(f"{n_rows:,}, {size / 2**20:.0f}, {values:.0f}, {seconds:.0f}, {memory:.0f}")


if __name__ == "__main__":
    main()
