"""onnxruntime answers what the library answers, for every pattern of missing views."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.cli import run
from viewgap.errors import SettingError

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = [
    pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

Views = dict[str, Any]
COMMON: dict[str, Any] = {"random_state": 0, "on_empty": "prior"}


@pytest.fixture(scope="module")
def data() -> tuple[Views, Any]:
    """Real numbers, counts and ties; a label never observed, gaps in rows and views."""
    rng = np.random.default_rng(0)
    views = {
        "a": rng.normal(size=(120, 6)).astype(np.float32),
        "b": rng.poisson(0.4, size=(120, 20)).astype(np.float32),
        "c": rng.normal(size=(120, 3)).round(1).astype(np.float32),
    }
    labels = (views["a"][:, :4] > 0).astype(float)
    labels[:, 1] = np.nan
    labels[:20, 0] = np.nan
    views["b"][:30] = np.nan
    views["a"][40, 2] = np.nan
    return views, labels


MODELS = {
    "ridge": lambda: viewgap.LateFusionRidge(**COMMON),
    "extra trees": lambda: viewgap.ExtraTrees(n_estimators=8, **COMMON),
    "joint": lambda: viewgap.JointBoosting(n_estimators=4, **COMMON),
    "boosting": lambda: viewgap.GradientBoosting(n_estimators=4, **COMMON),
    "forest": lambda: viewgap.RandomForest(n_estimators=5, **COMMON),
    "ddinet": lambda: viewgap.DDINet(max_epochs=1, device="cpu", **COMMON),
    "ensemble": lambda: viewgap.Ensemble(
        methods={
            "extra_trees": {"n_estimators": 5},
            "late_fusion_ridge": {"features": "auto"},
            "scsd": {"max_epochs": 2, "n_networks": 2, "hidden": (16,)},
        },
        device="cpu",
        **COMMON,
    ),
}


def new_rows(views: Views) -> Views:
    rows = {name: own[50:].copy() for name, own in views.items()}
    rows["c"][3, 1] = np.nan
    rows["a"][:10] *= 30
    return rows


def answers(session: Any, rows: Views, observed: Any) -> Any:
    feed = {}
    for column, (name, own) in enumerate(rows.items()):
        seen = observed[:, column]
        feed[name] = np.where(seen[:, None], own, np.float32(1e30))
        feed[f"{name}:observed"] = seen
    return session.run(["probabilities"], feed)[0]


NETWORKS = (
    "AIMNet",
    "DICNet",
    "DRLS",
    "DVSM",
    "LMVCAT",
    "MTD",
    "PCVE",
    "RANK",
    "SIMM",
    "SIP",
    "TDLSR",
)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_answers_every_pattern(
    name: str, data: tuple[Views, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Tracing takes seconds: the others than D-VSM are asked with `pytest --every-method`."""
    if name != "DVSM" and not request.config.getoption("--every-method"):
        pytest.skip("--every-method asks it")
    MODELS[name] = lambda: getattr(viewgap, name)(max_epochs=2, device="cpu", **COMMON)
    test_every_pattern_of_views_is_answered_as_by_the_library(name, data, tmp_path)


