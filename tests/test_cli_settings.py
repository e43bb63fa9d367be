"""Wrong parameters on the command line: exit 2 and one line that names the option, at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from viewgap.cli import run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "-1"], "--seed must be a whole number of at least 0, found -1"),
        (["--set", "learning_rate=x"], "--set learning_rate must be a number above 0, found 'x'"),
        (["--set", "batch_size=2.5"], "--set batch_size must be a whole number"),
        (["--set", "weight_decay=-1"], "--set weight_decay must be a number of at least 0"),
        (["--set", "max_grad_norm=NaN"], "--set max_grad_norm must be a finite number"),
        (["--set", "hidden=8"], "--set hidden must be a sequence such as [64]"),
        (["--set", "alpha=" + "[" * 100_000], "--set alpha must be a number"),
        (["--set", "device=null"], "--set device must be 'auto', 'cpu', 'cuda' or 'cuda:N'"),
        (["--set", "device=cuda:99"], "this machine has no CUDA device"),
        (["--set", "precision=x"], "--set precision must be one of 'auto'"),
        (["--set", "quantise=1"], "--set quantise must be True or False, found 1"),
        (["--set", "random_state=a"], "--seed must be None, a whole number"),
        (
            ["--profile", "papre"],
            "--profile must be one of 'default', 'paper', 'equations', found 'papre'",
        ),
        (["--set", "embedding=6", "--set", "code_dim=4"], "--set embedding must be a multiple"),
    ],
)
def test_a_wrong_parameter_is_found_before_the_data_is_read(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    nowhere = str(tmp_path / "nowhere.npz")  # reading it would be another error
    fit = ["fit", nowhere, "--method", "scsd", "--out", str(tmp_path / "model")]
    assert run([*fit, *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_a_wrong_value_in_an_experiment_is_found_before_the_first_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text(
        '[experiment]\ndataset = "multidigits"\n[[method]]\nname = "label_frequency"\n'
        '[[method]]\nname = "scsd"\nparams = {hidden = 8}\n'
    )
    assert run(["bench", "run", str(config), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "multidigits · scsd (default) · fold 0 · hidden=8: hidden must be a sequence" in error
    assert not (tmp_path / "out").exists()


def test_a_fit_that_diverges_is_no_fault_of_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit = ["fit", "multidigits", "--method", "scsd", "--out", str(tmp_path / "model")]
    small = ["hidden=[8]", "embedding=8", "codebook_size=8", "max_epochs=3", "learning_rate=1e30"]
    assert run([*fit, *(part for s in small for part in ("--set", s))]) == 1
    error = capsys.readouterr().err
    assert "training diverged in epoch" in error
    assert "lower --set learning_rate" in error
