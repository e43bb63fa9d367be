"""Figures: chosen by what varies, valid, escaped, and the same bytes every time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from viewgap.bench.results.record import Record
from viewgap.bench.show.charts import _best_entries
from viewgap.bench.show.figures import draw
from viewgap.errors import InputError, RunError, SettingError, ViewgapWarning

pytest.importorskip("matplotlib")

Make = Callable[..., Record]
pytestmark = pytest.mark.slow
SVG = "{http://www.w3.org/2000/svg}"
BASE = {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7, "params": {}}


def runs(
    make: Make, settings: Iterable[dict[str, Any]], methods: Iterable[str] = ("scsd",)
) -> list[Record]:
    """Three folds of every method under every setting, all values different."""
    return [
        make(
            0.5 + 0.02 * place - 0.03 * number + 0.003 * fold,
            method=method,
            fold=fold,
            settings={**BASE, **setting},
        )
        for number, method in enumerate(methods)
        for place, setting in enumerate(settings)
        for fold in range(3)
    ]


def words(path: Path) -> str:
    """All text of an SVG, which must be well-formed."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    return "\n".join("".join(node.itertext()) for node in root.iter(f"{SVG}text"))


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths if path.suffix == ".svg"]


def test_methods_side_by_side_and_their_ranks(make_record: Make, tmp_path: Path) -> None:
    paths = draw(runs(make_record, [{}], ("scsd", "drls", "sip")), tmp_path / "new" / "folder")
    assert names(paths) == ["tiny_methods.svg", "tiny_cost.svg", "ranks_AP.svg"]
    for path in paths:
        assert path.exists()
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
    for path in paths[::2]:
        text = words(path)
        assert all(name in text for name in ("scsd", "drls†", "sip", "† reconstruction"))
    assert "1-Cov" in words(paths[0])
    assert "critical difference" in words(paths[4])


def test_complete_data_gets_a_radar(make_record: Make, tmp_path: Path) -> None:
    complete = {"view_rate": 0.0, "label_rate": 0.0}
    paths = draw(runs(make_record, [complete], ("scsd", "mtd")), tmp_path)
    assert names(paths) == ["tiny_methods.svg", "tiny_radar.svg", "tiny_cost.svg"]
    text = words(tmp_path / "tiny_radar.svg")
    assert "mtd" in text
    assert "0.473 to 0.503" in text
    assert "fold" not in text


def test_a_radar_says_where_means_are_over_unequal_folds(make_record: Make, tmp_path: Path) -> None:
    records = runs(make_record, [{"view_rate": 0.0, "label_rate": 0.0}], ("scsd", "mtd"))
    few = [record for record in records if (record.method, record.fold) != ("mtd", 0)]
    assert len(few) == len(records) - 1
    draw(few, tmp_path, "radar")
    text = words(tmp_path / "tiny_radar.svg")
    assert "scsd, 3 folds" in text
    assert "mtd, 2 folds" in text


@pytest.mark.parametrize(
    ("key", "values", "shown"),
    [
        ("view_rate", (0.1, 0.3, 0.7), ("missing views", "70 %")),
        ("label_rate", (0.1, 0.3), ("missing labels", "30 %")),
        ("train_share", (0.1, 0.7), ("training share", "10 %")),
    ],
)
def test_one_varied_rate_is_a_curve(
    make_record: Make, tmp_path: Path, key: str, values: Any, shown: Any
) -> None:
    records = runs(make_record, [{key: value} for value in values], ("scsd", "mtd"))
    assert names(draw(records, tmp_path)) == [f"tiny_{key}.svg"]
    text = words(tmp_path / f"tiny_{key}.svg")
    assert all(word in text for word in (*shown, "AP", "AUC", "scsd", "mtd"))


