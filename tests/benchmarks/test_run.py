"""`python -m benchmarks`: it measures, keeps what it measured, and survives what fails."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.record import Context, Figure, Measured

from benchmarks import __main__ as program
from benchmarks import data, figures_agreement, floor, record

IN_PROCESS = ["scsd", "fit_small_500", "fit_like", "predict", "fusion_2000_labels_step", "metrics"]


def entry(name: str, machine: str, value: float) -> dict[str, object]:
    figure = Figure(name, "ms", lambda _: Measured(1), {"cpu": 3.0}, {"cpu": 5.0})
    return figure.record(Measured(value, 12.0), Context("cpu"), machine, "2.0")


@pytest.mark.slow
def test_quick_run_measures_and_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "latest.json"
    arguments = ["--quick", "--device", "cpu", "--out", str(out), "--only"]
    assert program.main([*arguments, *IN_PROCESS]) == 0
    kept = json.loads(out.read_text(encoding="utf-8"))
    wanted = [f.name for f in program.choose(IN_PROCESS, "cpu")]
    assert sorted(e["name"] for e in kept) == sorted(wanted)
    printed = capsys.readouterr().out
    for found in kept:
        assert found["value"] > 0
        alone = found["name"].startswith("fit_like")
        assert alone or found["ratio_to_reference"] > 0
        assert "cores" in found["machine"]
        assert found["name"] in printed


@pytest.mark.slow
def test_memory_is_measured_in_another_process() -> None:
    found = program.figures_memory.measure_host_corel5k(Context("cpu", quick=True), "default")
    assert 0 < found.value < 2
    assert found.reference is not None


def test_a_failing_figure_does_not_cost_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Context) -> Measured:
        raise ValueError("no luck")

    figures = [Figure("bad", "ms", broken), Figure("good", "ms", lambda _: Measured(2.0))]
    monkeypatch.setattr(program, "FIGURES", figures)
    assert program.main(["--device", "cpu", "--out", str(tmp_path / "o.json")]) == 1
    assert "bad: failed, ValueError: no luck" in capsys.readouterr().out
    assert [e["name"] for e in record.load(tmp_path / "o.json")] == ["good"]


def test_quick_keeps_nothing_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(record, "LATEST", tmp_path / "latest.json")
    assert program.main(["--quick", "--device", "cpu", "--only", "metrics"]) == 0
    assert not (tmp_path / "latest.json").exists()


def test_unknown_name_is_refused() -> None:
    with pytest.raises(SystemExit, match="no figure is named nonsense"):
        program.main(["--only", "nonsense"])


def test_merge_replaces_by_name_and_machine() -> None:
    old = [entry("a", "x", 1.0), entry("a", "y", 2.0), entry("b", "x", 3.0)]
    merged = record.merge(old, [entry("a", "x", 9.0)], ["b", "a"])
    found = [(e["machine"], e["name"], e["value"]) for e in merged]
    assert found == [("x", "b", 3.0), ("x", "a", 9.0), ("y", "a", 2.0)]


def test_targets_are_judged() -> None:
    fast, slow = entry("a", "x", 2.0), entry("a", "x", 3.0)
    assert fast["ratio_to_reference"] == 6.0
    assert fast["target"] == "≤ 3 ms, ≥ 5 times as fast"
    assert (fast["met"], slow["met"]) == (True, False)
    rate = Figure("r", "rows/s", lambda _: Measured(1), {"cpu": 10.0})
    found = rate.record(Measured(8.0, 4.0), Context("cpu"), "x", "2.0")
    assert (found["met"], found["ratio_to_reference"]) == (False, 2.0)
    memory = Figure("m", "GB", lambda _: Measured(1), target_ratio={"cpu": 1.3})
    found = memory.record(Measured(2.4, 2.0), Context("cpu"), "x", "2.0")
    assert (found["met"], found["ratio_to_reference"]) == (True, 1.2)


def test_floor_is_the_arithmetic_of_the_step() -> None:
    one = floor.settings_of("bare_network")
    assert floor.work(one, 1.0, 1.0).operations == pytest.approx(247e9, rel=0.01)
    assert floor.work(one, *floor.shares(one)).operations == pytest.approx(56e9, rel=0.01)
    paper = floor.settings_of("paper")
    assert floor.work(paper, *floor.shares(paper)).operations == pytest.approx(123e9, rel=0.01)
    steps = [entry("scsd_step_paper", "NVIDIA H200", 2.0), entry("other", "NVIDIA H200", 2.0)]
    assert floor.as_markdown(steps).count("scsd_step_paper") == 1
    assert "other" not in floor.as_markdown(steps)


def test_floor_of_the_default_is_five_networks_on_four_fifths_of_the_rows() -> None:
    five, one = floor.settings_of("default"), floor.settings_of("bare_network")
    rows = 3500 * 4 / 5 / 11  # an epoch has 11 steps
    assert floor.rows_per_step(five) == pytest.approx(rows)
    assert floor.weights(five).encoders == floor.weights(one).encoders
    assert floor.weights(five).decoders == 512 * 13_900  # one layer for all columns
    shown, pairs = floor.shares(five)
    assert (shown, 6 * pairs) == pytest.approx((0.35, 0.5))  # an observed view has one pair
    found = floor.work(five, shown, pairs)
    encoded = 0.35 * (floor.weights(one).encoders + 6 * 512 * 260)
    assert found.operations == pytest.approx(5 * 6 * rows * (encoded + 0.5 * 512 * 13_900))
    assert found.bytes == pytest.approx(5 * 4 * 13 * sum(floor.weights(five)))


def test_a_figure_of_an_earlier_model_says_so_and_has_no_floor() -> None:
    noted = entry("scsd_step_default", "NVIDIA H200", 2.0) | {"note": "earlier default"}
    assert record.cells(noted)[0] == "scsd_step_default (earlier default)"
    assert "scsd_step_default" not in floor.as_markdown([noted])
    again = record.merge([noted], [entry("scsd_step_default", "NVIDIA H200", 3.0)], [])
    assert "note" not in again[0]


@pytest.mark.slow
@pytest.mark.numeric
def test_agreement_runs_without_kernels_too() -> None:
    for name in ("paper", "bare_network"):
        found = figures_agreement.disagreement(Context("cpu", quick=True), name)
        assert found.keys() == {"losses", "gradients", "codes"}
        assert found["losses"] < 1e-5


def test_counts_are_sparse_and_have_gaps() -> None:
    views, Y = data.learnable_counts(data.Shape(50, (300, 200), 6))
    assert all(views.is_sparse(name) for name in views.names)
    assert views.dims == (300, 200)
    assert not views.observed.all()
    assert np.isnan(Y).any()


def test_readme_shows_the_kept_figures() -> None:
    """If this fails: python -m benchmarks --write-readme."""
    text = record.README.read_text(encoding="utf-8")
    assert "<!-- bench -->" in text
    assert program.with_tables(text, record.load()) == text


def test_tables_stand_between_their_markers() -> None:
    text = "a\n<!-- bench -->\nold\n<!-- /bench -->\nb"
    assert record.with_block(text, "bench", "| t |") == (
        "a\n<!-- bench -->\n| t |\n<!-- /bench -->\nb"
    )
    assert record.with_block("plain", "bench", "| t |") == "plain"
