from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from viewgap.bench.cells import Cell, expand, read_experiment
from viewgap.bench.runner import build_method
from viewgap.errors import DataFileError, SettingError

CONFIGS = Path(__file__).parents[2] / "configs"
SMALL: dict[str, Any] = {
    "experiment": {"dataset": "tiny", "folds": 2},
    "method": [{"name": "label_frequency"}, {"name": "scsd", "params": {"alpha": 0.5}}],
}


def test_expansion_is_methods_times_folds() -> None:
    cells = expand(SMALL)
    assert [(cell.method, cell.fold) for cell in cells] == [
        ("label_frequency", 0),
        ("label_frequency", 1),
        ("scsd", 0),
        ("scsd", 1),
    ]
    assert cells[2].params == {"alpha": 0.5}


def test_the_id_is_the_content() -> None:
    cell = Cell("tiny", "label_frequency", params={"a": 1, "b": [1, 2]})
    assert cell.id == Cell("tiny", "label_frequency", params={"b": [1, 2], "a": 1}).id
    others = [
        Cell("other", "label_frequency"),
        Cell("tiny", "label_frequency"),
        Cell("tiny", "label_frequency", params={"a": 1, "b": [1, 2]}, fold=1),
        Cell("tiny", "label_frequency", params={"a": 1, "b": [1, 2]}, seed=2),
        Cell("tiny", "label_frequency", params={"a": 1, "b": [1, 2]}, scale_on="all"),
    ]
    assert len({cell.id, *(other.id for other in others)}) == 6


def test_a_whole_number_rate_is_the_same_cell_as_its_float() -> None:
    ids = [
        expand({**SMALL, "experiment": {"dataset": "tiny", "view_rate": rate}})[0].id
        for rate in (0, 0.0)
    ]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"typo": 1}, "unknown key 'typo'"),
        ({"experiment": {"dataset": "tiny", "fold": 3}}, "unknown key 'fold'"),
        ({"experiment": {}}, "'dataset' is missing"),
        ({"experiment": {"dataset": "tiny", "folds": 0}}, "at least 1"),
        ({"experiment": {"dataset": "tiny", "folds": True}}, "folds must be int"),
        ({"experiment": {"dataset": "tiny", "view_rate": 1.0}}, "view_rate"),
        ({"experiment": {"dataset": "tiny", "train_share": 0}}, "train_share"),
        ({"experiment": {"dataset": "tiny", "scale_on": "test"}}, "scale_on"),
        ({"method": []}, "no method"),
        ({"method": [{"profile": "paper"}]}, "'name' is missing"),
        ({"method": [{"name": "nonsense"}]}, "unknown method 'nonsense'"),
        ({"method": [{"name": "scsd", "parameter": {}}]}, "unknown key 'parameter'"),
        ({"method": [{"name": "scsd"}, {"name": "scsd"}]}, "twice"),
        ({"method": ["scsd"]}, "expected a table"),
    ],
)
def test_what_cannot_be_meant_is_an_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        expand({**SMALL, **change})


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[experiment\n")
    with pytest.raises(DataFileError, match=r"x\.toml is not valid TOML"):
        read_experiment(tmp_path / "x.toml")
    with pytest.raises(DataFileError, match="cannot read"):
        read_experiment(tmp_path / "absent.toml")


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_config_can_be_built(path: Path) -> None:
    cells = read_experiment(path)
    assert len(cells) % 5 == 0
    for cell in cells[::5]:
        build_method(cell)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("corel5k", (0.1, 0.1, 5.0, 0.0, [2048, 1024, 512])),
        ("espgame", (0.5, 0.1, 5.0, 0.0, [2048, 1024, 512])),
        ("iaprtc12", (0.1, 0.1, 5.0, 0.0, [2048, 1024, 512])),
        ("pascal07", (10.0, 0.01, 0.1, 0.5, [2048, 1024])),
        ("mirflickr", (10.0, 0.01, 5.0, 0.5, [2048, 1024])),
    ],
)
def test_paper_configs_hold_the_published_settings(name: str, published: tuple[Any, ...]) -> None:
    content = tomllib.loads((CONFIGS / f"{name}.toml").read_text())
    params = content["method"][0]["params"]
    names = ("alpha", "distill_weight", "temperature", "dropout", "hidden")
    assert tuple(params[key] for key in names) == published
    assert content["method"][0]["profile"] == "paper"
    assert content["experiment"]["scale_on"] == "all"
