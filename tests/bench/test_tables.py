from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from viewgap.bench.record import Record
from viewgap.bench.tables import as_markdown, as_rich, summarise
from viewgap.errors import InputError

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
    assert "0.600 ± 0.216" in as_markdown(rows)


def test_one_fold_has_no_deviation(make_record: Make) -> None:
    assert "±" not in as_markdown(summarise([make_record()]))


def test_best_is_bold_per_data_set_and_equals_share_it(make_record: Make) -> None:
    records = [
        make_record(0.5, method="late_fusion_ridge"),
        make_record(0.70001, method="scsd"),
        make_record(0.69999, method="random_forest"),
        make_record(0.1, method="scsd", dataset="other"),
    ]
    lines = as_markdown(summarise(records)).splitlines()[2:]
    assert ["**" in line for line in lines] == [False, True, True, True]


def test_profiles_and_settings_are_never_mixed(make_record: Make) -> None:
    other = {"view_rate": 0.3, "params": {"alpha": 2.0}}
    records = [
        make_record(0.2, method="scsd", profile="paper"),
        make_record(0.4, method="scsd"),
        make_record(0.6, method="scsd", settings=other),
    ]
    titles = [row.title for row in summarise(records)]
    assert titles == ["scsd (paper)", "scsd [view_rate=0.5]", "scsd [alpha=2.0, view_rate=0.3]"]


def test_variants_cannot_be_mixed(make_record: Make) -> None:
    with pytest.raises(InputError, match="variants"):
        summarise([make_record(), make_record(variant="clean")])


def test_a_failure_is_a_hole_and_not_a_zero(make_record: Make) -> None:
    rows = summarise(
        [make_record(0.5, method="scsd")], [failure(), failure(method="random_forest")]
    )
    lines = as_markdown(rows).splitlines()[2:]
    assert lines[0].endswith("| 1.0 | 1 of 2 |")
    assert lines[1].count("–") == 7
    assert "0.000" not in lines[1]


def test_terminal_table_shows_text_as_it_is(make_record: Make) -> None:
    records = [make_record(0.5, dataset="[red]x", fold=k) for k in range(2)]
    records += [make_record(0.5, dataset="b")]
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(as_rich(summarise(records), "title"))
    text = console.export_text()
    assert "[red]x" in text
    assert "0.500 ± 0.000" in text


def test_markdown_escapes_names(make_record: Make) -> None:
    text = as_markdown(summarise([make_record(dataset="a|b<script>")]))
    assert "a\\|b&lt;script>" in text
