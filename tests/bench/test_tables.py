from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from viewgap.bench.analyse.summary import summarise
from viewgap.bench.results.record import Record
from viewgap.bench.show.contents import metrics_table
from viewgap.bench.show.tables import to_csv, to_latex, to_markdown, to_rich, to_text

Make = Callable[..., Record]


def failure(**changes: Any) -> dict[str, Any]:
    settings = {"view_rate": 0.5, "params": {}}
    plain = {"dataset": "tiny", "method": "scsd", "profile": "default", "settings": settings}
    return {**plain, "fold": 1, **changes}


def test_mean_and_population_deviation(make_record: Make) -> None:
    values = [0.4, 0.5, 0.9]
    rows = summarise([make_record(v, fold=k) for k, v in enumerate(values)])
    assert len(rows) == 1
    assert rows[0].mean["AP"] == pytest.approx(0.6)
    assert rows[0].spread["AP"] == pytest.approx(np.std(values, ddof=0))
    assert "0.600 ± 0.216" in to_markdown(metrics_table(rows))


def test_one_fold_has_no_deviation(make_record: Make) -> None:
    assert "±" not in to_markdown(metrics_table(summarise([make_record()])))


def test_best_is_bold_per_data_set_and_equals_share_it(make_record: Make) -> None:
    records = [
        make_record(0.5, method="late_fusion_ridge"),
        make_record(0.70001, method="scsd"),
        make_record(0.69999, method="random_forest"),
        make_record(0.1, method="scsd", dataset="other"),
    ]
    lines = to_markdown(metrics_table(summarise(records))).splitlines()[2:6]
    assert ["**" in line for line in lines] == [False, True, True, True]


def test_profiles_and_settings_are_never_mixed(make_record: Make) -> None:
    other = {"view_rate": 0.3, "params": {"alpha": 2.0}}
    records = [
        make_record(0.2, method="scsd", profile="paper"),
        make_record(0.4, method="scsd"),
        make_record(0.6, method="scsd", settings=other),
    ]
    found = [(row.heading, row.title) for row in summarise(records)]
    assert found == [
        ("tiny, view_rate=0.5", "scsd (paper)"),
        ("tiny, view_rate=0.5", "scsd"),
        ("tiny, view_rate=0.3", "scsd [alpha=2.0]"),
    ]


def test_a_failure_is_a_hole_and_not_a_zero(make_record: Make) -> None:
    rows = summarise(
        [make_record(0.5, method="scsd")], [failure(), failure(method="random_forest")]
    )
    lines = to_markdown(metrics_table(rows)).splitlines()[2:]
    assert lines[0].endswith("| 1.0 | 1 of 2 |")
    assert lines[1].count("–") == 8
    assert "0.000" not in lines[1]


def test_terminal_table_shows_text_as_it_is(make_record: Make) -> None:
    records = [make_record(0.5, dataset="[red]x", fold=k) for k in range(2)]
    records += [make_record(0.5, dataset="b")]
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(to_rich(metrics_table(summarise(records), "title")))
    text = console.export_text()
    assert "[red]x" in text
    assert "0.500 ± 0.000" in text


def test_markdown_escapes_names(make_record: Make) -> None:
    text = to_markdown(metrics_table(summarise([make_record(dataset="a|b<script>")])))
    assert "a\\|b&lt;script>" in text


NASTY = '=cmd|"x"<script>&_{50%}$a$^~\\#[*'


def test_second_best_is_underlined_and_a_tie_at_the_top_leaves_it_to_the_next(
    make_record: Make,
) -> None:
    records = [
        make_record(value, method=method)
        for value, method in ((0.7, "scsd"), (0.7, "mtd"), (0.6, "sip"), (0.5, "rank"))
    ]
    rows = summarise(records)
    lines = to_markdown(metrics_table(rows)).splitlines()[2:6]
    assert [line.count("**0.700**") for line in lines] == [6, 6, 0, 0]
    assert [line.count("<u>0.600</u>") for line in lines] == [0, 0, 6, 0]
    assert "**1.50**" in lines[0]
    assert "<u>3.00</u>" in lines[2]
    latex = to_latex(metrics_table(rows))
    assert latex.count(r"\textbf{0.700}") == 12
    assert latex.count(r"\underline{0.600}") == 6
    console = Console(width=160, force_terminal=True, file=io.StringIO())
    with console.capture() as captured:
        console.print(to_rich(metrics_table(rows)))
    assert "\x1b[1m" in captured.get()
    assert "\x1b[4m" in captured.get()


def test_one_row_has_no_second(make_record: Make) -> None:
    assert "<u>" not in to_markdown(metrics_table(summarise([make_record()])))


