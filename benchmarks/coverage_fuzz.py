"""Coverage-guided fuzzing of readers and of the model loader: `python -m benchmarks.coverage_fuzz`.

    python -m benchmarks.coverage_fuzz --seconds 60
    python -m benchmarks.coverage_fuzz --targets csv mat --seconds 600 --keep

Where `benchmarks.fuzz` damages files blindly, atheris (extra `dev`, Linux) watches which lines a
damaged file reaches, and goes on from those that reach new ones. What a target is given must end in
a `ViewgapError` or be read; a model is given with its checksums made right again, and must then
answer with probabilities. It begins with a right file and with the corpus in `tests/corpus`, which
`--keep` replaces by the fewest files that reach the same lines; `tests/test_corpus.py` reads these.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.experiments import keep
from benchmarks.fuzz import MODEL_FILES, checksum, files_of, read_all
from benchmarks.record import ROOT

OUT = ROOT / "benchmarks" / "coverage_fuzz.json"
CORPUS = ROOT / "tests" / "corpus"
KEPT = ROOT / "tests" / "models" / "format_3"
FORMATS = ("mat", "csv", "npz", "hdf5", "arff", "npy", "h5ad")
MODELS = {
    "model description": ("late_fusion_ridge", "model.json"),
    "network description": ("scsd", "model.json"),
    "model weights": ("extra_trees", "weights.safetensors"),
    "checksums": ("label_frequency", "checksums.json"),
}
MOST_BYTES = 32_000  # of a changed file


class Data:
    """Six samples in one format, of which one file is changed."""

    def __init__(self, folder: Path, format_: str) -> None:
        from written_data import WRITERS, small_cll

        self.written = WRITERS[format_](folder, small_cll(6))
        self.changed = files_of(self.written)[0]
        self.right = self.changed.read_bytes()

    def read(self, content: bytes) -> None:
        """Read the data with another content of the file."""
        self.changed.write_bytes(content)
        read_all(self.written)


class Model:
    """A kept model, of which one file is changed."""

    def __init__(self, folder: Path, method: str, file: str) -> None:
        shutil.copytree(KEPT / method, folder, dirs_exist_ok=True)
        self.folder, self.changed = folder, folder / file
        self.right = self.changed.read_bytes()

    def read(self, content: bytes) -> None:
        """Load the model with another content of the file; it must predict."""
        import numpy as np

        from viewgap.model_file import load_model

        self.changed.write_bytes(content)
        if self.changed.name != "checksums.json":
            self._sign()
        model = load_model(self.folder)
        sizes = zip(model.view_names_, model.view_dims_, strict=True)
        X = {name: np.zeros((2, dim)) for name, dim in sizes}
        found = model.predict_proba(X)
        if not ((found >= 0) & (found <= 1) | np.isnan(model.label_frequency_)).all():
            raise ArithmeticError(f"no probabilities: {found}")

    def _sign(self) -> None:
        sums = {name: checksum((self.folder / name).read_bytes()) for name in MODEL_FILES[:2]}
        (self.folder / "checksums.json").write_text(json.dumps(sums), encoding="utf-8")


TARGETS: dict[str, Callable[[Path], Data | Model]] = {
    **{name: lambda folder, how=how: Model(folder, *how) for name, how in MODELS.items()},
    **{name: lambda folder, name=name: Data(folder, name) for name in FORMATS},
}


def attempt(target: Data | Model, content: bytes) -> bool:
    """Whether a content is read; a refusal is no error."""
    from viewgap.errors import ViewgapError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target.read(content)
        except ViewgapError:
            return False
    return True


# ------------------------------------------------------------------ in the child


def work(name: str, options: list[str]) -> None:
    """Fuzz one target with options of libFuzzer, until it ends the process."""
    import atheris

    with atheris.instrument_imports(include=["viewgap"], enable_loader_override=False):
        import viewgap.data.formats as formats
        import viewgap.methods as methods

        for found in pkgutil.iter_modules(formats.__path__):
            importlib.import_module(f"viewgap.data.formats.{found.name}")
        importlib.import_module("viewgap.model_file")
        for method, _ in MODELS.values():
            methods.get(method)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").mkdir()
        target = TARGETS[name](Path(folder) / "data")
        assert attempt(target, target.right), f"{name}: the right file is refused"
        # To merge, libFuzzer starts its program again, by its name alone.
        program = Path(folder) / "again"
        own = [sys.executable, "-m", "benchmarks.coverage_fuzz", "--child", name]
        program.write_text(f'#!/bin/sh\nexec {shlex.join(own)} "$@"\n', encoding="utf-8")
        program.chmod(0o700)
        atheris.Setup([str(program), *options], lambda content: attempt(target, content) and None)
        atheris.Fuzz()


# ------------------------------------------------------------------ in the parent


def fuzz(name: str, seconds: int, keep: bool) -> dict[str, Any]:
    """What became of one target."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        found, start, data = (folder / part for part in ("found", "start", "data"))
        for each in (found, start, data):
            each.mkdir()
        (start / "right").write_bytes(TARGETS[name](data).right)
        kept = CORPUS / name.replace(" ", "_")
        places = [str(found), str(start), *([str(kept)] if kept.exists() else [])]
        limits = [f"-max_len={MOST_BYTES}", "-timeout=20", "-rss_limit_mb=4096"]
        watched = [f"-max_total_time={seconds}", f"-artifact_prefix={folder}/", *limits]
        done = _child(name, [*watched, "-print_final_stats=1", *places])
        bad = sorted(folder.glob("crash-*")) + sorted(folder.glob("timeout-*"))
        bad += sorted(folder.glob("oom-*"))
        result = {"target": name, **_figures(done.stderr), "code": done.returncode}
        result["bad"] = [f"{path.name}: {path.read_bytes()[:2000]!r}" for path in bad]
        if bad or done.returncode:
            result["end"] = done.stderr[-3000:]
        elif keep:
            fewest = folder / "fewest"
            fewest.mkdir()
            merged = _child(name, ["-merge=1", *limits, str(fewest), *places])
            if merged.returncode or not any(fewest.iterdir()):
                raise RuntimeError(f"{name}: no corpus: {merged.stderr[-2000:]}")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(fewest, kept)
    return result


def _child(name: str, options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.coverage_fuzz", "--child", name, *options]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False
    )


def _figures(report: str) -> dict[str, int]:
    """Files tried, and how many lines (edges) were reached first and last."""
    tried = re.search(r"number_of_executed_units:\s*(\d+)", report)
    reached = [int(number) for number in re.findall(r"\bcov: (\d+)", report)]
    first, last = (reached[0], reached[-1]) if reached else (0, 0)
    return {"tried": int(tried[1]) if tried else 0, "reached first": first, "reached": last}


def main() -> int:
    """Fuzz the targets, keep the figures; the exit code is 1 where one broke its promise."""
    if sys.argv[1:2] == ["--child"]:
        work(sys.argv[2], sys.argv[3:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--keep", action="store_true", help="renew tests/corpus")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    lines = []
    for name in options.targets:
        lines.append(fuzz(name, options.seconds, options.keep))
        print(json.dumps(lines[-1]), flush=True)
        keep(options.out, targets=lines)
    return int(any(line["bad"] or line["code"] for line in lines))


if __name__ == "__main__":
    sys.exit(main())
