"""Comparisons over data sets: printed examples, scipy, and who is left out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from viewgap.bench.analyse.data_sets import compare_over_data_sets, signed_rank_test
from viewgap.bench.analyse.statistics import RankTest
from viewgap.bench.results.journal import append_line
from viewgap.bench.results.record import RECORDS, Record
from viewgap.bench.run.experiment import expand, read_experiment
from viewgap.cli import run
from viewgap.errors import InputError, SettingError
from viewgap.metrics import SIX

Make = Callable[..., Record]
CONFIGS = Path(__file__).parents[2] / "configs"
METHODS = ("scsd", "mtd", "sip", "rank")

# Demšar (2006), Table 2: two classifiers on fourteen data sets.
FIRST = (0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661, 0.583, 0.775, 1.0, 0.940, 0.619, 0.972)
SECOND = (0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668, 0.583, 0.838, 1.0, 0.962, 0.666, 0.981)
FIRST, SECOND = (*FIRST, 0.957), (*SECOND, 0.978)


def test_wilcoxon_is_the_printed_example() -> None:
    statistic, p_value = signed_rank_test(np.array(SECOND) - np.array(FIRST))
    assert statistic == 12.0  # R- = 12, R+ = 93
    z = (12 - 14 * 15 / 4) / math.sqrt(14 * 15 * 29 / 24)
    assert p_value == pytest.approx(2 * stats.norm.cdf(z), rel=0.05)
    assert signed_rank_test(np.zeros(5)) == (0.0, 1.0)


def test_wilcoxon_counts_all_signs() -> None:
    differences = np.array([0.3, -0.1, 0.2, 0.5, 0.4])
    ranks = stats.rankdata(abs(differences))
    found = min(ranks[differences > 0].sum(), ranks[differences < 0].sum())
    sums = [
        sum(rank for rank, bit in zip(ranks, format(number, "05b"), strict=True) if bit == "1")
        for number in range(2**5)
    ]
    exact = min(1.0, 2 * sum(one <= found for one in sums) / len(sums))
    assert signed_rank_test(differences) == (found, pytest.approx(exact))


def test_iman_davenport_is_the_printed_example() -> None:
    ranks = (3.143, 2.0, 2.893, 1.964)  # Demšar (2006), Table 6: fourteen data sets
    plain: dict[str, Any] = {"p_value": 0.0, "critical_difference": 1.25, "alpha": 0.05}
    place: dict[str, Any] = {"blocks": 14, "left_out": 0, "unit": "data sets", "scope": ""}
    test = RankTest("AUC", ("a", "b", "c", "d"), ranks, 9.28, **plain, **place)
    value, p_value = test.iman_davenport
    assert value == pytest.approx(3.69, abs=0.005)
    assert p_value == pytest.approx(stats.f.sf(value, 3, 39))
    unanimous = RankTest("AUC", ("a", "b", "c", "d"), ranks, 42.0, **plain, **place)
    assert unanimous.iman_davenport == (math.inf, 0.0)


def several(make: Make, sets: int = 6, folds: int = 3, seed: int = 0, **fixed: Any) -> list[Record]:
    rng = np.random.default_rng(seed)
    return [
        make(float(rng.random()), method=method, dataset=f"set{number}", fold=fold, **fixed)
        for number in range(sets)
        for method in METHODS
        for fold in range(folds)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_everything_is_computed_from_means_over_folds(make_record: Make, seed: int) -> None:
    records = several(make_record, seed=seed)
    found = compare_over_data_sets(records, control="mtd")
    names = sorted(METHODS)
    means = np.array(
        [
            [
                np.mean([r.metrics["AP"] for r in records if (r.dataset, r.method) == (name, m)])
                for m in names
            ]
            for name in found.data_sets
        ]
    )
    assert np.allclose(found.means, means)
    assert found.test.methods == tuple(names)
    assert found.test.ranks == pytest.approx(stats.rankdata(-means, axis=1).mean(axis=0))
    expected = stats.friedmanchisquare(*means.T)
    assert (found.test.statistic, found.test.p_value) == pytest.approx(tuple(expected))
    chi = expected.statistic
    assert found.test.iman_davenport[0] == pytest.approx(5 * chi / (6 * 3 - chi))
    control = means[:, names.index("mtd")]
    for one in found.against:
        own = means[:, names.index(one.method)]
        assert one.p_value == pytest.approx(stats.wilcoxon(own, control).pvalue)
        assert one.gap == pytest.approx((own - control).mean())
        assert (one.wins, one.losses) == ((own > control).sum(), (own < control).sum())
    order = sorted(found.against, key=lambda one: one.p_value)
    assert order[0].adjusted == pytest.approx(min(1.0, 3 * order[0].p_value))
    assert found.left_out == {}


def test_of_a_metric_that_should_be_low_the_lowest_is_best(make_record: Make) -> None:
    levels = dict(zip(METHODS, (0.1, 0.2, 0.3, 0.4), strict=True))
    records = [
        make_record(metrics={"calibration error": level + n / 100}, method=m, dataset=f"set{n}")
        for n in range(3)
        for m, level in levels.items()
    ]
    found = compare_over_data_sets(records, "calibration error")
    assert dict(zip(found.test.methods, found.test.ranks, strict=True))["scsd"] == 1.0
    assert all((one.wins, one.losses) == (0, 3) for one in found.against)
    assert found.control == "scsd"


def test_only_folds_that_all_methods_have_count(make_record: Make) -> None:
    records = several(make_record)
    fewer = [r for r in records if (r.dataset, r.method, r.fold) != ("set1", "sip", 2)]
    found = compare_over_data_sets(fewer)
    assert dict(zip(found.data_sets, found.folds, strict=True))["set1"] == 2
    whole = [r for r in records if (r.dataset, r.fold) != ("set1", 2)]
    assert np.allclose(found.means, compare_over_data_sets(whole).means)


def test_who_is_left_out_is_named(make_record: Make) -> None:
    records = [r for r in several(make_record) if (r.dataset, r.method) != ("set2", "sip")]
    found = compare_over_data_sets(records)
    assert found.left_out == {"sip": ["set2"]}
    assert "sip" not in found.test.methods
    assert (found.test.blocks, found.test.left_out) == (6, 0)
    found = compare_over_data_sets(records, missing="data sets")
    assert found.left_out == {"set2": ["sip"]}
    assert (found.test.blocks, found.test.left_out) == (5, 1)
    with pytest.raises(InputError, match=r"without a record on a data set: sip \(set2\)"):
        compare_over_data_sets(records, missing="refuse")
    with pytest.raises(SettingError, match="missing must be one of"):
        compare_over_data_sets(records, missing="guess")


def test_two_conditions_of_a_data_set_are_no_two_data_sets(make_record: Make) -> None:
    records = several(make_record, settings={"view_rate": 0.5, "params": {}})
    other = several(make_record, sets=1, settings={"view_rate": 0.0, "params": {}})
    with pytest.raises(InputError, match="set0 has records of several conditions"):
        compare_over_data_sets([*records, *other])
    natural = [r for r in records if r.dataset != "set0"]  # each has its own: that is fine
    assert compare_over_data_sets([*natural, *other]).test.blocks == 6


def test_too_little_to_compare_is_refused(make_record: Make) -> None:
    with pytest.raises(InputError, match="found 4 methods on 1 data sets"):
        compare_over_data_sets(several(make_record, sets=1))
    two = [r for r in several(make_record) if r.method in ("scsd", "mtd")]
    with pytest.raises(InputError, match="found 2 methods on 6 data sets"):
        compare_over_data_sets(two)


def test_the_command_line_prints_and_draws(
    make_record: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    records = [r for r in several(make_record) if (r.dataset, r.method) != ("set2", "sip")]
    for number, record in enumerate(records):
        plain = {**record.to_dict(), "task": f"{number:016x}"}
        (tmp_path / record.dataset).mkdir(exist_ok=True)
        append_line(tmp_path / record.dataset / RECORDS, plain)
    folders = [str(path) for path in sorted(tmp_path.iterdir())]
    assert run(["bench", "ranks", *folders, "--out", str(tmp_path / "figures")]) == 0
    out, err = capsys.readouterr()
    assert "method sip left out: no record of set2" in err
    assert "3 methods on 6 data sets: Friedman" in out
    assert "Iman-Davenport F" in out
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".svg", ".png"}
    assert "Left out: sip" in next((tmp_path / "figures").glob("*.svg")).read_text()
    assert run(["bench", "ranks", *folders, "--control", "rank", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["control"], found["left_out"]) == ("rank", {"sip": ["set2"]})
    assert found["ranks"]["unit"] == "data sets"
    assert run(["bench", "ranks", *folders, "--missing", "refuse"]) == 1
    assert "sip (set2)" in capsys.readouterr().err
    assert run(["bench", "ranks", *folders, "--metric", "absent"]) == 1
    assert f"available: {', '.join(SIX)}" in capsys.readouterr().err


def test_rates_of_one_data_set() -> None:
    experiment = {"datasets": ["a", "b"], "view_rate": [0.1, 0.2], "label_rate": 0.3}
    content: dict[str, Any] = {"experiment": experiment, "method": [{"name": "label_frequency"}]}
    experiment["dataset_rates"] = {"b": {"view_rate": 0.0}}
    found = [(task.dataset, task.view_rate, task.label_rate) for task in expand(content)]
    assert found == [("a", 0.1, 0.3), ("a", 0.2, 0.3), ("b", 0.0, 0.3)]
    for wrong, message in (
        ({"c": {}}, "unknown key 'c'"),
        ({"b": {"folds": 2}}, "unknown key 'folds'"),
        ({"b": {"view_rate": "none"}}, "view_rate must be"),
    ):
        experiment["dataset_rates"] = wrong
        with pytest.raises(SettingError, match=message):
            expand(content)


def test_natural_gaps_of_birds_and_cll_are_not_enlarged() -> None:
    tasks = read_experiment(CONFIGS / "all_datasets.toml")
    rates = {task.dataset: (task.view_rate, task.label_rate) for task in tasks}
    assert {name for name, own in rates.items() if own == (0.0, 0.0)} == {"birds", "cll"}
    assert len(rates) == 8
    assert all(own == (0.5, 0.5) for name, own in rates.items() if name not in ("birds", "cll"))
