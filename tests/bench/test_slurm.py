"""Array jobs of Slurm: the script, what is refused, and a whole run with a small sbatch."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from viewgap.bench.results.journal import append_line, read_lines
from viewgap.bench.results.record import FAILURES, RECORDS, Record, read_records
from viewgap.bench.run import slurm
from viewgap.bench.run.claims import FOLDER, Claims
from viewgap.bench.run.experiment import read_experiment
from viewgap.bench.run.runner import run_tasks
from viewgap.cli import run
from viewgap.errors import DataFileError, RunError, SettingError

CONFIG = """
[experiment]
dataset = "synthetic"
dataset_options = {n_samples = 60}
folds = 4
[[method]]
name = "random_forest"
params = {n_estimators = 20}
"""
NASTY = """a 'b' "c" $HOME `d` %A ü"""
# What sbatch does, on this machine: it runs the jobs of the array, here one after the other. With
# KILL_FIRST, the first job is killed as soon as it has claimed a task.
FAKE = """
import os, re, signal, subprocess, sys, time
*options, script = sys.argv[1:]
given = dict(option.removeprefix("--").partition("=")[::2] for option in options)
text = open(script, encoding="utf-8").read()
last = int(re.search(r"^#SBATCH --array=0-(\\d+)", text, re.M)[1])
claims = os.path.join(os.path.dirname(os.path.dirname(script)), "claims")

def has_claim():
    return os.path.isdir(claims) and bool(os.listdir(claims))

