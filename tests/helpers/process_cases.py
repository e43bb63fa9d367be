"""Small fits that several processes do together, and the program that each of them runs.

python process_cases.py fork WORLD_SIZE FOLDER CASE ... : every case is fitted, and what came out of
every process is written to FOLDER/CASE-RANK.npz; an error to FOLDER/CASE-RANK.txt.

python process_cases.py compare WORLD_SIZE OUT.json: how far every case is from one process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
BATCH = 8
N = 5 * BATCH + 7  # the last batch is shorter
FEW = 5 * BATCH + 3  # of four processes, one has no row of the last batch
# Adam blows a gradient that is nothing but rounding up to a step of the learning rate, as that of a
# bias in front of a normalisation: the rates are small, so that what rounding does stays small.
SIZES: dict[str, dict[str, Any]] = {
    "SCSD": {"hidden": (12,), "embedding": 8, "code_dim": 4, "codebook_size": 9},
    "AIMNet": {"embedding": 8, "heads": 2, "learning_rate": 0.05},
    "DDINet": {"embedding": 6, "wide": 8, "learning_rate": 3e-3},
    "DICNet": {"embedding": 6, "wide": 8, "learning_rate": 3e-3},
    "DRLS": {"embedding": 6, "hidden": (8,), "dropout": 0.2, "view_dropout": 0.2},
    "DVSM": {"embedding": 6, "neighbours": 2},
    "LMVCAT": {"embedding": 8, "heads": 2, "layers": 1, "feed_forward": 8, "learning_rate": 2e-3},
    "MTD": {"embedding": 6, "wide": 8, "learning_rate": 1e-3},
    "PCVE": {"embedding": 6, "hidden": (8,), "dropout": 0.2, "warm_up": 3},
    "RANK": {"embedding": 6, "wide": 8, "learning_rate": 1e-3},
    "SIMM": {"embedding": 6},
    "SIP": {"embedding": 6, "hidden": (8,), "dropout": 0.2},
    "TDLSR": {"embedding": 6, "hidden": (8,), "references": 9},
}
SIZES |= {name: {"learning_rate": 1e-4} | SIZES[name] for name in ("SCSD",)}
SIZES |= {name: {"learning_rate": 1e-6} | SIZES[name] for name in ("DRLS", "PCVE", "SIP", "TDLSR")}


def data(n: int = N, seed: int = 0) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Three views with missing rows, and labels of which a third is not known."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, 3))
    views = {
        name: hidden @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=(n, d))
        for name, d in (("a", 6), ("b", 4), ("c", 5))
    }
    Y = (hidden @ rng.normal(size=(3, 4)) > 0).astype(float)
    for number, values in enumerate(views.values()):
        values[(rng.random(n) < 0.25) & (np.arange(n) % 3 != number)] = np.nan
    Y[rng.random(Y.shape) < 0.3] = np.nan
    return views, Y


def one_sided() -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """The first half of every batch lacks a view, the second half has no label, if not shuffled."""
    views, Y = data(40)
    first = np.arange(40) % BATCH < BATCH // 2
    views["b"][first] = np.nan
    views["b"][~first] = np.where(np.isnan(views["b"][~first]), 0.5, views["b"][~first])
    views["a"][first] = np.where(np.isnan(views["a"][first]), 0.5, views["a"][first])
    Y[~first] = np.nan
    return views, Y


def make(method: str, **params: Any) -> Any:
    """An estimator of the sizes above; fits of about fifty steps."""
    import viewgap

    of_network = {"batch_size": BATCH, "max_epochs": 9, "precision": "float64", "device": "cpu"}
    of_network |= {"validation_fraction": 0.0, "random_state": 3, **SIZES.get(method, {})}
    return getattr(viewgap, method)(**(of_network if method in SIZES else {}) | params)


def held_out() -> tuple[Any, Any]:
    """Rows to stop by."""
    return data(17, seed=1)


def scsd(**params: Any) -> Callable[[], Any]:
    """A fit of SCSD."""
    return lambda: make("SCSD", **params).fit(*data())


def committee(**params: Any) -> Callable[[], Any]:
    """Three networks that leave out a part of the rows each, with pooling and early stopping."""
    return lambda: make("SCSD", **(COMMITTEE | params)).fit(*data())


def simple(method: str, n: int = N, **params: Any) -> Any:
    """A fit of any method."""
    return make(method, **params).fit(*data(n))


OTHERS = tuple(name for name in SIZES if name != "SCSD")


def begin(folder: Path, **params: Any) -> None:
    """The committee, interrupted after its fifth epoch."""
    from viewgap.training.callbacks import Callback

    class Interrupt(Callback):
        def on_epoch_begin(self, context: Any) -> None:
            if context.epoch == 6:
                raise KeyboardInterrupt

    model = make("SCSD", **COMMITTEE, callbacks=[Interrupt()], **params)
    with contextlib.suppress(KeyboardInterrupt):
        model.fit(*data(), checkpoint_dir=folder)
        raise AssertionError("the fit was not interrupted")


def go_on(folder: Path) -> Any:
    """The same committee, from the checkpoint of the interrupted one."""
    assert (folder / "latest.json").exists()
    return make("SCSD", **COMMITTEE).fit(*data(), checkpoint_dir=folder, resume=True)


def begun_elsewhere() -> Any:
    """Goes on with a fit that another number of processes has begun, in this folder."""
    return go_on(Path(os.environ["VIEWGAP_BEGUN"]))


def begun_here(suffix: str = "") -> Any:
    """Begins a fit for another number of processes to go on with."""
    begin(Path(os.environ["VIEWGAP_BEGIN"] + suffix))
    return make("LabelFrequency").fit(*data())


def stopped_by_one() -> Any:
    """The last process asks to stop after the third epoch."""
    import viewgap
    from viewgap.training.callbacks import Callback
    from viewgap.training.processes import current_processes

    class Stop(Callback):
        def on_epoch_end(self, context: Any) -> None:
            group = current_processes()
            if context.epoch == 3 and (group is None or group.rank == group.world_size - 1):
                context.request_stop()

    assert viewgap.__version__
    return make("SCSD", n_networks=1, callbacks=[Stop()]).fit(*data())


def refusals() -> Any:
    """Every process refuses other data on one of them, and a network that shares no batches."""
    import pytest

    import viewgap
    from viewgap.errors import InputError, SettingError
    from viewgap.training.processes import current_processes

    group = current_processes()
    if group is None:
        return make("LabelFrequency").fit(*data())
    views, Y = data()
    views["b"][2] = group.rank
    with pytest.raises(InputError, match="view 'b'"):
        make("SIMM").fit(views, Y)

    class Unaware(viewgap.SIMM):
        network_type = type("Unaware", (viewgap.SIMM.network_type,), {"shares_batches": False})

    with pytest.raises(SettingError, match="shares_batches"):
        Unaware(max_epochs=1, device="cpu").fit(*data())
    return make("LabelFrequency").fit(*data())


def ensemble(time_budget: float | None = None, **fit: Any) -> Any:
    """Three members of different kinds, one of them a committee."""
    small = {"max_epochs": 3, "n_networks": 2, "precision": "float64", "batch_size": BATCH}
    methods = {"random_forest": {"n_estimators": 5}, "late_fusion_ridge": {}}
    methods |= {"scsd": SIZES["SCSD"] | small}
    params = {"methods": methods, "random_state": 3, "device": "cpu", "time_budget": time_budget}
    return make("Ensemble", **params).fit(*data(), **fit)


def ensemble_with_an_error(folder: Path) -> Any:
    """The second member fails, in one process; the others are kept."""
    import pytest

    from viewgap.errors import RunError
    from viewgap.methods.late_fusion_ridge import LateFusionRidge

    class UnreadableError(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} and {two}")

    def fail(error: Exception) -> Any:
        def fit(*_: Any) -> None:
            raise error

        return fit

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LateFusionRidge, "_fit", fail(ZeroDivisionError("of a member")))
        with pytest.raises(ZeroDivisionError, match="of a member"):
            ensemble(checkpoint_dir=folder)
        patch.setattr(LateFusionRidge, "_fit", fail(UnreadableError(1, 2)))
        with pytest.raises((UnreadableError, RunError), match="1 and 2"):
            ensemble()
    return make("LabelFrequency").fit(*data())


def ensemble_stopped_in_one() -> Any:
    """A signal to one process: what it has not begun is left out, the rest is stacked."""

    import pytest

    from viewgap import interruption
    from viewgap.ensemble.estimator import Ensemble
    from viewgap.training.processes import current_processes

    def say(self: Any, text: str) -> None:
        if text == "fitting late_fusion_ridge":
            patch.setattr(interruption._listener, "requested", signal.SIGTERM)

    group = current_processes()
    if group is not None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(interruption._listener, "requested", None)
            patch.setattr(Ensemble, "_say", say)
            model = ensemble()
        assert model.interrupted_
        board = model.leaderboard_.set_index("method")
        left_out = ["late_fusion_ridge", *["scsd"] * (group.committee == "deal")]
        assert list(board.index[board.note == "left out: interrupted"]) == left_out
        assert not board.note["random_forest"]
    return make("LabelFrequency").fit(*data())


def fixed(fit: Callable[[], Any]) -> Any:
    """A fit whose batches have one shape, as those of steps that a GPU replays."""
    import pytest

    from viewgap.training.steps import epoch as steps

    def make_steps(state: Any, source: Any, settings: Any, *_: Any, dealt: Any = None) -> Any:
        if dealt is not None and not dealt.numbers:  # a process without a network records nothing
            return steps.PlainSteps(state, source, settings, dealt=dealt)
        return steps.ReplayedSteps(state, source, settings, dealt)

    from viewgap.training import loop
    from viewgap.training.steps import dealt as dealt_steps

    with pytest.MonkeyPatch.context() as patch:
        for module in (loop, dealt_steps):
            patch.setattr(module, "make_steps", make_steps)
        return fit()


def ensemble_dealt_out() -> Any:
    """The committee is trained by all processes, the other members by one each."""
    import pytest

    from viewgap.ensemble import estimator
    from viewgap.training.processes import current_processes
    from viewgap.training.steps.dealt import DealtSteps

    fit, run = estimator.fit_member, DealtSteps.run
    fitted: list[str] = []

    def counted(name: str, *rest: Any) -> Any:
        fitted.append(name)
        return fit(name, *rest)

    def dealt(self: Any, batches: Any) -> Any:
        fitted.append("epoch")
        return run(self, batches)

    group = current_processes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimator, "fit_member", counted)
        patch.setattr(DealtSteps, "run", dealt)
        model = ensemble()
    if group is not None:
        assert fitted[-4:] == ["scsd", "epoch", "epoch", "epoch"]
        counts = group.gather_objects(len(fitted))
        assert sum(counts) == 2 + 4 * group.world_size
        assert max(counts) == 5
    return model


def ensemble_out_of_time() -> Any:
    """By the clock of the last process the time is over: what it fits, and takes part in, ends."""
    import time
    from types import SimpleNamespace

    import pytest

    from viewgap.ensemble import schedule
    from viewgap.training.processes import current_processes

    group = current_processes()
    if group is None:
        return make("LabelFrequency").fit(*data())
    ahead = 1e6 if group.rank == group.world_size - 1 else 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "time", clock)
        model = ensemble(time_budget=1000.0)
    notes = model.leaderboard_.set_index("method").note
    assert all(own == notes.to_dict() for own in group.gather_objects(notes.to_dict()))
    begun = "left out: not enough time" if group.committee == "deal" else ""
    assert notes["scsd"] == begun
    others = notes[["random_forest", "late_fusion_ridge"]]
    of_the_last = {2: 1 if group.committee == "deal" else 2, 4: 0}  # the committee is dealt first
    assert sum(others.str.startswith("left out: needs about")) == of_the_last[group.world_size]
    assert sum(others == "") == 2 - of_the_last[group.world_size]
    assert not model.interrupted_
    return make("LabelFrequency").fit(*data())


COMMITTEE = {"n_networks": 3, "patience": 4, "validation_fraction": 0.2}
CASES: dict[str, Callable[[], Any]] = {
    "scsd": scsd(n_networks=1, dropout=0.2),
    "scsd-few": partial(simple, "SCSD", FEW, n_networks=1, dropout=0.2),
    "scsd-paper-few": partial(simple, "SCSD", FEW, profile="paper", dropout=0.2),
    "scsd-stopped": lambda: make("SCSD", n_networks=1, patience=3).fit(*data(), held_out()),
    "scsd-paper": scsd(profile="paper"),
    "scsd-equations": scsd(profile="equations"),
    "scsd-paper-dropout": scsd(profile="paper", dropout=0.3, input_dropout=0.1),
    "scsd-label-blocks": scsd(n_networks=1, label_block=2, correlation_labels=3),
    "scsd-sampled-pairs": scsd(
        n_networks=1, pairs="sampled", max_grad_norm=0.5, learning_rate=1e-5
    ),
    "one-sided": lambda: make("SCSD", n_networks=1, shuffle=False).fit(*one_sided()),
    "one-sided-paper": lambda: make("SCSD", profile="paper", shuffle=False).fit(*one_sided()),
    "committee": committee(),
    "dealt": committee(n_networks=3),
    "dealt-clipped": committee(n_networks=3, max_grad_norm=0.1, cross_fit=False, ema_decay=0.0),
    "dealt-rank": lambda: make("RANK", n_networks=3, patience=4).fit(*data(), held_out()),
    "stopped-by-one": stopped_by_one,
    "refusals": refusals,
    "ensemble": ensemble,
    "ensemble-stopped-in-one": ensemble_stopped_in_one,
    "ensemble-out-of-time": ensemble_out_of_time,
    "dealt-ensemble": ensemble_dealt_out,
    "dealt-ensemble-stopped-in-one": ensemble_stopped_in_one,
    "dealt-ensemble-out-of-time": ensemble_out_of_time,
    "ridge": lambda: make("LateFusionRidge", random_state=0).fit(*data()),
    "forest": lambda: make("RandomForest", random_state=0, n_estimators=5).fit(*data()),
    **{name.lower(): partial(simple, name) for name in SIZES if name != "SCSD"},
    **{f"{name.lower()}-paper": partial(simple, name, profile="paper") for name in OTHERS},
}

# Some processes have no row of a batch. Few steps: norms over so few rows blow rounding up.
# MTD only without its contrast: codes of a single row are zero, and their direction is rounding.
CALM: dict[str, dict[str, Any]] = {"MTD": {"beta": 0.0}}
CASES |= {
    f"{name.lower()}{suffix}-few": partial(
        simple, name, FEW, profile=profile, max_epochs=2, **CALM.get(name, {})
    )
    for name in OTHERS
    for suffix, profile in (("", "default"), ("-paper", "paper"))
}
FLOAT32 = {
    f"{name.lower()}-float32": partial(simple, name, precision="highest", n_networks=1, **more)
    for name, more in {
        "SCSD": {"learning_rate": 1e-6},
        **{name: {} for name in ("AIMNet", "DDINet", "DICNet", "DVSM", "SIMM")},
    }.items()
}
CASES |= FLOAT32
# The same with batches of one shape, filled up.
FIXED = (
    *("scsd", "scsd-few", "scsd-paper", "scsd-paper-dropout", "scsd-label-blocks", "committee"),
    *("scsd-sampled-pairs", "one-sided", "one-sided-paper", "dealt", "dealt-clipped", "dealt-rank"),
    *(f"{name.lower()}{suffix}" for name in OTHERS for suffix in ("", "-few", "-paper-few")),
)
CASES |= {f"{case}-fixed": partial(fixed, CASES[case]) for case in FIXED}
ELSEWHERE: dict[str, Callable[[], Any]] = {
    "begun-elsewhere": begun_elsewhere,
    "begun-here": begun_here,
    "ensemble-begun-here": lambda: ensemble_with_an_error(Path(os.environ["VIEWGAP_BEGIN"])),
    "dealt-begun-here": partial(begun_here, "-dealt"),
}


def arrays_of(model: Any) -> Arrays:
    """All that a fit has left: weights, buffers and history."""
    state = model._get_state()
    history = {f"history/{k}": np.array(v) for k, v in getattr(model, "history_", {}).items()}
    counts = [getattr(model, name, 0) for name in ("n_epochs_", "best_epoch_")]
    return {**state.arrays, **history, "counts": np.array(counts)}


def start(world_size: int, folder: Path, cases: Sequence[str], timeout: float = 240) -> None:
    """Run the cases in so many processes; AssertionError with what they said if one fails."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, __file__, "fork", str(world_size), str(folder), *cases]
    log = folder / "log.txt"
    with log.open("w") as file:
        parent = subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, start_new_session=True
        )
    try:
        code = parent.wait(timeout=timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)  # and all that it has forked
        parent.wait()
    assert code == 0, log.read_text()[-3000:]


