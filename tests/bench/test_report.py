from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from viewgap.bench.analyse.summary import summarise
from viewgap.bench.results.record import Record
from viewgap.bench.show.inline_svg import inline_svg
from viewgap.bench.show.report import leaders, render_report
from viewgap.bench.show.report_sections import metadata, p_text, significance
from viewgap.bench.show.report_tables import part_tables, result_tables
from viewgap.cli.program import app
from viewgap.errors import InputError

pytest.importorskip("matplotlib")

Make = Callable[..., Record]
MakeRecords = Callable[[], list[Record]]


class Tags(HTMLParser):
    """Counts the elements of a page as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.found)


@pytest.fixture(scope="module")
def page(make_records: MakeRecords, failures: list[dict[str, Any]]) -> str:
    return render_report(make_records(), failures)


def part(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def test_all_parts_are_there(page: str) -> None:
    for name in ("results", "figures", "tests", "failures", "tasks", "provenance"):
        assert f'id="{name}"' in page
    assert "4 methods on 2 data sets: 18 tasks finished, 1 failed." in page


def test_texts_from_data_are_escaped(page: str) -> None:
    assert Tags(page).count("script") == 1
    assert page.count("<script") == 1
    assert "&lt;script&gt;" in page
    assert "document.title='broken'</script>" not in page


def test_a_title_is_escaped(make_result: Make) -> None:
    page = render_report([make_result()], title='<b id="x">&</b>')
    assert '<b id="x">' not in page
    assert "&lt;b id=&#34;x&#34;&gt;&amp;" in page


def test_nothing_comes_from_outside(page: str) -> None:
    for attribute in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert attribute.startswith(("data:", "#"))
    assert not re.findall(r"@import|https?://", page)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))


def test_the_same_records_give_the_same_bytes(
    page: str, make_records: MakeRecords, failures: list[dict[str, Any]]
) -> None:
    assert render_report(make_records(), failures) == page


def test_ids_are_unique_and_references_lead_somewhere(page: str) -> None:
    ids = [attributes["id"] for _, attributes in Tags(page).found if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = re.findall(r'(?:href="|url\()#([^")]+)', page)
    assert len(targets) > 100
    assert set(targets) <= set(ids)


def test_a_drawing_keeps_its_text_and_loses_its_page_wide_style() -> None:
    text = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="72pt" viewBox="0 0 72 36">'
        '<defs><style>*{fill: red}</style><path id="m"/></defs>'
        '<text clip-path="url(#m)">&lt;script&gt; id="m" url(#m)</text></svg>'
    )
    svg, width = inline_svg(text, "one-")
    assert width == 96
    assert "<style" not in svg
    assert '<path id="one-m"' in svg
    assert 'clip-path="url(#one-m)">&lt;script&gt; id="m" url(#m)<' in svg


def test_results_have_best_second_published_and_holes(page: str) -> None:
    table = part(page, "results").partition("<tbody>")[2].partition("</table>")[0]
    assert table.count("<b>") == 7
    assert table.count("<u>") == 7
    assert "drls† (paper)" in table
    assert 'class="is-published"' in table
    assert "0.447" in table  # what the paper prints
    assert "(+0.003)" in table
    hole = table.partition("mtd (paper)")[2].partition("</tr>")[0]
    assert hole.count("<td>–<") == 8
    assert "0 of 1" in hole


def test_other_variants_have_no_published_figures(make_result: Make) -> None:
    rows = summarise([make_result(method="scsd", variant="clean")])
    (table,) = result_tables(rows)
    assert not any(line.published for line in table.table.lines)


def with_details(make_result: Make, **changes: Any) -> list[Record]:
    """Two methods with everything a record may keep; `changes` are those of their records."""
    figures = {"macro AUC": 0.8, "macro F1": 0.3, "micro F1": 0.4, "calibration error": 0.05}
    labels = {"positives": [3, 50], "AP": [0.2, 0.6]}
    fields = {
        "details": {**figures, "labels": labels},
        "provenance": {"device": "<i>", "memory": {"host": 2e9, "host_of": "process"}},
    }
    return [make_result(method=name, **{**fields, **changes}) for name in ("scsd", "drls")]


def test_cost_calibration_and_labels_have_their_sections(
    make_result: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    drawn: list[str] = []
    save = Figure.savefig

    def remember(self: Figure, *args: Any, **options: Any) -> None:
        drawn.append(options["format"])
        save(self, *args, **options)

    monkeypatch.setattr(Figure, "savefig", remember)
    page = render_report(with_details(make_result))
    assert drawn == ["svg"] * 4  # a page holds no other form: none is drawn
    for name, shown in (
        ("cost", "≤ 2.00 GB"),
        ("calibration", "lower is better"),
        ("labels", "0 of 2"),
    ):
        section = part(page, name)
        assert f'href="#{name}"' in page
        assert section.count("<svg") == 1
        assert shown in section
    assert part(page, "figures").count("<svg") == 1
    assert "<i>" not in page
    assert "&lt;i&gt;" in part(page, "cost")


def test_parts_without_data_are_left_out(make_result: Make, failures: list[dict[str, Any]]) -> None:
    older = with_details(make_result, details={})
    found = part_tables(summarise(older), older)
    assert {name: len(tables) for name, tables in found.items()} == {
        "cost": 1,
        "calibration": 0,
        "labels": 0,
    }
    assert part_tables(summarise([], failures), [])["cost"] == []
    without_reference = with_details(make_result)[1:]
    found = part_tables(summarise(without_reference), without_reference)
    assert found["labels"] == []
    (own,) = found["calibration"]
    assert own.table.columns[0] == "calibration error"


def test_a_failure_is_told_with_its_error(page: str) -> None:
    told = part(page, "failures")
    assert "corel5k, mtd (paper), fold 2, seed 1" in told
    assert "RunError: no memory for &lt;script&gt;" in told
    assert "Traceback (most recent call last)" in told
    row = next(line for line in part(page, "tasks").splitlines() if "feedbeef" in line)
    assert 'class="failed"' in row
    assert row.count("<td>–</td>") == 8


def test_a_page_without_failures_has_no_such_part(make_result: Make) -> None:
    page = render_report([make_result()])
    assert 'id="failures"' not in page
    assert "none failed" in page
    assert page.count("<th scope") > 20


def test_only_failures_are_a_page_too(failures: list[dict[str, Any]]) -> None:
    page = render_report([], failures)
    assert "No figure: there is no record to draw." in page
    assert "0 tasks finished, 1 failed" in page


def test_nothing_is_no_page() -> None:
    with pytest.raises(InputError, match="no task to report"):
        render_report([])


def test_every_task_has_a_line(page: str, make_records: MakeRecords) -> None:
    tasks = part(page, "tasks")
    assert tasks.count("<tr") == 1 + 18 + 1
    for record in make_records():
        assert record.task in tasks


def test_the_tests_name_reference_and_verdict(make_records: MakeRecords) -> None:
    over_sets, table, _ = significance(make_records())
    assert over_sets.heading == "All data sets"
    assert "over the 2 data sets that all methods have (0 left out)" in over_sets.words[0]
    assert {line["says"] for line in over_sets.lines} == {"–"}
    assert "over the 3 folds of corel5k that all methods have (0 left out)" in table.words[0]
    says = {line["method"]: line["says"] for line in table.lines}
    assert says == {"scsd (paper)": "reference", "rank (paper)": "worse", "drls† (paper)": "worse"}
    assert table.lines[0]["rank"] == "1.00"
    assert "Friedman" in table.words[0]


def test_what_cannot_be_tested_is_said(make_result: Make) -> None:
    (table,) = significance([make_result()])
    assert table.lines == []
    assert table.words[0].startswith("No test of the ranks: ")
    assert table.words[1].startswith("No paired tests: no two methods share a fold")


def test_all_leaders_are_named(make_result: Make) -> None:
    rows = summarise([make_result(method="mtd"), make_result(method="sip"), make_result(0.4)])
    ((dataset, words),) = leaders(rows)
    assert dataset == "corel5k"
    assert words.startswith("mtd (paper) (average rank 1.50, AP 0.500) and sip (paper)")


def conditions(make_result: Make) -> list[Record]:
    """Three methods with nothing and with half of the views missing: much harder."""
    common = {"label_rate": 0.5, "train_share": 0.7, "params": {}}
    return [
        make_result(
            0.7 - rate + 0.1 * place + fold / 1000,
            method=method,
            fold=fold,
            settings={"view_rate": rate, **common},
        )
        for place, method in enumerate(("mtd", "rank", "sip"))
        for rate in (0.0, 0.5)
        for fold in range(3)
    ]


def test_a_condition_is_never_the_best_method(make_result: Make) -> None:
    rows = summarise(conditions(make_result))
    assert leaders(rows) == [
        ("corel5k, view_rate=0.0", "sip (paper) (average rank 1.00, AP 0.901)"),
        ("corel5k, view_rate=0.5", "sip (paper) (average rank 1.00, AP 0.401)"),
    ]
    overview, *tables = result_tables(rows)
    assert overview.table.columns == ("view_rate=0.0", "view_rate=0.5")
    assert [line.title for line in overview.table.lines] == [
        "mtd (paper)",
        "rank (paper)",
        "sip (paper)",
    ]
    best = overview.table.lines[2].entries
    assert [(entry.text, entry.mark) for entry in best] == [("0.901", "best"), ("0.401", "best")]
    for own, (heading, _) in zip(tables, leaders(rows), strict=True):
        assert (own.title, own.folded) == (f"{heading}: all metrics", True)
        assert len([line for line in own.table.lines if not line.published]) == 3


def test_settings_of_a_method_are_columns_and_the_method_one_line(make_result: Make) -> None:
    common = {"label_rate": 0.5, "train_share": 0.7}
    records = [
        make_result(
            0.3 + alpha / 10 + weight / 100,
            method="scsd",
            settings={"view_rate": rate, **common, "params": {"alpha": alpha, "lam": weight}},
        )
        for rate in (0.3, 0.6)
        for alpha in (0.1, 1.0)
        for weight in (1, 2)
    ]
    other = {"view_rate": 0.3, **common, "params": {}}
    overview, settings, *_ = result_tables(
        summarise([*records, make_result(0.2, method="mtd", settings=other)])
    )
    lines = {line.title: line.entries for line in overview.table.lines}
    assert list(lines) == ["scsd (paper)", "mtd (paper)"]
    assert [entry.text for entry in lines["scsd (paper)"]] == ["0.320 to 0.420"] * 2
    assert [entry.text for entry in lines["mtd (paper)"]] == ["0.200", "–"]
    assert all(entry.mark == "" for own in lines.values() for entry in own)
    assert settings.table.columns == (
        "view_rate=0.3, lam=1",
        "view_rate=0.3, lam=2",
        "view_rate=0.6, lam=1",
        "view_rate=0.6, lam=2",
    )
    assert [line.title for line in settings.table.lines] == ["alpha=0.1", "alpha=1.0"]
    assert [entry.mark for entry in settings.table.lines[1].entries] == [
        "second",
        "best",
        "second",
        "best",
    ]


def test_tests_are_made_within_every_condition(make_result: Make) -> None:
    tables = significance(conditions(make_result))
    assert [table.heading for table in tables] == [
        "corel5k, view_rate=0.0",
        "corel5k, view_rate=0.5",
    ]
    for table in tables:
        assert [line["method"] for line in table.lines] == [
            "sip (paper)",
            "rank (paper)",
            "mtd (paper)",
        ]
        assert f"3 folds of {table.heading} that all" in table.words[0]
        assert "minus that of mtd (paper)" in table.words[1]


def test_the_page_names_the_condition_of_every_task(make_result: Make) -> None:
    page = render_report(conditions(make_result))
    assert "[view_rate" not in page
    assert part(page, "tasks").count("corel5k, view_rate=0.0") == 9


def test_metadata_count_the_tasks_of_different_values(make_result: Make) -> None:
    other = {"versions": {"python": "3.11.7"}, "device": "NVIDIA H200"}
    records = [
        make_result(),
        make_result(fold=1),
        make_result(fold=2, provenance=other),
    ]
    found = dict(metadata(records))
    assert found["python"] == ["3.11.7 (1 task)", "3.12.3 (2 tasks)"]
    assert found["torch"] == ["2.11.0 (2 tasks)", "not recorded (1 task)"]
    assert found["commit"] == ["0123abc (2 tasks)", "not recorded (1 task)"]
    assert found["machines"] == ["A&B processor, 2 cores (2 tasks)", "not recorded (1 task)"]
    assert found["data checksums"] == ["corel5k: not recorded", "corel5k: sample-sha256:42"]
    assert found["missing views"] == ["50 %"]
    assert found["seeds"] == ["1"]
    assert found["metrics"] == ["variant field"]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "< 0.001"), (0.001, "0.001"), (1.0, "1.000")]
)
def test_p_values(value: float | None, text: str) -> None:
    assert p_text(value) == text


def test_the_command_writes_the_page(
    make_records: MakeRecords, failures: list[dict[str, Any]], tmp_path: Path
) -> None:
    lines = [json.dumps(record.to_dict()) for record in make_records()]
    (tmp_path / "records.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "failures.jsonl").write_text(json.dumps(failures[0]) + "\n", encoding="utf-8")
    out = tmp_path / "page" / "report.html"
    out.parent.mkdir()
    call = ["bench", "report", str(tmp_path), "--out", str(out), "--title", "Ours & theirs"]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    page = out.read_text(encoding="utf-8")
    assert "<h1>Ours &amp; theirs</h1>" in page
    assert 'id="failures"' in page
