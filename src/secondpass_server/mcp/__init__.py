"""Rerankers as tools of the Model Context Protocol (extra ``mcp``)."""

from __future__ import annotations

from secondpass.concurrency.lazy import require


def check_installed() -> None:
    """Check that the packages of the extra ``mcp`` are installed."""
    require(("mcp", "starlette", "uvicorn"), "mcp", "the MCP server")