@pytest.mark.parametrize("name", tuple(MODELS))
def test_every_pattern_of_views_is_answered_as_by_the_library(
    name: str, data: tuple[Views, Any], tmp_path: Path
) -> None:
    model = MODELS[name]().fit(*data)
    viewgap.export_onnx(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    rows = new_rows(data[0])
    for pattern in itertools.product([False, True], repeat=3):
        observed = np.tile(pattern, (len(rows["a"]), 1))
        shown = {
            view: np.where(seen, own, np.nan)
            for (view, own), seen in zip(rows.items(), pattern, strict=True)
        }
        expected = model.predict_proba(shown)
        np.testing.assert_allclose(answers(session, rows, observed), expected, rtol=0, atol=1e-5)
        assert np.isnan(expected[:, 1]).all()


@pytest.fixture(scope="module")
def ridge(data: tuple[Views, Any]) -> viewgap.LateFusionRidge:
    return viewgap.LateFusionRidge(**COMMON).fit(*data)


def session_of(model: Any, folder: Path) -> Any:
    viewgap.export_onnx(model, folder / "model.onnx")
    return onnxruntime.InferenceSession(folder / "model.onnx")


@pytest.mark.parametrize("nan", ["mean", "missing_view", "error"])
def test_single_missing_values_follow_the_rule_of_the_model(
    nan: str, ridge: Any, data: tuple[Views, Any], tmp_path: Path
) -> None:
    model = viewgap.LateFusionRidge(**COMMON).fit(*data).set_params(nan=nan)
    rows = new_rows(data[0])
    found = answers(session_of(model, tmp_path), rows, np.ones((70, 3), dtype=bool))
    if nan == "error":
        assert np.isnan(found[3]).all()
        rows["c"][3, 1], kept = 0.0, np.arange(70) != 3
    else:
        kept = np.ones(70, dtype=bool)
    expected = model.predict_proba(rows)
    np.testing.assert_allclose(found[kept], expected[kept], rtol=0, atol=1e-5)


def test_a_row_of_nan_is_a_missing_view_and_infinity_answers_nan(
    ridge: Any, data: tuple[Views, Any], tmp_path: Path
) -> None:
    rows, observed = new_rows(data[0]), np.ones((70, 3), dtype=bool)
    rows["a"][5], rows["a"][6, 0] = np.nan, np.inf
    found = answers(session_of(ridge, tmp_path), rows, observed)
    observed[5, 0] = False
    assert np.isnan(found[6]).all()
    without = answers(session_of(ridge, tmp_path), rows, observed)
    np.testing.assert_array_equal(found[5], without[5])


def test_what_cannot_be_exported_is_refused_with_what_can(
    data: tuple[Views, Any], tmp_path: Path
) -> None:
    paper = viewgap.SCSD(profile="paper", max_epochs=1, device="cpu", **COMMON).fit(*data)
    with pytest.raises(SettingError, match=r"by batch and cannot be exported.*LateFusionRidge"):
        viewgap.export_onnx(paper, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


REFUSED: list[Any] = [
    viewgap.LabelFrequency(on_empty="prior"),
    viewgap.ImputedLogistic(on_empty="prior"),
    viewgap.NAIM3L(max_iter=5, **COMMON),
    viewgap.CDMM(**COMMON),
    viewgap.ELSMML(**COMMON),
    viewgap.IMvWL(max_iter=5, **COMMON),
]


def test_every_method_is_asked_here() -> None:
    """A method that is added is exported, or refused: that is decided, and not left open."""
    made = {type(make()) for make in MODELS.values()} | {type(model) for model in REFUSED}
    made |= {getattr(viewgap, name) for name in (*NETWORKS, "SCSD")}  # SCSD: in the ensemble
    assert {viewgap.methods.get(name) for name in viewgap.methods.names()} == made


@pytest.mark.parametrize("model", REFUSED, ids=lambda model: type(model).__name__)
def test_other_methods_are_refused_before_anything_is_written(
    model: Any, data: tuple[Views, Any], tmp_path: Path
) -> None:
    model.fit(*data)
    viewgap.save_model(model, tmp_path / "model")
    name = type(model).__name__
    with pytest.raises(SettingError, match=f"{name} cannot be exported; what can be: .*Ensemble"):
        viewgap.export_onnx(model, tmp_path / "model.onnx")
    assert run(["export", str(tmp_path / "model"), str(tmp_path / "model.onnx")]) == 2
    assert not (tmp_path / "model.onnx").exists()


def test_a_network_that_cannot_be_traced_is_refused_with_what_to_do(
    data: tuple[Views, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of another package could be: its operations depend on how many rows there are."""
    model = viewgap.DDINet(max_epochs=1, device="cpu", **COMMON).fit(*data)
    network = type(model.network_)
    answer = network.answer

    def by_number(self: Any, codes: Any, observed: Any) -> Any:
        found = answer(self, codes, observed)
        return found + 0 * len(found)  # a constant for the exporter

    monkeypatch.setattr(network, "answer", by_number)
    with pytest.raises(SettingError, match=r"DDINet cannot be exported: .*for any number of rows"):
        viewgap.export_onnx(model, tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_an_ensemble_with_a_member_that_cannot_be_exported_names_it(
    data: tuple[Views, Any], tmp_path: Path
) -> None:
    members: Any = {"imputed_logistic": {}, "late_fusion_ridge": {}}
    model = viewgap.Ensemble(methods=members, **COMMON).fit(*data)
    if "imputed_logistic" not in model.members_:
        pytest.skip("no weight for it")
    with pytest.raises(SettingError, match="ImputedLogistic cannot be exported"):
        viewgap.export_onnx(model, tmp_path / "model.onnx")


def test_the_file_says_what_it_takes_and_what_it_answers(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = pandas.DataFrame(rng.normal(size=(60, 3)), columns=["TP53", "ATM", "é"])
    y = pandas.DataFrame({"sick": (x["TP53"] > 0) * 1.0, "never": np.nan})
    model = viewgap.LateFusionRidge(**COMMON).fit({"genes": x}, y)
    facts = session_of(model, tmp_path).get_modelmeta().custom_metadata_map
    told = {name.removeprefix("viewgap."): json.loads(text) for name, text in facts.items()}
    assert told["views"]["genes"]["columns"] == ["TP53", "ATM", "é"]
    assert told["views"]["genes"]["observed"] == "genes:observed"
    assert told["labels"] == ["sick", "never"]
    np.testing.assert_array_equal(told["thresholds"], np.broadcast_to(model.thresholds_, 2))
    assert told["label_frequency"] == [pytest.approx(model.label_frequency_[0]), None]
    assert told["versions"]["viewgap"] == viewgap.__version__
    assert told["classes"] is None
    one = viewgap.LateFusionRidge(**COMMON).fit({"genes": x}, np.where(x["TP53"] > 0, "b", "a"))
    one.thresholds_ = np.array([0.3])  # a method may learn one; classes are decided at one half
    facts = session_of(one, tmp_path).get_modelmeta().custom_metadata_map
    assert json.loads(facts["viewgap.classes"]) == ["a", "b"]
    assert json.loads(facts["viewgap.thresholds"]) == [0.5]


def test_the_example_of_the_documentation_needs_numpy_and_onnxruntime_only(
    tmp_path: Path,
) -> None:
    page = Path(__file__).parents[2] / "docs" / "export.md"
    made, used = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    prepared = made.replace('"model")', f"{str(tmp_path / 'model')!r})")
    exec(compile(prepared, "export.md", "exec"), {})
    assert run(["export", str(tmp_path / "model"), str(tmp_path / "model.onnx")]) == 0
    blocked = "import sys\nfor name in ('torch', 'viewgap', 'sklearn', 'pandas', 'onnx', 'scipy'):"
    script = f"{blocked}\n    sys.modules[name] = None\n{used}\nassert decisions.shape == (2, 3)"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, cwd=tmp_path)


def test_views_may_be_named_like_masks_and_outputs(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    views = {"a": x, "a:observed": x, "probabilities": x}
    model = viewgap.LateFusionRidge(**COMMON).fit(views, (x > 0).astype(float))
    session = session_of(model, tmp_path)
    facts = session.get_modelmeta().custom_metadata_map
    feed = {}
    for name, own in json.loads(facts["viewgap.views"]).items():
        feed |= {own["values"]: views[name], own["observed"]: np.ones(30, dtype=bool)}
    (found,) = session.run([json.loads(facts["viewgap.output"])], feed)
    np.testing.assert_allclose(found, model.predict_proba(views), rtol=0, atol=1e-5)


def test_the_command_writes_a_file_that_predicts_without_viewgap_and_torch(
    ridge: Any, data: tuple[Views, Any], tmp_path: Path
) -> None:
    viewgap.save_model(ridge, tmp_path / "model")
    assert run(["export", str(tmp_path / "model"), str(tmp_path / "model.onnx")]) == 0
    facts = {p.key: p.value for p in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert json.loads(facts["viewgap.labels"]) == list(ridge.label_names_)
    assert json.loads(facts["viewgap.views"])["b"]["n_columns"] == 20
    assert json.loads(facts["viewgap.method"]) == "late_fusion_ridge"
    np.savez(tmp_path / "rows.npz", **new_rows(data[0]))
    script = f"""
import sys
sys.modules["torch"] = sys.modules["viewgap"] = None
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession({str(tmp_path / "model.onnx")!r})
rows = np.load({str(tmp_path / "rows.npz")!r})
feed = {{name: rows[name] for name in rows}}
feed |= {{f"{{name}}:observed": np.ones(70, dtype=bool) for name in rows}}
np.save({str(tmp_path / "answers.npy")!r}, session.run(None, feed)[0])
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    expected = ridge.predict_proba(new_rows(data[0]))
    np.testing.assert_allclose(np.load(tmp_path / "answers.npy"), expected, rtol=0, atol=1e-5)