@pytest.mark.parametrize("key", ["temperature", "codebook_size", "code_dim"])
def test_one_varied_parameter_of_one_method_has_two_axes(
    make_record: Make, tmp_path: Path, key: str
) -> None:
    records = runs(make_record, [{"params": {key: value}} for value in (1, 8, 64)])
    assert names(draw(records, tmp_path)) == [f"tiny_{key}.svg"]
    text = words(tmp_path / f"tiny_{key}.svg")
    assert {"AP", "AUC", "1", "8", "64"} <= set(text.split("\n"))


def test_what_else_varies_makes_lines_of_their_own(make_record: Make, tmp_path: Path) -> None:
    settings = [
        {"view_rate": rate, "params": {"quantise": flag}}
        for rate in (0.1, 0.5)
        for flag in (True, False)
    ]
    draw(runs(make_record, settings), tmp_path)
    text = words(tmp_path / "tiny_view_rate.svg")
    assert "scsd [quantise=true]" in text
    assert "scsd [quantise=false]" in text


def test_two_varied_parameters_are_a_map_with_holes(make_record: Make, tmp_path: Path) -> None:
    settings = [
        {"params": {"alpha": alpha, "distill_weight": weight}}
        for alpha in (0.1, 1.0, 10.0)
        for weight in (0.1, 0.5)
    ]
    paths = draw(runs(make_record, settings[:-1]), tmp_path)
    assert names(paths) == ["tiny_scsd_default_alpha_distill_weight_AP.svg"]
    text = words(paths[0])
    assert all(word in text for word in ("α", "λ", "0.503", "0.583", "–"))
    assert "*" not in text


def test_entries_of_a_map_with_fewer_folds_have_a_star(make_record: Make, tmp_path: Path) -> None:
    settings = [{"view_rate": a, "label_rate": b} for a in (0.1, 0.5) for b in (0.1, 0.5)]
    records = runs(make_record, settings)
    lacking = [r for r in records if r.fold == 0 or r.settings != records[-1].settings]
    assert len(lacking) < len(records)
    path, *_ = draw(lacking, tmp_path)
    text = words(path)
    assert "; * fewer than 3 folds" in text
    assert text.count("*") == 2


def test_the_rate_at_test_is_that_of_training_unless_given(
    make_record: Make, tmp_path: Path
) -> None:
    settings = [{"view_rate": 0.3}, {"view_rate": 0.3, "test_view_rate": 0.7}]
    assert names(draw(runs(make_record, settings), tmp_path)) == ["tiny_test_view_rate.svg"]
    assert {"30 %", "70 %"} <= set(words(tmp_path / "tiny_test_view_rate.svg").split("\n"))


def test_switches_are_rows_not_numbers(make_record: Make, tmp_path: Path) -> None:
    settings = [{}, {"params": {"quantise": False}}, {"params": {"fusion": "mean"}}]
    assert names(draw(runs(make_record, settings), tmp_path)) == ["tiny_methods.svg"]
    assert 'scsd [fusion="mean"]' in words(tmp_path / "tiny_methods.svg")


THREE = ("scsd", "mtd", "sip")
CONDITIONS = [{"view_rate": 0.1}, {"view_rate": 0.5}]


@pytest.mark.parametrize(("kind", "name"), [("bars", "methods"), ("radar", "radar")])
def test_methods_side_by_side_are_of_one_condition(
    make_record: Make, tmp_path: Path, kind: str, name: str
) -> None:
    paths = draw(runs(make_record, CONDITIONS, THREE), tmp_path, kind)
    assert names(paths) == [f"tiny_view_rate_0_1_{name}.svg", f"tiny_view_rate_0_5_{name}.svg"]
    for path, rate in zip(paths[::2], ("0.1", "0.5"), strict=True):
        text = words(path)
        assert f"tiny, view_rate={rate}: " in text
        assert "[view_rate" not in text


