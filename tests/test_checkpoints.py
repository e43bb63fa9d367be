"""The folder of a checkpoint: complete steps, an atomic pointer, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap import checkpoints
from viewgap.checkpoints import CheckpointFolder, epoch_step
from viewgap.errors import CheckpointError, RunError, SettingError, ViewgapWarning
from viewgap.state import State
from viewgap.training import checkpointing
from viewgap.training.callbacks import Callback

RNG = np.random.default_rng(0)
X = {"a": RNG.normal(size=(30, 4)), "b": RNG.normal(size=(30, 3))}
Y = (X["a"][:, :2] > 0).astype(float)


def make(**params: Any) -> viewgap.DDINet:
    small = {"max_epochs": 3, "random_state": 0, "device": "cpu"}
    return viewgap.DDINet(**small | params)


class Cut(Callback):
    """Ends a fit before its third epoch."""

    def on_epoch_begin(self, context: Any) -> None:
        if context.epoch == 3:
            raise KeyboardInterrupt


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkpoint of a fit that was cut after two epochs."""
    monkeypatch.setattr(checkpointing, "SPACING", 0.0)
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        make(callbacks=[Cut()]).fit(X, Y, checkpoint_dir=path)
    return path


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


# ---------------------------------------------------------------------------------- steps


def test_the_last_two_steps_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "run")
    assert folder.load() is None
    for epoch in (1, 2, 9):
        folder.save(epoch_step(epoch), State({"w": np.full(3, epoch)}, {"epoch": epoch}))
    assert names(folder.path) == ["epoch-000002", "epoch-000009", "latest.json"]
    step, state = CheckpointFolder(folder.path).load() or ("", State())
    assert (step, state.metadata) == ("epoch-000009", {"epoch": 9})
    assert state.arrays["w"].tolist() == [9, 9, 9]


