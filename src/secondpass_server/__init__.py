"""Serving a reranker: HTTP (:func:`create_app`), MCP, and packing results for a prompt."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secondpass_server.http.application import create_app
    from secondpass_server.http.settings import ServerSettings
    from secondpass_server.packing import pack

__all__ = ["ServerSettings", "create_app", "pack"]

_MODULES = {"ServerSettings": "http.settings", "create_app": "http.application", "pack": "packing"}


def __getattr__(name: str) -> Any:
    """A public name. The command imports only what a subcommand needs."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "create_app":
        from secondpass_server.http import check_installed

        check_installed()
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
