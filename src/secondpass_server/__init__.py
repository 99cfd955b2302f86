"""Serving a reranker: over HTTP (:func:`create_app`), and as tools for agents by MCP."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from secondpass_server import http, mcp

if TYPE_CHECKING:
    from secondpass_server.http.application import create_app
    from secondpass_server.http.settings import ServerSettings
    from secondpass_server.mcp.tools import ToolLimits, create_server

_MODULES = {
    "ServerSettings": "http.settings",
    "ToolLimits": "mcp.tools",
    "create_app": "http.application",
    "create_server": "mcp.tools",
}

__all__ = [
    "ServerSettings",
    "ToolLimits",
    "create_app",
    "create_server",
]


if not TYPE_CHECKING:  # or type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """A public name. The command imports only what a subcommand needs."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "create_app":
            http.check_installed()
        if _MODULES[name] == "mcp.tools":
            mcp.check_installed()
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

    def __dir__() -> list[str]:
        return __all__
