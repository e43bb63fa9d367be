"""Complete labels: the same losses, p-values and thresholds as MAPIE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewgap.decide.losses import Design, row_losses
from viewgap.decide.risk_control import accepted_threshold, decisions, p_value

pytest.importorskip("mapie")
NAMES = {"missed positives": "recall", "false alarms": "precision"}


def controller(risk: str, proba: Any, truth: Any, thresholds: list[float], **more: Any) -> Any:
    from mapie.risk_control import MultiLabelClassificationController

    settings = {"target_level": 0.8, "predict_params": np.array(thresholds), **more}
    own = MultiLabelClassificationController(lambda X: proba[X[:, 0]], NAMES[risk], **settings)
    return own.calibrate(np.arange(len(proba))[:, None], truth.astype(int))


def drawn() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    proba = rng.random((300, 5))
    truth = rng.random(proba.shape) < proba
    truth[np.arange(300), proba.argmax(axis=1)] = True  # MAPIE refuses rows without a positive
    return proba, truth


@pytest.mark.parametrize("risk", list(NAMES))
def test_losses_are_those_of_mapie(risk: str) -> None:
    proba, truth = drawn()
    thresholds = [0.1, 0.4, 0.6]
    more: dict[str, Any] = {"method": "rcps", "rcps_bound": "hoeffding"}
    more = more if risk == "missed positives" else {}
    # a row without any certain label counts 0 here and 1 in MAPIE: left out
    found = controller(risk, proba, truth, thresholds, confidence_level=0.9, **more)
    rows = (proba > max(thresholds)).any(axis=1)
    assert rows.sum() > 200
    for j, threshold in enumerate(thresholds):
        decided = decisions(risk, threshold, proba)
        own, _ = row_losses(risk, *decided, truth, Design.of(np.ones_like(truth)))
        assert own[rows] == pytest.approx(found._risks[rows, j])


def test_p_values_are_those_of_mapie() -> None:
    from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

    for binary in (False, True):
        for n, wrong in ((40, 2), (300, 0), (300, 17), (300, 40)):
            theirs = compute_hoeffding_bentkus_p_value(np.array([wrong / n]), n, 0.1, binary)
            own = p_value(wrong / n, n, 0.1, binary)
            assert own == pytest.approx(min(1.0, float(theirs[0, 0])), rel=1e-9)


def test_the_threshold_is_the_end_of_mapies_fixed_sequence() -> None:
    from mapie.risk_control.fwer_control import FWERFixedSequenceTesting
    from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

    from viewgap.decide.risk_control import GRIDS

    proba, truth = drawn()
    complete = Design.of(np.ones_like(truth))
    for risk in NAMES:
        grid = GRIDS[risk]
        means = [
            row_losses(risk, *decisions(risk, t, proba), truth, complete)[0].mean() for t in grid
        ]
        values = compute_hoeffding_bentkus_p_value(np.array(means), len(proba), 0.2)[:, 0]
        rejected = FWERFixedSequenceTesting().run(values, 0.1)
        found = accepted_threshold(risk, proba, truth, complete, 0.2, 0.1)
        assert found == (grid[max(rejected)] if len(rejected) else None)


def test_missed_positives_are_bounded_as_sharply_as_by_mapies_hoeffding_bound() -> None:
    from viewgap.decide.risk_control import GRIDS

    proba, truth = drawn()
    grid = GRIDS["missed positives"].tolist()
    more = {"method": "rcps", "rcps_bound": "hoeffding", "confidence_level": 0.9}
    theirs = controller("missed positives", proba, truth, grid, **more).best_predict_param[0]
    complete = Design.of(np.ones_like(truth))
    own = accepted_threshold("missed positives", proba, truth, complete, 0.2, 0.1)
    assert own is not None
    assert theirs <= own <= theirs + 0.1
