"""Fixtures that fault tests share; they work in the module or conftest that imports them."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _sdks() -> None:
    """Import the SDKs once, so that no deadline has to include it."""
    for name in ("openai", "anthropic", "google.genai"):
        importlib.import_module(name)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback servers are reached without a proxy, and no key is found by chance."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(name="quick_retries")
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries that need not be waited for."""
    asking = importlib.import_module("secondpass.asking.dispatch")
    monkeypatch.setattr(asking, "_FIRST_PAUSE", 0.01)


@pytest.fixture(scope="module", name="closing")
def _closing() -> Iterator[Callable[[Any], Any]]:
    """Closes what a module makes after its tests, so that no connection stays open."""
    with contextlib.ExitStack() as stack:

        def until_the_end(one: Any) -> Any:
            stack.callback(one.close)
            return one

        yield until_the_end
