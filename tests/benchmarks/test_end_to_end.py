"""The table of a whole fit: phases add up, and every one of them is found in the library."""

import json
from pathlib import Path

import pytest
from benchmarks.end_to_end import PHASES, PhaseClock

from benchmarks import end_to_end


def test_a_phase_inside_another_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 1.0, 3.0, 7.0, 15.0, 31.0])
    monkeypatch.setattr("benchmarks.end_to_end.time.perf_counter", lambda: next(ticks))
    clock = PhaseClock("cpu")
    inner = clock.timed(lambda: 5, "inner", first="first inner")
    with clock.phase("outer"):
        assert inner() == 5
    assert clock.seconds == {"outer": 2.0 + 8.0, "first inner": 4.0}
    assert clock.calls == {"outer": 1, "first inner": 1}


def test_a_run_counts_every_phase_and_keeps_them(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "seconds.json"
    words = ["--quick", "--device", "cpu", "--profiles", "default", "--out", str(out)]
    assert end_to_end.main(words) == 0
    kept = json.loads(out.read_text(encoding="utf-8"))
    (run,) = kept["runs"]
    assert kept["command"].endswith(" ".join(words))
    on_gpu_only = {"steps: recording"}
    expected = {name for _, _, name, _ in PHASES} | {"views", "checks", "scoring", "prediction"}
    assert expected - on_gpu_only <= set(run["seconds"])
    assert sum(run["seconds"].values()) <= run["total"] + 0.05
    assert run["epochs"] == 3
    assert "total" in capsys.readouterr().out