def fork(world_size: str, folder: str, *cases: str) -> None:
    """All processes of a world: what takes seconds to import is imported once, before the fork."""
    import torch.distributed

    import viewgap

    assert torch.distributed.is_available()
    assert [getattr(viewgap, name) for name in SIZES]
    children = []
    for rank in range(int(world_size)):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                main(str(rank), world_size, folder, *cases)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    sys.exit(any(os.waitpid(child, 0)[1] for child in children))


def result(folder: Path, case: str, rank: int) -> Arrays:
    """What a process has written; AssertionError with its error."""
    error = folder / f"{case}-{rank}.txt"
    assert not error.exists(), error.read_text()[-3000:]
    with np.load(folder / f"{case}-{rank}.npz") as found:
        return dict(found)


def difference(one: Arrays, other: Arrays) -> float:
    """The largest difference of two numbers; AssertionError if they are not comparable."""
    assert one.keys() == other.keys()
    gaps = [0.0]
    for name, value in one.items():
        assert value.shape == other[name].shape, name
        assert np.array_equal(np.isnan(value), np.isnan(other[name])), name
        gaps.append(float(np.nanmax(np.abs(value.astype(float) - other[name]), initial=0.0)))
    return max(gaps)


def compare(world_size: str, out: str) -> None:
    """Keep the largest difference of every case, in all that a fit leaves behind."""
    from viewgap.errors import ViewgapWarning

    warnings.simplefilter("ignore", ViewgapWarning)
    with tempfile.TemporaryDirectory() as name:
        folder, count = Path(name) / "run", int(world_size)
        start(count, folder, tuple(CASES), timeout=1200)
        found = {
            case: max(difference(arrays_of(fit()), result(folder, case, r)) for r in range(count))
            for case, fit in CASES.items()
        }
    for case, gap in found.items():
        print(f"{case:28} {gap:.1e}")
    kept = {"processes": count, "largest difference from one process": found}
    Path(out).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main(rank: str, world_size: str, folder: str, *cases: str) -> None:
    """One process."""
    from viewgap.errors import ViewgapWarning
    from viewgap.training.processes import process_group

    warnings.simplefilter("ignore", ViewgapWarning)
    place = f"file://{Path(folder) / 'meeting'}"
    environment = {"RANK": rank, "WORLD_SIZE": world_size, "MASTER_ADDR": place, "MASTER_PORT": "0"}
    for case in cases:
        dealt = "deal" if case.startswith("dealt") else "share"
        own = environment | {"MASTER_ADDR": f"{place}-{case}"}
        with process_group("gloo", timeout=60, environment=own, committee=dealt):
            path = Path(folder) / f"{case}-{rank}"
            try:
                fit = ELSEWHERE[case] if case in ELSEWHERE else CASES[case]
                np.savez(path.with_suffix(".npz"), **arrays_of(fit()))
            except Exception:
                path.with_suffix(".txt").write_text(traceback.format_exc())
                if "lost each other" in path.with_suffix(".txt").read_text():
                    raise


if __name__ == "__main__":
    {"compare": compare, "fork": fork}[sys.argv[1]](*sys.argv[2:])
