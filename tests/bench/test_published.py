"""Printed figures stand beside the rows they belong to, and beside no others."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import pytest

from viewgap import methods
from viewgap.bench.analyse.published import ABLATIONS, published_figures, published_for
from viewgap.bench.analyse.summary import summarise
from viewgap.bench.results.record import Record
from viewgap.bench.show.contents import metrics_table
from viewgap.bench.show.tables import to_csv, to_latex, to_markdown, to_rich, to_text
from viewgap.errors import InputError
from viewgap.metrics import SIX

Make = Callable[..., Record]
PROTOCOL = {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7, "params": {}}


def paper(make: Make, value: float = 0.5, **changes: Any) -> Record:
    fields = {"dataset": "corel5k", "method": "scsd", "profile": "paper", "settings": PROTOCOL}
    return make(value, **{**fields, **changes})


def test_the_packaged_file_is_whole() -> None:
    figures = published_figures()
    table = {place: found for place, found in figures.items() if not place[2]}
    assert len(table) == 5 * 9
    assert all(tuple(sorted(found)) == tuple(sorted(SIX)) for found in table.values())
    assert {method for _, method, _ in figures} <= set(methods.names())
    ablations = {place: found for place, found in figures.items() if place[2]}
    assert {place[2] for place in ablations} == set(ABLATIONS)
    assert len(ablations) == 2 * 6
    assert all(set(found) == {"AP", "1-RL", "AUC"} for found in ablations.values())
    assert all(0 < f.mean < 1 for found in figures.values() for f in found.values())


def test_every_ablation_is_a_setting_of_scsd() -> None:
    from viewgap.methods.scsd.settings import SCSDSettings

    for name, value in ABLATIONS.values():
        assert getattr(SCSDSettings(), name) != value


def test_single_figures_are_the_printed_ones() -> None:
    figures = published_figures()
    assert figures["corel5k", "imvwl", ""]["AP"].mean == 0.283
    assert figures["corel5k", "scsd", ""]["1-OE"].std == 0.018
    assert figures["pascal07", "scsd", "VQ"]["AUC"].mean == 0.860
    assert figures["pascal07", "scsd", "VQ"]["AUC"].std is None


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, 0.447),
        ({"method": "naim3l"}, 0.309),
        ({"dataset": "pascal07"}, 0.578),
        ({"profile": "default"}, None),
        ({"method": "aimnet"}, None),
        ({"dataset": "emotions"}, None),
        ({"settings": {**PROTOCOL, "view_rate": 0.3}}, None),
        ({"settings": {**PROTOCOL, "train_share": 0.5}}, None),
        ({"settings": {**PROTOCOL, "test_view_rate": 0.7}}, None),
        ({"settings": {**PROTOCOL, "validation": "none"}}, None),
        ({"settings": {**PROTOCOL, "params": {"features": "auto"}}}, None),
        ({"settings": {**PROTOCOL, "params": {"quantise": False}}}, 0.430),
        ({"settings": {**PROTOCOL, "params": {"fusion": "mean"}}}, 0.445),
        ({"settings": {**PROTOCOL, "params": {"quantise": False, "teacher": False}}}, None),
    ],
)
def test_a_row_finds_its_own_figure(
    make_record: Make, changes: dict[str, Any], found: float | None
) -> None:
    (row,) = summarise([paper(make_record, **changes)])
    figures = published_for(row)
    assert (figures["AP"].mean if figures else None) == found


def test_rows_that_vary_a_parameter_have_no_printed_figure(make_record: Make) -> None:
    records = [
        paper(make_record, settings={**PROTOCOL, "params": {"alpha": alpha}}) for alpha in (1, 2)
    ]
    assert not any(map(published_for, summarise(records)))


def test_prepared_features_beside_the_published_model_leave_it_its_figure(
    make_record: Make,
) -> None:
    prepared = {**PROTOCOL, "params": {"features": "auto"}}
    first, second = summarise([paper(make_record), paper(make_record, settings=prepared)])
    assert published_for(first)["AP"].mean == 0.447
    assert not published_for(second)


def test_ablations_beside_the_full_model_keep_their_figures(make_record: Make) -> None:
    cut = {**PROTOCOL, "params": {"cross_view": False}}
    rows = summarise([paper(make_record), paper(make_record, settings=cut)])
    assert [published_for(row)["AP"].mean for row in rows] == [0.447, 0.442]


def test_the_difference_is_measured_minus_printed_in_every_format(make_record: Make) -> None:
    rows = summarise([paper(make_record, 0.4496), paper(make_record, method="aimnet")])
    assert [line.published for line in metrics_table(rows, published=True).lines] == [
        False,
        True,
        False,
    ]
    assert "| corel5k | published | 0.447 (+0.003) | 0.988 (-0.538) |" in to_markdown(
        metrics_table(rows, True)
    )
    assert "0.447 (+0.003)" in to_text(metrics_table(rows, True))
    assert r"published & 0.447 ($+0.003$) & 0.988 ($-0.538$)" in to_latex(metrics_table(rows, True))
    first, second = csv.DictReader(to_csv(metrics_table(rows, True)).splitlines())
    assert (first["AP_published"], first["AP_published_std"]) == ("0.447", "0.01")
    assert float(first["AP_difference"]) == pytest.approx(0.0026)
    assert second["AP_published"] == second["AP_difference"] == ""


def test_what_an_ablation_does_not_print_is_a_hole(make_record: Make) -> None:
    rows = summarise([paper(make_record, settings={**PROTOCOL, "params": {"quantise": False}})])
    line = to_markdown(metrics_table(rows, True)).splitlines()[3]
    assert line.count("–") == 3


def test_without_being_asked_nothing_published_is_shown(make_record: Make) -> None:
    rows = summarise([paper(make_record)])
    assert "published" not in to_markdown(metrics_table(rows)) + to_csv(
        metrics_table(rows)
    ) + to_latex(metrics_table(rows)) + to_text(metrics_table(rows))


def test_printed_figures_never_stand_beside_another_variant(make_record: Make) -> None:
    rows = summarise([paper(make_record, variant="clean")])
    with pytest.raises(InputError, match="'clean'"):
        metrics_table(rows, published=True)
    with pytest.raises(InputError, match="'clean'"):
        to_rich(metrics_table(rows, published=True))


def test_the_papers_average_ranks_follow_from_its_table() -> None:
    """Typing errors would show: ranks with ties at their best, as printed for Corel5k."""
    table = {m: f for (d, m, cut), f in published_figures().items() if d == "corel5k" and not cut}
    found = {
        method: sum(
            1 + sum(other[name].mean > own[name].mean for other in table.values()) for name in SIX
        )
        / 6
        for method, own in table.items()
    }
    printed = {"imvwl": 8.5, "naim3l": 6.667, "ddinet": 7.5, "dicnet": 6.333, "mtd": 4.167}
    printed |= {"sip": 3.333, "rank": 3.0, "drls": 1.833, "scsd": 1.0}
    assert found == pytest.approx(printed, abs=6e-4)