def test_numbers_that_are_not_finite_are_kept(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.save("finished", State({"p": np.array([0.5, np.nan])}, {"score": -np.inf}))
    _, state = folder.load() or ("", State())
    assert np.isnan(state.arrays["p"][1])
    assert state.metadata == {"score": -np.inf}


@pytest.mark.parametrize("damage", ["truncated", "changed", "removed", "no json"])
def test_of_a_damaged_step_the_one_before_is_taken_and_said(tmp_path: Path, damage: str) -> None:
    folder = CheckpointFolder(tmp_path)
    for epoch in (1, 2):
        folder.save(epoch_step(epoch), State({"w": np.arange(50.0)}, {"epoch": epoch}))
    weights = tmp_path / "epoch-000002/weights.safetensors"
    data = weights.read_bytes()
    if damage == "truncated":
        weights.write_bytes(data[:-7])
    elif damage == "changed":
        weights.write_bytes(data[:-1] + b"x")
    elif damage == "removed":
        weights.unlink()
    else:
        (tmp_path / "epoch-000002/checksums.json").write_text("{")
    with pytest.warns(ViewgapWarning, match="epoch-000002.*going on from epoch-000001"):
        step, _ = CheckpointFolder(tmp_path).load() or ("", None)
    assert step == "epoch-000001"


def test_a_damaged_pointer_is_said_and_the_last_step_is_found(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    for epoch in (9, 10):
        folder.save(epoch_step(epoch), State({}, {}))
    for text in ("{", '{"format": 1, "step": "../x", "previous": null, "seconds": 0}', "[]"):
        (tmp_path / "latest.json").write_text(text)
        with pytest.warns(ViewgapWarning, match=r"latest\.json.*going on from epoch-000010"):
            assert (CheckpointFolder(tmp_path).load() or [""])[0] == "epoch-000010"


def test_where_no_step_can_be_read_the_fit_is_refused(run: Path) -> None:
    for weights in run.rglob("weights.safetensors"):
        weights.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"no step can be read .*delete the folder"):
        make().fit(X, Y, checkpoint_dir=run, resume=True)


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
@pytest.mark.parametrize("array", ["network/encoders.0.0.weight", "order", "optimiser/0/exp_avg"])
def test_a_step_that_does_not_fit_the_network_is_refused(run: Path, array: str) -> None:
    folder = CheckpointFolder(run)
    _, state = folder.load() or ("", State())
    name = next((own for own in state.arrays if own.startswith(array[:9])), array)
    state.arrays[name] = np.zeros(5, dtype=state.arrays[name].dtype)
    folder.save(epoch_step(2), state)
    with pytest.raises(CheckpointError, match="does not hold the state of this fit"):
        make().fit(X, Y, checkpoint_dir=run, resume=True)


def test_what_a_killed_writer_left_is_removed(run: Path) -> None:
    (run / ".viewgap-0123456789ab-01234567-new-1-abcd").mkdir()
    make().fit(X, Y, checkpoint_dir=run, resume=True)
    assert names(run) == ["epoch-000002", "epoch-000003", "fit.json", "latest.json", "lock"]


def test_a_full_disk_ends_the_fit_and_the_last_step_stays(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make().fit(X, Y)

    def full(*_: Any, **__: Any) -> None:
        raise RunError("cannot write: no space left on the device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints.model_folder, "write_folder", full)
        with pytest.raises(RunError, match="no space"):
            make().fit(X, Y, checkpoint_dir=run, resume=True)
    resumed = make().fit(X, Y, checkpoint_dir=run, resume=True)
    assert np.array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_writing_takes_a_tenth_of_the_time_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(np.arange(0, 1000, 1.0))  # every look at the clock takes a second, so writing one
    fake = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(checkpointing, "time", fake)
    saved: list[str] = []
    monkeypatch.setattr(CheckpointFolder, "save", lambda self, step, _: saved.append(step))
    make(max_epochs=25, patience=25).fit(X, Y, checkpoint_dir=tmp_path / "run")
    assert saved == [epoch_step(epoch) for epoch in (1, 10, 19, 25)]  # the last one always


# ---------------------------------------------------------------------------------- which fit


def test_an_existing_checkpoint_is_refused_without_resume(run: Path) -> None:
    with pytest.raises(CheckpointError, match="already holds a checkpoint; resume=True goes on"):
        make().fit(X, Y, checkpoint_dir=run)


@pytest.mark.parametrize(
    ("params", "data", "words"),
    [
        ({"max_epochs": 7}, (X, Y), "max_epochs was 3, and is 7 now"),
        ({"random_state": 1}, (X, Y), "random_state was 0, and is 1 now"),
        ({"random_state": None}, (X, Y), "random_state was 0, and is None now"),
        ({}, (X, 1 - Y), "other labels"),
        ({}, (X | {"b": X["b"] + 1e-9}, Y), "other values of view 'b'"),
        ({}, ({"a": X["a"], "c": X["b"]}, Y), "other names and widths of the views"),
        ({}, (viewgap.ViewSet(X, sample_ids=range(5, 35)), Y), "other sample ids"),
        ({}, ({n: v[:20] for n, v in X.items()}, Y[:20]), "other sample ids; other observed views"),
    ],
)
def test_another_fit_is_refused_with_what_differs(
    run: Path, params: dict[str, Any], data: Any, words: str
) -> None:
    with pytest.raises(CheckpointError, match="belongs to another fit") as caught:
        make(**params).fit(*data, checkpoint_dir=run, resume=True)
    assert words in str(caught.value)
    make().fit(X, Y, checkpoint_dir=run, resume=True)  # nothing was changed there


def test_another_method_or_validation_is_refused(run: Path) -> None:
    with pytest.raises(CheckpointError, match="method was 'DDINet', and is 'DICNet' now"):
        viewgap.DICNet(random_state=0, device="cpu").fit(X, Y, checkpoint_dir=run, resume=True)
    with pytest.raises(CheckpointError, match="other validation rows: names"):
        make().fit(X, Y, validation=(X, Y), checkpoint_dir=run, resume=True)


def test_verbose_callbacks_and_the_storage_of_the_data_may_differ(run: Path) -> None:
    frames = {name: np.asfortranarray(values) for name, values in X.items()}
    make(callbacks=[Callback()]).fit(frames, Y.astype(int), checkpoint_dir=run, resume=True)


def test_sparse_views_are_compared_by_what_they_store(tmp_path: Path) -> None:
    from scipy.sparse import csr_matrix

    views = {"a": csr_matrix(np.where(X["a"] > 0, X["a"], 0.0)), "b": X["b"]}
    make(max_epochs=1).fit(views, Y, checkpoint_dir=tmp_path / "run")
    make(max_epochs=1).fit(views, Y, checkpoint_dir=tmp_path / "run", resume=True)
    views["a"] = views["a"] * 2
    with pytest.raises(CheckpointError, match="other values of view 'a'"):
        make(max_epochs=1).fit(views, Y, checkpoint_dir=tmp_path / "run", resume=True)


@pytest.mark.parametrize("make_state", [lambda: None, lambda: np.random.default_rng(3)])
def test_a_drawn_seed_is_drawn_once(run: Path, tmp_path: Path, make_state: Any) -> None:
    path = tmp_path / "other"
    with pytest.raises(KeyboardInterrupt):
        make(random_state=make_state(), callbacks=[Cut()]).fit(X, Y, checkpoint_dir=path)
    found = [
        make(random_state=make_state()).fit(X, Y, checkpoint_dir=path, resume=True).predict_proba(X)
        for _ in range(2)
    ]
    assert np.array_equal(*found)
    entropy = json.loads((path / "fit.json").read_text())["entropy"]
    whole = make(random_state=np.random.default_rng(3)).fit(X, Y).predict_proba(X)
    assert np.array_equal(found[0], whole) == isinstance(entropy, list)


def test_another_version_of_torch_is_said(run: Path) -> None:
    fit = json.loads((run / "fit.json").read_text())
    fit["libraries"]["torch"] = "1.0"
    (run / "fit.json").write_text(json.dumps(fit))
    with pytest.warns(ViewgapWarning, match=r"begun with torch 1\.0"):
        make().fit(X, Y, checkpoint_dir=run, resume=True)


def test_resume_without_a_checkpoint_begins_and_says_so(tmp_path: Path) -> None:
    with pytest.warns(ViewgapWarning, match="no checkpoint in .* yet: the fit begins"):
        make().fit(X, Y, checkpoint_dir=tmp_path / "run", resume=True)
    with pytest.raises(SettingError, match="resume needs checkpoint_dir"):
        make().fit(X, Y, resume=True)


def test_a_folder_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(CheckpointError, match=r"holds 'thesis\.tex'"):
        make().fit(X, Y, checkpoint_dir=tmp_path)
    with pytest.raises(RunError, match="not a folder"):
        make().fit(X, Y, checkpoint_dir=tmp_path / "thesis.tex")
    assert names(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 9}', '{"format": 1}'])
def test_a_damaged_description_is_refused(run: Path, text: str) -> None:
    (run / "fit.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"fit\.json"):
        make().fit(X, Y, checkpoint_dir=run, resume=True)


@pytest.mark.skipif(sys.platform == "win32", reason="no flock")
def test_two_processes_do_not_share_a_checkpoint(run: Path) -> None:
    with (
        checkpoints.locked(run),
        pytest.raises(CheckpointError, match="another process is fitting"),
    ):
        make().fit(X, Y, checkpoint_dir=run, resume=True)


# ---------------------------------------------------------------------------------- real kills


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_killed_fits_end_in_the_same_bits() -> None:
    command = [sys.executable, "-m", "benchmarks.resume", "--kills", "2", "--small"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines()[-1] == "2 of 2 bit-equal", done.stdout + done.stderr