def test_csv_has_plain_numbers_and_empty_holes(make_record: Make) -> None:
    records = [make_record(v, method="scsd", fold=k) for k, v in enumerate((0.4, 0.6))]
    text = to_csv(
        metrics_table(summarise([*records, make_record(method="mtd")], [failure(method="sip")]))
    )
    first, single, hole = csv.DictReader(text.splitlines())
    assert float(first["AP_mean"]) == pytest.approx(0.5)
    assert float(first["AP_std"]) == pytest.approx(0.1)
    assert (first["variant"], first["direction"], first["folds"]) == ("field", "higher", "2")
    assert single["AP_std"] == ""  # one fold has no deviation
    assert (hole["AP_mean"], hole["average_rank"], hole["failed"]) == ("", "", "1")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", " ="])
def test_csv_text_is_never_a_formula(make_record: Make, start: str) -> None:
    text = to_csv(metrics_table(summarise([make_record(dataset=f"{start}cmd")])))
    (row,) = csv.DictReader(text.splitlines())
    assert row["dataset"].startswith("'")


def test_reconstructions_are_marked_in_every_format(make_record: Make) -> None:
    rows = summarise([make_record(method="drls"), make_record(method="scsd")])
    assert "| drls† |" in to_markdown(metrics_table(rows))
    assert "† reconstruction" in to_markdown(metrics_table(rows))
    assert r"drls\textsuperscript{\dag} &" in to_latex(metrics_table(rows))
    assert r"\textsuperscript{\dag} reconstruction" in to_latex(metrics_table(rows))
    marks = [
        row["reconstruction"] for row in csv.DictReader(to_csv(metrics_table(rows)).splitlines())
    ]
    assert marks == ["yes", "no"]
    assert "† reconstruction" in to_text(metrics_table(rows))


def test_latex_escapes_every_special(make_record: Make) -> None:
    text = to_latex(
        metrics_table(summarise([make_record(dataset=NASTY), make_record(dataset="b")]))
    )
    line = next(line for line in text.splitlines() if "cmd" in line)
    name = line.partition(" & label")[0]
    for command in re.findall(r"\\[a-z]+\{(?:34)?\}|\\[&%$#_{}]|\{\[\}|\{\*\}", name):
        name = name.replace(command, "", 1)
    assert not set(name) & set("\\&%$#_{}^~<>|[*")
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_latex_is_booktabs_with_a_rule_between_data_sets(make_record: Make) -> None:
    text = to_latex(metrics_table(summarise([make_record(dataset="a"), make_record(dataset="b")])))
    rules = re.findall(r"\\(\w+rule)", text)
    assert rules == ["toprule", "midrule", "midrule", "bottomrule"]
    rows = [line for line in text.splitlines() if line.startswith(("a &", "b &"))]
    assert all(row.count("&") == 10 and row.endswith(r"\\") for row in rows)


def test_latex_fits_the_line_and_keeps_notes_out_of_the_columns(make_record: Make) -> None:
    records = [make_record(0.5 + 0.1 * fold, method="drls", fold=fold) for fold in range(2)]
    text = to_latex(metrics_table(summarise(records)))
    assert r"\textbf{0.550}$_{\pm 0.050}$" in text
    assert r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%" in text
    table, _, below = text.partition(r"\end{tabular}")
    assert "reconstruction" not in table
    assert r"\textsuperscript{\dag} reconstruction" in below
    assert "data set &" not in table  # one data set: its name is the caption's
    assert r"\textquotedbl" not in to_latex(metrics_table(summarise([make_record(profile='a"b')])))
    for opening, closing in (("{", "}"), ("begin", "end"), ("begingroup", "endgroup")):
        assert text.count(opening) == text.count(closing)


def test_markdown_keeps_every_name_in_its_cell(make_record: Make) -> None:
    text = to_markdown(metrics_table(summarise([make_record(dataset=NASTY + "\n| x | [a](b)")])))
    line = text.splitlines()[2]
    assert len(re.findall(r"(?<!\\)\|", line)) == 12
    assert "<script" not in line
    assert "](" not in line


def test_a_terminal_never_gets_control_characters(make_record: Make) -> None:
    rows = summarise([make_record(dataset="a\x1b[2Jb"), make_record(dataset="c")])
    assert "\x1b" not in to_text(metrics_table(rows))
    assert "\x1b" not in to_markdown(metrics_table(rows)) + to_csv(metrics_table(rows)) + to_latex(
        metrics_table(rows)
    )


def test_no_number_is_cut_at_the_width_of_a_pipe(make_record: Make) -> None:
    long = {"view_rate": 0.5, "params": {"a_very_long_name_of_a_parameter": 0.123456789}}
    records = [make_record(0.5, method="scsd", fold=k, settings=long) for k in range(2)]
    records += [make_record(0.5, method="scsd", fold=k) for k in range(2)]
    records += [make_record(0.5, dataset="another_long_name")]
    assert to_text(metrics_table(summarise(records))).count("0.500 ± 0.000") == 12