def test_ranks_are_drawn_by_condition_and_say_what_the_blocks_are(
    make_record: Make, tmp_path: Path
) -> None:
    paths = draw(runs(make_record, CONDITIONS, THREE), tmp_path)
    expected = ["ranks_AP_tiny_view_rate_0_1.svg", "ranks_AP_tiny_view_rate_0_5.svg"]
    assert names(paths) == ["tiny_view_rate.svg", *expected]
    text = words(tmp_path / expected[0]).replace("\n", " ")
    assert "Average rank in AP over 3 folds of tiny, view_rate=0.1" in text
    assert "[view_rate" not in text


def test_ranks_over_data_sets_say_so(make_record: Make, tmp_path: Path) -> None:
    records = [
        make_record(0.5 + 0.1 * place, method=method, dataset=dataset)
        for place, method in enumerate(THREE)
        for dataset in "abc"
    ]
    draw(records, tmp_path, "ranks")
    assert "Average rank in AP over 3 data sets" in words(tmp_path / "ranks_AP.svg")


def test_a_condition_too_small_for_ranks_is_told(make_record: Make, tmp_path: Path) -> None:
    records = runs(make_record, CONDITIONS[:1], THREE) + runs(make_record, CONDITIONS[1:])
    with pytest.warns(ViewgapWarning, match="no ranks on tiny, view_rate=0.5: ranks need"):
        paths = draw(records, tmp_path, "ranks")
    assert names(paths) == ["ranks_AP.svg"]


def test_three_varied_rates_are_compared_by_condition(make_record: Make, tmp_path: Path) -> None:
    settings = [
        {"view_rate": a, "label_rate": b, "train_share": c}
        for a, b, c in ((0.1, 0.1, 0.1), (0.0, 0.0, 0.7))
    ]
    found = names(draw(runs(make_record, settings, ("scsd", "mtd")), tmp_path))
    complete = "tiny_label_rate_0_0_train_share_0_7_view_rate_0_0_radar.svg"
    assert found == ["tiny_conditions_AP.svg", complete]
    panels = words(tmp_path / found[0])
    assert "label_rate=0.1, train_share=0.1, view_rate=0.1" in panels
    assert "label_rate=0.0, train_share=0.7, view_rate=0.0" in panels


def test_settings_of_one_method_have_a_map_for_every_condition(
    make_record: Make, tmp_path: Path
) -> None:
    records = [
        make_record(
            0.4 + rate / 10 + alpha / 100,
            method="scsd",
            settings={**BASE, "view_rate": rate, "params": {"alpha": alpha, "tau": tau}},
        )
        for rate in (0.3, 0.6)
        for alpha in (0.1, 1.0)
        for tau in (1.0, 5.0)
    ]
    records += [
        make_record(0.3, method="mtd", settings={**BASE, "view_rate": rate}) for rate in (0.3, 0.6)
    ]
    found = names(draw(records, tmp_path))
    assert found == ["tiny_view_rate.svg", "tiny_scsd_default_alpha_tau_AP.svg"]
    shown = words(tmp_path / found[1])
    for text in ("view_rate=0.3", "view_rate=0.6", "0.431", "0.440", "0.461", "0.470"):
        assert text in shown


@pytest.mark.parametrize(
    ("first", "second", "best"),
    [
        (False, False, [(1, 1)]),
        (True, False, [(0, 0), (1, 1)]),
        (False, True, [(0, 0), (1, 1)]),
        (True, True, []),
    ],
)
def test_the_best_of_a_map_is_never_a_condition(
    first: bool, second: bool, best: list[tuple[int, int]]
) -> None:
    means = np.array([[0.4, 0.2, np.nan], [0.1, 0.9, np.nan], [np.nan] * 3])
    assert _best_entries(means, first, second) == best


def test_use_of_the_codebook_where_records_keep_it(make_record: Make, tmp_path: Path) -> None:
    def history(fold: int) -> dict[str, Any]:
        return {"history": {"codebook_use": [0.2, 0.9, *[1.0] * (10 + fold)]}}

    records = [make_record(method="scsd", fold=f, provenance=history(f)) for f in range(2)]
    assert names(draw(records, tmp_path)) == ["tiny_methods.svg", "codebook.svg"]
    assert "tiny, scsd" in words(tmp_path / "codebook.svg")
    with pytest.raises(InputError, match="keeps the use"):
        draw([make_record()], tmp_path, "codebook")


