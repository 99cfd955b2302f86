"""In which order files are flushed and renamed."""

import os
from pathlib import Path

import pytest

linux = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files")


@pytest.fixture
def events(monkeypatch):
    """What is flushed and what is renamed, in order: (action, file name)."""
    seen: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(number: int) -> None:
        seen.append(("flush", Path(os.readlink(f"/proc/self/fd/{number}")).name))
        fsync(number)

    def noted_replace(source, target) -> None:
        seen.append(("rename", Path(target).name))
        seen.append(("from", Path(source).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    return seen


def check_order(events, name: str, folder: Path) -> None:
    renamed = events.index(("rename", name))
    draft = events[renamed + 1][1]
    assert ("flush", draft) in events[:renamed]
    assert ("flush", folder.name) in events[renamed:]
