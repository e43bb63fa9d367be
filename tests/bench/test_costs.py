"""Seconds and memory of methods: means, peaks, units, and what no record says."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import pytest

from viewgap.bench.analyse.costs import cost_of, memory_text
from viewgap.bench.analyse.summary import summarise
from viewgap.bench.results.record import Record
from viewgap.bench.show.contents import cost_table
from viewgap.bench.show.tables import to_csv, to_latex, to_markdown, to_text

Make = Callable[..., Record]


def used(host: float | None, of: str = "task", device: str = "cpu", **more: Any) -> dict[str, Any]:
    return {"device": device, "memory": {"host": host, "host_of": of, **more}}


def test_mean_of_seconds_and_largest_peak(make_record: Make) -> None:
    records = [
        make_record(fold=0, seconds=1.0, provenance=used(2e9, cuda=3e9)),
        make_record(fold=1, seconds=3.0, provenance=used(1e9, cuda=4e9)),
    ]
    cost = cost_of(summarise(records)[0])
    assert (cost.seconds, cost.spread, cost.host, cost.gpu) == (2.0, 1.0, 2e9, 4e9)
    assert not cost.at_most
    line = to_markdown(cost_table(summarise(records))).splitlines()[2]
    assert line == "| tiny | label_frequency | 2.00 ± 1.00 | 2.00 GB | 4.00 GB | cpu | 2 |"


def test_the_peak_of_a_process_is_an_upper_bound(make_record: Make) -> None:
    records = [
        make_record(method="scsd", fold=0, provenance=used(1e9)),
        make_record(method="scsd", fold=1, provenance=used(2e9, "process")),
        make_record(method="drls", provenance=used(5e8)),
    ]
    rows = summarise(records)
    text = to_text(cost_table(rows))
    assert "≤ 2.00 GB" in text
    assert "≤: peak since the process began" in text
    assert "500 MB" in text
    assert "drls†" in text
    assert "† reconstruction" in text
    assert r"$\leq$ 2.00 GB" in to_latex(cost_table(rows))
    first, second = csv.DictReader(to_csv(cost_table(rows)).splitlines())
    assert (first["host_bytes"], first["host_of"]) == ("2000000000", "process")
    assert (second["host_of"], second["gpu_bytes"], second["seconds_std"]) == ("task", "", "")


def test_memory_nobody_measured_has_no_column(make_record: Make) -> None:
    rows = summarise([make_record()], [])
    sheet = cost_table(rows)
    assert sheet.columns == ("seconds a fold", "device", "folds")
    assert any("no record says how much memory" in note for note in sheet.notes)
    (line,) = csv.DictReader(to_csv(cost_table(rows)).splitlines())
    assert line["host_bytes"] == line["host_of"] == ""


def test_memory_of_some_folds_only_is_said(make_record: Make) -> None:
    records = [make_record(fold=0, provenance=used(1e9)), make_record(fold=1)]
    assert "some of the folds only" in to_text(cost_table(summarise(records)))
    assert "some of the folds only" not in to_text(cost_table(summarise(records[:1])))
    (line,) = csv.DictReader(to_csv(cost_table(summarise(records))).splitlines())
    assert (line["memory_folds"], line["folds"]) == ("1", "2")


def test_a_failed_method_is_a_hole(make_record: Make) -> None:
    failure = {"dataset": "tiny", "method": "sip", "profile": "default", "settings": {}}
    rows = summarise([make_record(provenance=used(1e9))], [failure])
    line = to_markdown(cost_table(rows)).splitlines()[3]
    assert line == "| tiny | sip | – | – | – | 0 of 1 |"


def test_other_devices_are_pointed_out(make_record: Make) -> None:
    records = [
        make_record(fold=fold, provenance={"device": device})
        for fold, device in enumerate(("cpu", "a|b"))
    ]
    text = to_markdown(cost_table(summarise(records)))
    assert "a\\|b, cpu" in text
    assert "times of different devices" in text
    assert "times of different devices" not in to_markdown(cost_table(summarise(records[:1])))


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (12_340_000, "12.3 MB"),
        (123_400_000, "123 MB"),
        (999_999_999, "1.00 GB"),
        (3.456e9, "3.46 GB"),
        (1.5e15, "1500 TB"),
    ],
)
def test_memory_in_units_people_read(size: float, text: str) -> None:
    assert memory_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0123, "0.012"), (0.5, "0.50"), (12.34, "12.3"), (4321.0, "4321")]
)
def test_seconds_from_milliseconds_to_hours(make_record: Make, seconds: float, text: str) -> None:
    sheet = cost_table(summarise([make_record(seconds=seconds)]))
    assert sheet.lines[0].entries[0].text == text