def test_one_metric_only(make_record: Make, tmp_path: Path) -> None:
    records = runs(make_record, [{}], ("scsd", "mtd", "sip"))
    found = names(draw(records, tmp_path, metric="AUC"))
    assert found == ["tiny_methods.svg", "tiny_cost.svg", "ranks_AUC.svg"]
    for name in found[:2]:
        text = words(tmp_path / name).split("\n")
        assert "AUC" in text
        assert "AP" not in text


KINDS = [
    ("bars", [{}]),
    ("radar", [{}]),
    ("ranks", [{}]),
    ("curve", [{"view_rate": 0.1}, {"view_rate": 0.5}]),
    ("heatmap", [{"view_rate": a, "label_rate": b} for a in (0.1, 0.5) for b in (0.1, 0.5)]),
]


@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_the_same_records_give_the_same_bytes(
    make_record: Make, tmp_path: Path, kind: str, settings: Any
) -> None:
    records = runs(make_record, settings, ("scsd", "mtd", "sip"))
    first = draw(records, tmp_path / "first", kind)
    second = draw(records, tmp_path / "second", kind)
    assert [path.name for path in first] == [path.name for path in second]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    assert b"<dc:date>" not in first[0].read_bytes()


@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_names_are_text_whatever_they_contain(
    make_record: Make, tmp_path: Path, kind: str, settings: Any
) -> None:
    nasty = "</text><script>alert(1)</script>&$x_{$\x00\x1b"
    records = [
        make_record(0.5 + i / 100, dataset=nasty, method=m, profile=nasty, fold=f, settings=s)
        for i, s in enumerate(settings)
        for m in ("scsd", "mtd", "sip")
        for f in range(2)
    ]
    for path in draw(records, tmp_path, kind):
        assert path.parent == tmp_path
        if path.suffix == ".svg":
            assert "script>alert(1)" in words(path)
            assert b"<script" not in path.read_bytes()


def test_names_that_look_alike_as_files_do_not_overwrite_each_other(
    make_record: Make, tmp_path: Path
) -> None:
    records = [make_record(dataset=name) for name in ("a b", "a/b", "../a")]
    paths = draw(records, tmp_path)
    assert names(paths) == ["a_b_methods.svg", "a_b_methods_2.svg", "_a_methods.svg"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("curve", "needs one number that varies.*found none"),
        ("heatmap", "needs two numbers that vary"),
        ("radar", "compares rows"),
        ("ranks", "at least three methods"),
        ("calibration", "no record on tiny has figures of calibration"),
        ("labels", "no method with figures per label shares test rows"),
    ],
)
def test_a_kind_that_does_not_fit_says_why(
    make_record: Make, tmp_path: Path, kind: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        draw([make_record()], tmp_path, kind)


def test_wrong_requests_are_refused(make_record: Make, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="kind must be one of"):
        draw([make_record()], tmp_path, "pie")
    with pytest.raises(InputError, match="unknown metric"):
        draw([make_record()], tmp_path, metric="F1")
    with pytest.raises(InputError, match="no record"):
        draw([], tmp_path)
    with pytest.raises(InputError, match="variants"):
        draw([make_record(), make_record(variant="clean")], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="in the way"):
        draw([make_record()], tmp_path / "file")


def test_the_look_of_the_user_stays_his(make_record: Make, tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 33.0}):
        draw([make_record()], tmp_path)
        assert matplotlib.rcParams["font.size"] == 33.0
    assert "font: 33px" not in (tmp_path / "tiny_methods.svg").read_text()


def test_without_matplotlib_the_extra_is_named(
    make_record: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RunError, match=r"viewgap\[figures\]"):
        draw([make_record()], tmp_path)


def test_matplotlib_is_loaded_only_to_draw() -> None:
    code = "import sys, viewgap.bench.show.figures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
