"""An HTTP server for rerankers with the rerank APIs of existing clients."""

from __future__ import annotations

from secondpass.concurrency.lazy import require


def check_installed() -> None:
    """Check that the packages of the extra ``serve`` are installed."""
    require(("prometheus_client", "starlette", "uvicorn"), "serve", "the server")