for number in range(last + 1):
    own = {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": str(number)}
    letters = {"A": "4711", "a": str(number), "%": "%"}
    log = re.sub("%(.)", lambda found: letters[found[1]], given["output"])
    with open(log, "wb") as file:
        job = subprocess.Popen(
            ["bash", script], env=os.environ | own, stdout=file, stderr=file, start_new_session=True
        )
        if number == 0 and "KILL_FIRST" in os.environ:
            end = time.monotonic() + 120
            while job.poll() is None and not has_claim() and time.monotonic() < end:
                time.sleep(0.001)
            os.killpg(job.pid, signal.SIGKILL)
        job.wait(timeout=240)
print("4711;here" if "parsable" in given else "Submitted batch job 4711")
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / NASTY
    folder.mkdir()
    path = folder / "experiment of mine.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def no_sbatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


def put_on_path(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(exist_ok=True)
    program = folder / "sbatch"
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def dry_run(config: Path, *options: str) -> tuple[int, Path]:
    out = config.parent / "out"
    code = run(["bench", "submit", str(config), "--out", str(out), "--dry-run", *options])
    return code, out / "slurm" / "array.sh"


# ---------------------------------------------------------------------------------- whole runs


@pytest.mark.slow
def test_array_jobs_share_the_tasks_and_a_killed_one_loses_nothing(
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_on_path(tmp_path / "bin", FAKE, monkeypatch)
    monkeypatch.setenv("KILL_FIRST", "1")
    out = config.parent / "out"
    command = ["bench", "submit", str(config), "--out", str(out), "--array", "2"]
    assert run([*command, "--sbatch", "partition=tiny"]) == 0
    told = capsys.readouterr()
    assert told.out.strip() == "4711"
    assert "job 4711: 2 array jobs for 4 tasks" in told.err
    tasks = read_experiment(config)
    logs = [(out / "slurm" / f"4711_{number}.log").read_text() for number in range(2)]
    assert "was claimed by process" in logs[1], logs  # of the first job, which was killed
    assert "array job 1 of 4711" in logs[1]
    lines = Counter(entry["task"] for entry in read_lines(out / RECORDS))
    assert lines == Counter({task.id: 1 for task in tasks})
    assert not list((out / FOLDER).iterdir())
    run_tasks(tasks, tmp_path / "here")
    here = {record.task: record.metrics for record in read_records(tmp_path / "here")}
    assert {record.task: record.metrics for record in read_records(out)} == here

    assert run(["bench", "status", str(config), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "4 done, 0 running, 0 failed, 0 left" in told.out
    assert "job 4711 on here: 2 array jobs, submitted 20" in told.out
    assert run([*command, "--json"]) == 0  # again: nothing is left to submit
    told = capsys.readouterr()
    assert json.loads(told.out)["submitted"] is None
    assert "nothing to submit" in told.err


def test_status_tells_what_is_done_running_failed_and_left(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, out = read_experiment(config), config.parent / "out"
    command = ["bench", "status", str(config), "--out", str(out), "--json"]
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["left"] == 4
    assert not out.exists()  # it only looks
    run_tasks(tasks[:1], out)
    record = read_lines(out / RECORDS)[0]
    kept = ("dataset", "method", "profile", "fold", "seed", "task", "settings")
    failure = {name: record[name] for name in kept} | {"error": "no memory", "traceback": ""}
    entries = [failure | {"task": task.id} for task in tasks[1:3]]
    (out / FAILURES).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    claims = Claims(out, out / RECORDS)
    assert claims.take(tasks[2].id)  # it failed, and is being tried again
    capsys.readouterr()
    assert run(command) == 0
    found = json.loads(capsys.readouterr().out)
    counts = {"done": 1, "running": 1, "failed": 1, "left": 1}
    assert {name: found[name] for name in counts} == counts
    (row,) = found["tasks"]
    assert {name: row[name] for name in counts} == counts
    assert run(command[:-1]) == 0
    assert "FAILED synthetic · random_forest (default) · fold 1" in capsys.readouterr().out
    assert run([*command, "--folds", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["left"] == 0


def test_status_tells_what_is_left_in_minutes_of_a_device(
    config: Path, make_record: Callable[..., Record], capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, out = read_experiment(config), config.parent / "out"
    first = tasks[0]
    usual = {"method": first.method, "dataset": first.dataset, "settings": first.settings}
    gpu = {"device": "NVIDIA H200"}
    out.mkdir()
    for line in (
        make_record(**usual, fold=0, task=first.id, seconds=60.0),
        make_record(**usual, fold=8, task="8", seconds=90.0),
        make_record(**usual | {"method": "scsd"}, fold=9, task="9", seconds=4.0, provenance=gpu),
    ):
        append_line(out / RECORDS, line.to_dict())
    command = ["bench", "status", str(config), "--out", str(out), "--device"]
    assert run([*command, "cpu", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["tasks"]
    assert (row["left"], row["minutes"], row["assumed"]) == (3, 3 * 1.5, 0)  # the longest like it
    assert run([*command, "cpu"]) == 0
    assert "4.5 minutes for what is not done" in capsys.readouterr().out
    assert run([*command, "NVIDIA H200", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["tasks"]
    assert row["assumed"] == 0  # a forest runs on no GPU: its records of a CPU count
    assert run([*command, "H100"]) == 2
    assert "'H100'; they have: NVIDIA H200, cpu" in capsys.readouterr().err


def test_a_run_that_does_not_wait_leaves_the_tasks_of_others(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, out = read_experiment(config), config.parent / "out"
    others = Claims(out, out / RECORDS)
    others.folder.mkdir(parents=True)
    for task in tasks[1:]:
        assert others.take(task.id)
    command = ["bench", "run", str(config), "--out", str(out), "--no-wait", "--json"]
    assert run(command) == 0
    printed = capsys.readouterr()
    assert printed.err.rstrip().endswith("--no-wait")  # what goes on is the same
    found = json.loads(printed.out)
    assert found["done"] == 1
    assert sum(row["tasks"] for row in found["left"]) == 3
    assert [record.task for record in read_records(out)] == [tasks[0].id]


# ---------------------------------------------------------------------------------- the script


def test_the_script_says_what_it_runs_and_no_shell_reads_into_a_path(
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    no_sbatch: None,
) -> None:
    monkeypatch.setenv("VIEWGAP_DATA", "data of 'mine' $(id)")
    monkeypatch.setenv("VIEWGAP_TOKEN", "a secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another one")
    monkeypatch.chdir(tmp_path)
    code, script = dry_run(
        config, "--array", "100%3", "--time-limit", "90m", "--sbatch", "gres=gpu:1",
        "--sbatch", "exclusive", "--method", "random_forest", "--folds", "3",
    )  # fmt: skip
    assert code == 0
    text, told = script.read_text(), capsys.readouterr()
    assert told.out == text
    assert "secret" not in text
    assert "another one" not in text
    directives = re.findall(r"^#SBATCH (.*)$", text, re.M)
    assert directives == [
        "--job-name=viewgap",
        "--array=0-2%3",  # three tasks: no more jobs
        "--time=100",
        "--gres=gpu:1",
        "--exclusive",
    ]
    # What bash makes of it: a python that prints what it is called with.
    printer = 'import sys, os, json; print(json.dumps([sys.argv[1:], os.environ["VIEWGAP_DATA"]]))'
    called = text.replace(" -P -m viewgap bench", f" -c {shlex.quote(printer)} bench")
    assert called != text
    done = subprocess.run(
        ["bash", "-c", called], capture_output=True, text=True, timeout=60, check=True
    )
    arguments, data = json.loads(done.stdout.splitlines()[-1])
    out = str(config.parent / "out")
    assert arguments == [
        *("bench", "run", str(config), "--out", out, "--method", "random_forest"),
        *("--folds", "3", "--time-limit", "90m", "--no-wait"),
    ]
    assert data == str(tmp_path / "data of 'mine' $(id)")
    program = re.search(r"^exec (.*?) -P -m viewgap", text, re.M)
    assert program is not None
    assert shlex.split(program[1]) == [sys.executable]
    # The path is an argument, in which Slurm reads % in its own way.
    typed = shlex.split(told.err.partition("submit it with: ")[2])
    assert typed[-2:] == [f"--output={out.replace('%', '%%')}/slurm/%A_%a.log", str(script)]


def test_shellcheck_has_nothing_to_say(config: Path) -> None:
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("needs shellcheck")
    _, script = dry_run(config, "--time-limit", "4h", "--sbatch", "partition=gpu")
    done = subprocess.run([program, str(script)], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


# ---------------------------------------------------------------------------------- refusals


def test_without_sbatch_the_message_says_what_to_do(
    config: Path, capsys: pytest.CaptureFixture[str], no_sbatch: None
) -> None:
    assert run(["bench", "submit", str(config), "--out", str(config.parent / "out")]) == 1
    told = capsys.readouterr().err
    assert "sbatch is not there" in told
    assert "--dry-run" in told
    assert not (config.parent / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partition=gpu,'x'", "without blanks, quotes"),
        ("comment=two words", "without blanks"),
        ("comment=a#b", "without blanks"),
        ("comment=", "without blanks"),
        ("p=gpu\n#SBATCH --wrap=x", "without blanks"),
        ("Partition=gpu", "must be key=value"),
        ("=gpu", "must be key=value"),
        ("time=3", "set by --time-limit"),
        ("--array=9", "set by --array"),
        ("output=x", "set by"),
    ],
)
def test_an_option_that_slurm_could_read_otherwise_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        slurm.parse_options([text])


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(SettingError, match="twice"):
        slurm.parse_options(["mem=1G", "mem=2G"])


@pytest.mark.parametrize("text", ["0", "-1", "8-9", "1,2", "5%0", "many", "5%", ""])
def test_an_array_is_a_number_of_jobs(text: str) -> None:
    with pytest.raises(SettingError, match="--array must be a number"):
        slurm.ArraySize.parse(text)


def test_a_log_path_that_slurm_would_read_otherwise_is_refused(tmp_path: Path) -> None:
    for name in ("a\\b", "a\nb"):
        with pytest.raises(SettingError, match="choose another --out"):
            slurm.sbatch_arguments(tmp_path / name / "array.sh")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            "import sys; sys.exit('invalid partition')",
            r"refused .*array\.sh.*invalid partition; it asks for 250 minutes",
        ),
        ("print('Submitted, I think')", "no number of a job; look with squeue"),
        ("", "no number of a job"),
    ],
)
def test_an_sbatch_that_does_not_submit_is_a_run_error(
    config: Path, monkeypatch: pytest.MonkeyPatch, program: str, message: str
) -> None:
    put_on_path(config.parent / "bin", program, monkeypatch)
    script = slurm.write_script(config.parent / "out", "#SBATCH --time=250\n")
    with pytest.raises(RunError, match=message):
        slurm.submit(slurm.find_sbatch(), script, slurm.ArraySize(1))
    assert slurm.submitted(config.parent / "out") == []


def test_a_parameter_that_is_wrong_is_found_before_anything_is_submitted(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG.replace("n_estimators", "n_trees"))
    code, script = dry_run(config)
    assert code == 2
    assert "no parameter 'n_trees'" in capsys.readouterr().err
    assert not script.exists()


def test_a_time_limit_that_no_task_is_expected_to_keep_is_told_before_the_queue(
    config: Path, make_record: Callable[..., Record], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = dry_run(config, "--time-limit", "50s")
    assert code == 0  # the nodes may be faster
    told = capsys.readouterr().err
    assert "note: 4 of 4 tasks are expected to take longer than --time-limit, up to 60 s" in told
    assert dry_run(config, "--time-limit", "2m")[0] == 0
    assert "note" not in capsys.readouterr().err
    task = read_experiment(config)[0]
    usual = {"method": task.method, "dataset": task.dataset, "settings": task.settings}
    record = make_record(**usual, fold=8, task="8", seconds=130.0)
    append_line(config.parent / "out" / RECORDS, record.to_dict())
    assert dry_run(config, "--time-limit", "2m")[0] == 0
    assert "up to 130 s (1 like it)" in capsys.readouterr().err


def test_tasks_of_a_run_that_was_killed_elsewhere_can_be_submitted_after_some_minutes(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks, out = read_experiment(config), config.parent / "out"
    claims = Claims(out, out / RECORDS)
    claims.folder.mkdir(parents=True)
    for task in tasks:
        assert claims.take(task.id)
        path = claims.folder / task.id
        path.write_text(json.dumps(json.loads(path.read_text()) | {"host": "node7", "pid": 3}))
    assert dry_run(config)[0] == 0
    told = capsys.readouterr().err
    assert "nothing to submit" in told
    assert "4 are being worked on, the first by process 3 on node7" in told
    assert "for 5 minutes: submit again then" in told
    for task in tasks[1:]:
        os.utime(claims.folder / task.id, (0, 0))
    assert dry_run(config)[0] == 0
    assert "--array=0-2" in capsys.readouterr().out


def test_a_damaged_list_of_jobs_is_named(tmp_path: Path) -> None:
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "submitted.jsonl").write_text('{"job": 5}\n')
    with pytest.raises(DataFileError, match=r"submitted\.jsonl, line 1: job is missing or of"):
        slurm.submitted(tmp_path)


# ---------------------------------------------------------------------------------- file systems

MOUNTS = """
/dev/sda1 / ext4 rw,relatime 0 0
server:/home /home nfs4 rw,vers=4.2,local_lock=none 0 0
server:/old /home/old\\040data nfs rw,vers=3,nolock,local_lock=all 0 0
lustre /scratch lustre rw,localflock 0 0
lustre2 /work lustre rw,flock 0 0
"""


@pytest.mark.parametrize(
    ("path", "local"),
    [
        ("/tmp/x", False),
        ("/home/me/out", False),
        ("/home/old data/out", True),
        ("/scratch/out", True),
        ("/work/out", False),
        ("/homes/out", False),
    ],
)
def test_locks_of_one_host_only_are_seen(path: str, local: bool) -> None:
    assert bool(slurm.mount_options(Path(path), MOUNTS) & slurm._LOCAL_LOCKS) == local


def test_a_folder_without_locks_between_hosts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.check_shared(tmp_path)
    monkeypatch.setattr(slurm, "mount_options", lambda path, mounts: {"rw", "nolock"})
    with pytest.raises(RunError, match="mounted with nolock, so that locks hold on one host"):
        slurm.check_shared(tmp_path)
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(RunError, match="has no locks"):
        slurm.check_shared(tmp_path)


def test_processes_of_another_host_with_the_same_name_are_not_taken_for_dead(
    tmp_path: Path,
) -> None:
    """Hosts of a cluster may all be called localhost, with the same namespace of processes."""
    claims = Claims(tmp_path, tmp_path / RECORDS)
    claims.folder.mkdir()
    assert claims.take("a")
    path = claims.folder / "a"
    content = json.loads(path.read_text())
    boot, _, namespace = content["space"].partition(" ")
    assert namespace.startswith("pid:")
    other = {"space": f"another boot {namespace}", "pid": 2**22 + 1}
    path.write_text(json.dumps(content | other))
    assert not Claims(tmp_path, tmp_path / RECORDS).take("a")
    assert list(claims.living()) == ["a"]
    path.write_text(json.dumps(content | {"pid": 2**22 + 1}))
    assert claims.living() == {}
    assert boot
