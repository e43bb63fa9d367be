"""Whatever write fails, the old model answers as before and nothing is left."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

import viewgap.fsio as fsio
from viewgap.errors import ModelFileError, RunError
from viewgap.methods.label_frequency import LabelFrequency
from viewgap.model_file import load_model, save_model


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
def test_old_model_stays_whatever_write_fails(saved: Any, breaking_os: Any, code: int) -> None:
    new = LabelFrequency().fit(saved.views(), saved.labels())
    messages: list[str] = []
    for fail_at in range(1, 100):
        breaking_os.arm(fail_at, code)
        try:
            save_model(new, saved.folder, overwrite=True)
        except RunError as error:
            messages.append(str(error))
        else:
            break
        assert str(saved.folder) in messages[-1]
        assert os.listdir(saved.folder.parent) == [saved.folder.name]
        if isinstance(load_model(saved.folder), LabelFrequency):
            breaking_os.arm(0, 0)  # the new model was complete: only the last sync had failed
            save_model(saved.model, saved.folder, overwrite=True)
        assert saved.outcome() == "equal"
    assert len(messages) > 10
    assert isinstance(load_model(saved.folder), LabelFrequency)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_folder_without_permission(saved: Any, tmp_path: Any) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    with pytest.raises(RunError, match="no permission"):
        save_model(saved.model, locked / "model")


def test_interrupted_swap_is_explained(saved: Any) -> None:
    aside = fsio._beside(saved.folder, "old")
    saved.folder.rename(aside)
    with pytest.raises(ModelFileError, match=f"{aside.name}: rename it"):
        load_model(saved.folder)
