"""`viewgap fit` on several processes: options, what torchrun and Slurm say, started and watched."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap.bench.run.runner import run_tasks
from viewgap.cli import run
from viewgap.cli.job import LAUNCHER, LOST_THE_OTHERS, find_job, first_host, refuse_one_job
from viewgap.cli.launcher import ProcessOptions, code_of_failures
from viewgap.errors import RunError, SettingError
from viewgap.model_file import load_model
from viewgap.training.processes import ProcessGroup

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "host", "MASTER_PORT": "29500"}
SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_JOB_NODELIST": "gpu[007-008]",
}
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="processes and signals of POSIX")


@pytest.fixture(autouse=True)
def started_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("SLURM_") or name in {*TORCHRUN, "LOCAL_RANK", LAUNCHER}:
            monkeypatch.delenv(name)


# ------------------------------------------------------------------ torchrun and Slurm


def test_torchrun_says_who_this_process_is() -> None:
    job = find_job({**TORCHRUN, "LOCAL_RANK": "0"})
    assert job is not None
    assert (job.rank, job.size, job.starter) == (1, 4, "torchrun")
    assert job.environment == {**TORCHRUN, "LOCAL_RANK": "0"}
    assert find_job({"PATH": "/bin"}) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"WORLD_SIZE": ""}, "the environment has RANK, but no WORLD_SIZE"),
        ({"MASTER_PORT": "", "MASTER_ADDR": ""}, "no MASTER_ADDR, MASTER_PORT"),
        ({"RANK": "4"}, r"RANK must be below WORLD_SIZE \(4\), found 4"),
        ({"RANK": "-1"}, "RANK must be a whole number from 0 on, found '-1'"),
    ],
)
def test_half_an_environment_is_refused(change: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        find_job(TORCHRUN | change)


def test_srun_says_who_this_task_is() -> None:
    job = find_job(SLURM)
    assert job is not None
    assert (job.rank, job.size, job.starter) == (5, 8, "srun")
    other = find_job(SLURM | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0"})
    assert other is not None
    assert job.environment["MASTER_ADDR"] == "gpu007"
    assert job.environment["MASTER_PORT"] == other.environment["MASTER_PORT"]
    assert job.environment["LOCAL_RANK"] == "1"
    next_step = find_job(SLURM | {"SLURM_STEP_ID": "1"})
    assert next_step is not None
    assert next_step.environment["MASTER_PORT"] != job.environment["MASTER_PORT"]


def test_what_the_user_says_of_the_meeting_counts() -> None:
    job = find_job(SLURM | {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "1234"})
    assert job is not None
    assert job.environment["MASTER_ADDR"] == "10.0.0.1"
    assert job.environment["MASTER_PORT"] == "1234"


def test_a_task_with_a_gpu_of_its_own_sees_only_that() -> None:
    job = find_job(SLURM | {"SLURM_GPUS_PER_TASK": "1"})
    assert job is not None
    assert job.environment["LOCAL_RANK"] == "0"


def test_torchrun_inside_of_a_task_of_slurm_knows_better() -> None:
    job = find_job(SLURM | TORCHRUN)
    assert job is not None
    assert job.size == 4


def test_a_batch_script_and_a_single_task_fit_alone() -> None:
    step = {"SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"}
    assert find_job({name: value for name, value in SLURM.items() if name not in step}) is None
    assert find_job(SLURM | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "1"}) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"SLURM_NTASKS": "4"}, r"8 tasks \(SLURM_STEP_NUM_TASKS\), and that it has 4"),
        ({"SLURM_PTY_PORT": "4321"}, "a shell that srun --pty opened as one of 8 tasks"),
        ({"SLURM_PROCID": ""}, "SLURM_PROCID must be a whole number"),
        ({"SLURM_JOB_NODELIST": "[3-4]"}, "set MASTER_ADDR to the host"),
        ({"SLURM_JOB_NODELIST": ""}, "set MASTER_ADDR to the host"),
    ],
)
def test_where_slurm_can_be_understood_in_two_ways_it_is_refused(
    change: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        find_job(SLURM | change)


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("alpha", "alpha"),
        ("alpha,beta", "alpha"),
        ("n[3,7-9]", "n3"),
        ("rack2-n[010-012]-ib,login", "rack2-n010-ib"),
        ("a-b.c,d[1-2]", "a-b.c"),
    ],
)
def test_the_first_host_of_a_list(hosts: str, first: str) -> None:
    assert first_host(hosts) == first


def test_lists_that_are_not_understood_are_refused() -> None:
    with pytest.raises(SettingError, match="MASTER_ADDR"):
        first_host("rack[1-2]n[3-4]")


# ------------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpus", "2", "--processes", "2"], "give one"),
        (["--gpus", "2", "--device", "cpu"], "--gpus trains on device cuda"),
        (["--processes", "2", "--device", "cuda"], "--processes trains on device cpu"),
        (["--processes", "2", "--set", "device=cuda:0"], "to be 'cuda:0'"),
        (["--nodes", "2"], "--nodes M also needs"),
        (["--nodes", "2", "--processes", "2", "--node-rank", "1"], "--rendezvous HOST:PORT"),
        (["--processes", "2", "--node-rank", "1"], "--node-rank is for several hosts"),
        (["--processes", "2", "--method", "random_forest"], "random_forest computes in one"),
    ],
)
def test_options_that_contradict_each_other_are_misuse(
    options: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    method = [] if "--method" in options else ["--method", "ddinet"]
    assert run(["fit", "data.npz", "--out", str(tmp_path / "m"), *method, *options]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ({"node_rank": 2, "rendezvous": "host:1"}, r"--node-rank must be below --nodes \(2\)"),
        ({"node_rank": 1, "rendezvous": "host"}, "--rendezvous must be HOST:PORT, found 'host'"),
        ({"node_rank": 1, "rendezvous": "host:70000"}, "HOST:PORT"),
    ],
)
def test_where_hosts_meet_is_checked(where: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        ProcessOptions(processes=1, nodes=2, **where).job({})


@pytest.mark.parametrize(("there", "words"), [(0, "has no CUDA device"), (1, "machine has 1")])
def test_gpus_that_are_not_there_are_refused(
    there: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: there > 0)
    monkeypatch.setattr("torch.cuda.device_count", lambda: there)
    with pytest.raises(SettingError, match=f"--gpus 2, but this .*{words}"):
        ProcessOptions(gpus=2).job({})


def test_processes_are_not_started_twice() -> None:
    with pytest.raises(SettingError, match="torchrun has started 4 processes of this fit already"):
        ProcessOptions(processes=2).job(TORCHRUN)
    assert ProcessOptions(processes=1).job(TORCHRUN) is None  # alone, whatever is around
    worker = ProcessOptions(processes=4).job(TORCHRUN | {LAUNCHER: "/tmp/nowhere"})
    assert worker is not None
    assert worker.starter == "viewgap"


COMMANDS = {
    "tune": ["tune", "data.npz", "--out", "study"],
    "compare": ["compare", "data.npz", "--out", "records"],
    "bench run": ["bench", "run", "experiment.toml", "--out", "records"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_of_many_fits_are_no_job_of_torchrun(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable, value in TORCHRUN.items():
        monkeypatch.setenv(variable, value)
    assert run(COMMANDS[name]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert f"torchrun has started 4 processes, which share one fit, and `viewgap {name}`" in printed
    assert "with one --out DIR share the fits" in printed


def test_tasks_of_srun_share_many_fits_by_a_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse_one_job(SLURM, "tune", Path("study"))
    refuse_one_job(SLURM | {"SLURM_STEP_NUM_TASKS": "1"}, "compare", None)
    refuse_one_job(SLURM | {"SLURM_PTY_PORT": "4321"}, "compare", None)
    refuse_one_job(TORCHRUN | {"RANK": "0", "WORLD_SIZE": "1"}, "compare", None)
    for variable, value in SLURM.items():
        monkeypatch.setenv(variable, value)
    assert run(["compare", "data.npz"]) == 2
    assert "srun has started 8 tasks" in " ".join(capsys.readouterr().err.split())


def test_many_fits_are_refused_inside_of_a_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    group = ProcessGroup(0, 2, torch.device("cpu"))
    monkeypatch.setattr("viewgap.methods.fitting.processes.several_processes", lambda: group)
    X, y = {"a": np.ones((30, 2))}, np.ones((30, 1))
    for call, words in (
        (lambda: viewgap.compare(X, y), "compare was called in a group of 2 processes"),
        (lambda: viewgap.tune(X, y, trials=1), "tune was called in a group of 2 processes"),
        (lambda: run_tasks([], tmp_path / "records"), "run_tasks was called in a group"),
    ):
        with pytest.raises(SettingError, match=words):
            call()
    assert not (tmp_path / "records").exists()


# ------------------------------------------------------------------ what processes end with


@dataclass
class Failure:
    exitcode: int
    timestamp: int = 100
    pid: int = 4242


def test_a_signal_is_the_cause_of_what_failed_with_it() -> None:
    lost = {0: Failure(LOST_THE_OTHERS), 1: Failure(-9, 101)}
    words = r"process 1 of 2 \(pid 4242\) was ended by SIGKILL .*to go on: viewgap fit x --resume"
    with pytest.raises(RunError, match=words):
        code_of_failures(lost, 2, "viewgap fit x --resume")
    with pytest.raises(RunError, match="with --checkpoint DIR a fit can go on"):
        code_of_failures(lost, 2, None)


def test_what_has_said_why_it_ended_is_not_said_again() -> None:
    late = {0: Failure(2), 1: Failure(-9, 140)}  # did not end when it was asked to
    assert code_of_failures(late, 2, None) == 2
    assert (
        code_of_failures({0: Failure(143), 1: Failure(LOST_THE_OTHERS), 2: Failure(1)}, 3, "") == 1
    )
    assert code_of_failures({0: Failure(130)}, 2, None) == 130
    assert code_of_failures({0: Failure(143)}, 2, None) == 143


def test_a_process_that_ends_badly_after_the_model_was_saved_is_told_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert code_of_failures({1: Failure(-11)}, 2, None, first_is_here=True) == 0
    assert "process 1 of 2 (pid 4242) was ended by SIGSEGV after" in capsys.readouterr().err
    with pytest.raises(RunError, match="SIGSEGV"):
        code_of_failures({1: Failure(-11)}, 2, None)  # process 0 is on another host


def test_processes_that_only_lost_another_host_say_so() -> None:
    with pytest.raises(RunError, match="on another host has ended"):
        code_of_failures({0: Failure(LOST_THE_OTHERS)}, 2, None)


# ------------------------------------------------------------------ two processes


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a fit on small data, without its model."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    views: dict[str, Any] = {"a": rng.normal(size=(60, 3)), "b": rng.normal(size=(60, 2))}
    views["b"][rng.random(60) < 0.4] = np.nan
    labels = (views["a"][:, :2] > 0).astype(float)
    labels[rng.random((60, 2)) < 0.3] = np.nan
    np.savez("data.npz", labels=labels, **views)
    small = ["n_networks=1", "embedding=16", "hidden=[32]", "codebook_size=16"]
    settings = [*small, "batch_size=16", "precision=float64"]
    return [
        "fit",
        "data.npz",
        "--method",
        "scsd",
        "--missing",
        "missing_view",
        *as_options(settings),
    ]


def as_options(settings: list[str]) -> list[str]:
    return [word for text in settings for word in ("--set", text)]


def answers(path: str) -> Any:
    model = load_model(path)
    views = {name: np.load("data.npz")[name] for name in ("a", "b")}
    return model.set_params(nan="missing_view").predict_proba(views)


def when_there_is(pattern: str, signals: list[int], rank: int | None) -> threading.Thread:
    """Send signals once the file is there: to a process of the fit, or (None) to this one."""

    def wait() -> None:
        end = time.monotonic() + 180
        while not list(Path().glob(pattern)) and time.monotonic() < end:
            time.sleep(0.01)
        process = os.getpid()
        if rank is not None:
            files = Path(os.environ[LAUNCHER]).glob("*.pid")
            process = next(int(own.stem) for own in files if own.read_text() == str(rank))
        for number in signals:
            os.kill(process, number)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@needs_posix
def test_two_processes_fit_the_model_of_one(
    data: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    command = [*data, "--set", "max_epochs=5"]
    assert run([*command, "--out", "alone"]) == 0
    capfd.readouterr()
    assert run([*command, "--out", "both", "--processes", "2"]) == 0
    printed = capfd.readouterr().err
    assert printed.count("scsd fitted on") == 1
    np.testing.assert_allclose(answers("both"), answers("alone"), atol=1e-6)
    assert sorted(os.listdir()) == ["alone", "both", "data.npz"]


@needs_posix
def test_two_processes_fit_the_ensemble_of_one(
    data: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    members = ["--set", 'methods=["random_forest", "late_fusion_ridge"]', "--time-budget", "1h"]
    command = ["fit", "data.npz", "--missing", "missing_view", *members]
    assert run([*command, "--out", "alone"]) == 0
    capfd.readouterr()
    assert run([*command, "--out", "both", "--processes", "2"]) == 0
    assert capfd.readouterr().err.count("ensemble fitted on") == 1
    np.testing.assert_array_equal(answers("both"), answers("alone"))


@needs_posix
def test_errors_of_the_data_are_said_once(
    data: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    np.savez("data.npz", view0=np.ones((3, 2)))
    assert run([*data, "--out", "model", "--processes", "2"]) == 1
    assert capfd.readouterr().err.splitlines() == [
        "viewgap: data.npz holds no labels; give them with --labels FILE, or --label-columns where "
        "they are among the columns"
    ]


@needs_posix
def test_a_killed_process_ends_the_fit_and_one_process_goes_on(
    data: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    command = [*data, *as_options(["max_epochs=100", "patience=100"])]
    assert run([*command, "--out", "whole"]) == 0
    killer = when_there_is("run/latest.json", [signal.SIGKILL], rank=1)
    kept = [*command, "--out", "model", "--checkpoint", "run"]
    capfd.readouterr()
    assert run([*kept, "--processes", "2"]) == 1
    killer.join()
    last = capfd.readouterr().err.splitlines()[-1]
    assert "process 1 of 2 (pid " in last
    assert "was ended by SIGKILL" in last
    go_on = ["viewgap", *kept, "--processes", "2", "--resume"]
    assert last.endswith(f"to go on: {shlex.join(go_on)}")
    assert not Path("model").exists()
    assert run([*kept, "--resume"]) == 0
    np.testing.assert_allclose(answers("model"), answers("whole"), atol=1e-6)


@needs_posix
@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False], ids=["one command", "two commands"])
def test_tasks_of_srun_fit_one_model_by_one_command(
    data: list[str],
    same: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    step = SLURM | {"SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}
    step |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "viewgap", *data, "--set", "max_epochs=2", "--device", "cpu"]
    tasks = []
    for number, model in enumerate(["model", "model" if same else "other"]):
        monkeypatch.setenv("SLURM_PROCID", str(number))
        tasks.append(subprocess.Popen([*command, "--out", model], stderr=subprocess.PIPE))
    (_, first), (_, second) = (task.communicate(timeout=180) for task in tasks)
    assert [task.returncode for task in tasks] == [0 if same else 2, 0]
    assert second == b""
    assert Path("model").exists() == same
    differ = b"process 1 of 2 was started with other words than process 0"
    assert (differ in first) == (not same)


@needs_posix
@pytest.mark.slow
@pytest.mark.parametrize("method", ["scsd", "ensemble"])
def test_a_signal_to_the_launcher_saves_the_best_so_far(
    method: str, data: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    long, kept = {"max_epochs": 100000, "patience": 100000}, "run"
    command = [*data, *as_options([f"{name}={value}" for name, value in long.items()])]
    if method == "ensemble":  # the second process has the network, and the first one waits for it
        members = {"random_forest": {}, "scsd": long | {"n_networks": 2, "embedding": 16}}
        command = ["fit", "data.npz", "--missing", "missing_view"]
        command += as_options([f"methods={json.dumps(members)}"])
        kept = "run/members/scsd"
    command += ["--out", "model"]
    when_there_is(f"{kept}/latest.json", [signal.SIGINT], rank=None)
    try:
        assert run([*command, "--processes", "2", "--checkpoint", "run"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    printed = capfd.readouterr().err
    assert printed.count("stopping at the end of this epoch") == 1
    assert printed.count("viewgap: interrupted") == 1
    assert "model: saved as it was when the signal came" in printed
    assert load_model("model").interrupted_
