"""On what a run takes place, how long something takes there, and how much memory it needs."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks.record import ROOT, Context
from viewgap.bench.run.provenance import host_memory

GB = 1e9
_WIDEST = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")


def machine_name(device: str) -> str:
    """Such as "NVIDIA H200" or "2 cores, AMD EPYC (avx512_bf16)"."""
    if device == "cuda":
        return torch.cuda.get_device_name(0)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    name, extension = platform.processor() or platform.machine(), ""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        text = facts.read_text(encoding="utf-8")
        found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
        name = found.group(1).strip() if found else name
        flags = set(text.split())
        extension = next((f" ({flag})" for flag in _WIDEST if flag in flags), "")
    return f"{cores} cores, {name}{extension}"


def wait_for(device: str) -> None:
    """Let everything handed to the device be finished."""
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_per_call(
    call: Callable[[], object],
    device: str,
    *,
    rounds: int,
    per_round: int = 1,
    warm_up: int = 2,
) -> float:
    """Median over rounds; within a round calls follow each other without waiting."""
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(rounds):
        wait_for(device)
        start = time.perf_counter()
        for _ in range(per_round):
            call()
        wait_for(device)
        times.append((time.perf_counter() - start) / per_round)
    return statistics.median(times)


@contextmanager
def reference_precision(device: str) -> Iterator[None]:
    """Let the reference multiply in TF32 on a GPU, as the library does: no credit for a flag."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if device == "cuda" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# ------------------------------------------------------------------ memory


def resident_bytes() -> int:
    """What this process holds in memory now."""
    return host_memory("VmRSS") or 0


def peak_bytes() -> int:
    """The most it ever held; `ru_maxrss` would include the process that started this one."""
    return host_memory() or 0


def give_back() -> None:
    """Return what was freed to the system, or later needs would hide in it."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def probe(context: Context, name: str, *arguments: object) -> dict[str, Any]:
    """Run one function of `benchmarks/_probe.py` in a process of its own; what it found."""
    words = [name, context.device, "quick" if context.quick else "full", *map(str, arguments)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks._probe", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise RuntimeError(f"probe {name} failed: {last[0]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
