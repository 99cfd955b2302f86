"""A system that starts no more threads."""

from __future__ import annotations

from typing import Any, NoReturn

from secondpass.concurrency import waiting


def refuse_threads(monkeypatch: Any) -> None:
    """Let secondpass start no thread, and find none that is idle."""

    def refuse(_work: Any, _arguments: Any) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(waiting, "start_new_thread", refuse)
    monkeypatch.setattr(waiting, "_idle", [])
