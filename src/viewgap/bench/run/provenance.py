"""Where a result comes from: versions, commit, machine, checksum of the data, peak memory."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import platform
import subprocess
import sys
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from viewgap.datasets import Dataset

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

_PACKAGES = ("viewgap", "torch", "numpy", "scipy", "scikit-learn")
_SAMPLED_ROWS = 64
_SECONDS_FOR_GIT = 10


def provenance(device: str = "cpu", threads: int | None = None) -> dict[str, Any]:
    """Where a result comes from: versions, commit of the source tree, device, machine."""
    return {
        "versions": {"python": platform.python_version(), **_versions()},
        **({"commit": found} if (found := commit()) else {}),
        "device": device,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "threads": threads,
        "system": platform.system(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def cpu_name() -> str:
    """Name of the processor as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@lru_cache(maxsize=1)
def commit() -> str | None:
    """Commit of the source tree, "-dirty" behind it where sources were changed; None without one.

    An installed package may lie inside somebody's repository: only files that are tracked count.
    """
    package = Path(__file__).parents[2]
    if _git("ls-files", "--error-unmatch", "__init__.py", folder=package) is None:
        return None
    found = _git("rev-parse", "HEAD", folder=package)
    changes = _git("status", "--porcelain", "--", ".", folder=package)
    return f"{found}-dirty" if found and changes else found


def _git(*arguments: str, folder: Path) -> str | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # looking must not write
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *arguments],  # noqa: S607
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS_FOR_GIT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


# ------------------------------------------------------------------ data

_checksums: WeakKeyDictionary[Dataset, str] = WeakKeyDictionary()


def data_checksum(dataset: Dataset) -> str:
    """Hash of labels, gaps, names and shapes, and of 64 rows of every view; made once.

    A benchmark set has gigabytes: reading all of them would cost more than some methods do, and
    another version of the data differs in these rows too.
    """
    known = _checksums.get(dataset)
    if known is None:
        known = _checksums[dataset] = _checksum(dataset)
    return known


def _checksum(dataset: Dataset) -> str:
    views = dataset.views
    rows = np.unique(np.linspace(0, len(views) - 1, _SAMPLED_ROWS).astype(np.intp))
    shape = (len(views), *zip(views.names, views.dims, strict=True), dataset.label_names)
    state = hashlib.sha256(repr(shape).encode())
    state.update(np.ascontiguousarray(dataset.labels).tobytes())
    state.update(np.ascontiguousarray(views.observed).tobytes())
    for index, name in enumerate(views.names):
        seen = rows[views.observed[rows, index]]
        state.update(np.ascontiguousarray(views.rows(name, seen), dtype=np.float32).tobytes())
    return f"sample-sha256:{state.hexdigest()[:32]}"


# ------------------------------------------------------------------ memory


class PeakMemory:
    """The most memory in use from now on, on the host and on the GPU.

    Where the system cannot forget earlier peaks, `host_of` says that the host's figure is that of
    the whole process, whose earlier tasks may have needed more.
    """

    def __init__(self) -> None:
        gc.collect()  # networks sit in cycles: those of earlier tasks would count as ours
        self._fresh = forget_host_peak()
        cuda = _cuda()
        with contextlib.suppress(RuntimeError):  # no statistics are no reason to lose a task
            for index in range(cuda.device_count() if cuda else 0):
                cuda.reset_peak_memory_stats(index)

    def peak(self) -> dict[str, Any]:
        """Bytes: `host`, and `cuda` where a GPU was used."""
        found: dict[str, Any] = {
            "host": host_memory(),
            "host_of": "task" if self._fresh else "process",
        }
        cuda = _cuda()
        if cuda is not None:
            with contextlib.suppress(RuntimeError):
                peaks = [cuda.max_memory_allocated(i) for i in range(cuda.device_count())]
                found["cuda"] = max(peaks, default=0)
        return found


def _cuda() -> Any:
    """torch.cuda, once something has used it."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def forget_host_peak() -> bool:
    """Count the peak from here on; whether the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # Linux: resets VmHWM
    except OSError:
        return False
    return True


def host_memory(key: str = "VmHWM") -> int | None:
    """Bytes that this process holds (VmRSS), or the most that it held (VmHWM, known everywhere)."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{key}:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
