"""`python -m benchmarks.anywhere`: which processors it stands for, and when a bar is too near."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import anywhere


def lines(*figures: float, bar: float = 0.5, side: str = "above") -> list[str]:
    entry = {"test": "tests/test_x.py::test_y", "name": "AP", "side": side, "bar": bar}
    return [json.dumps(entry | {"figure": figure}) for figure in figures]


def test_the_worst_figure_is_measured_in_standard_deviations() -> None:
    (above,) = anywhere.summarise(lines(0.7, 0.9))
    assert (above["worst"], above["runs"]) == (0.7, 2)
    assert above["spread"] == pytest.approx(0.1)
    assert above["margin_in_spreads"] == pytest.approx(2.0)
    (below,) = anywhere.summarise(lines(0.1, 0.3, bar=0.8, side="below"))
    assert (below["worst"], below["margin_in_spreads"]) == (0.3, pytest.approx(5.0))


def test_the_nearest_bar_comes_first_and_figures_that_never_move_last() -> None:
    table = anywhere.summarise([*lines(1, 1), *lines(0.6, 0.9, bar=0.2), *lines(0.6, 0.9)])
    assert [entry["bar"] for entry in table[:2]] == [0.5, 0.2]
    (fixed,) = anywhere.summarise(lines(1, 1))
    assert fixed["margin_in_spreads"] is None


@pytest.mark.parametrize(
    ("figures", "failures", "good"),
    [
        ((0.9, 0.91, 0.92), [], True),
        ((0.9, 0.9, 0.9), [], True),
        ((0.6, 0.8, 0.9), [], False),
        ((0.4, 0.4, 0.4), ["FAILED tests/test_x.py::test_y"], False),
        ((0.6, 0.9), [], True),  # two runs tell little about a spread
    ],
)
def test_failures_and_near_bars_are_refused(figures: Any, failures: Any, good: bool) -> None:
    assert anywhere.is_good([{"failures": failures}], anywhere.summarise(lines(*figures))) is good


def test_a_processor_runs_what_it_has_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, wanted in [("AVX512", 3), ("AVX2", 2), ("DEFAULT", 1), ("SVE256", 1)]:
        monkeypatch.setattr(
            anywhere.torch.backends.cpu, "get_cpu_capability", lambda name=name: name
        )
        assert anywhere.supported() == list(anywhere.SETTINGS)[:wanted]


def test_numpy_is_told_which_instructions_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"SIMD Extensions": {"found": ["X86_V3", "X86_V4", "AVX512_ICL"]}}
    monkeypatch.setattr(anywhere.np, "show_config", lambda mode: found)
    names = [anywhere.environment(setting, 2) for setting in ("default", "avx2", "avx512")]
    features = [each.get("NPY_DISABLE_CPU_FEATURES") for each in names]
    assert features == ["X86_V3 X86_V4 AVX512_ICL", "X86_V4 AVX512_ICL", None]
    assert all(each["OMP_NUM_THREADS"] == "2" for each in names)


def test_a_setting_that_the_processor_lacks_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_tests(setting: str, threads: int, seed: int, marker: str, *_: Any) -> dict[str, Any]:
        count = dict.fromkeys(("passed", "failed", "errors", "skipped", "seconds"), 0)
        named = {"setting": setting, "threads": threads, "seed": seed, "tests": marker}
        return named | count | {"failures": []}

    monkeypatch.setattr(anywhere, "run_tests", run_tests)
    monkeypatch.setattr(anywhere, "supported", lambda: ["default", "avx2"])
    out = tmp_path / "new" / "anywhere.json"
    assert anywhere.main(["--out", str(out), "--seeds", "2"]) == 0
    assert "avx512: left out" in capsys.readouterr().out
    kept = json.loads(out.read_text(encoding="utf-8"))
    assert [(r["setting"], r["threads"], r["seed"], r["tests"]) for r in kept["runs"]] == [
        (setting, threads, seed, "learning" if seed else "numeric")
        for setting in ("default", "avx2")
        for threads in (1, 2)
        for seed in (0, 1)
    ]
    assert kept["command"].endswith("--settings default avx2 avx512 --threads 1 2 --seeds 2")


def test_kept_figures_are_of_tests_that_are_there() -> None:
    figures = json.loads(anywhere.OUT.read_text(encoding="utf-8"))["figures"]
    assert figures
    assert [entry["test"] for entry in figures if not anywhere.is_there(entry["test"])] == []


def test_which_tests_are_there() -> None:
    own = "tests/benchmarks/test_anywhere.py"
    assert anywhere.is_there(f"{own}::test_which_tests_are_there")
    assert anywhere.is_there(f"{own}::test_which_tests_are_there[case]")
    assert not anywhere.is_there(f"{own}::test_which_tests_are")
    assert not anywhere.is_there("tests/test_gone.py::test_which_tests_are_there")


def test_runs_of_some_tests_replace_their_figures_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anywhere, "is_there", lambda test: test != "gone")

    def save(expression: str | None, margin: float, *tests: str) -> None:
        options = anywhere.parse(["--out", str(tmp_path / "kept.json")])
        options.only = expression
        kept = json.loads(options.out.read_text()) if expression else None
        figures = [{"test": test, "margin_in_spreads": margin} for test in tests]
        anywhere.save([{"seed": 0}], figures, options, kept)

    save(None, 7.0, "a", "b", "gone")
    save("b or c", 9.0, "b", "c")
    found = json.loads((tmp_path / "kept.json").read_text())
    margins = [(entry["test"], entry["margin_in_spreads"]) for entry in found["figures"]]
    assert margins == [("a", 7.0), ("b", 9.0), ("c", 9.0)]
    assert len(found["runs"]) == 2
    assert found["command"].endswith("--only 'b or c'")
