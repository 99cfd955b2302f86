"""Reranking on Ray: a Dataset of requests to one of rankings, and the server on Ray Serve.

``secondpass job`` does the first from files to files, and can be resumed. Needs the extra ``ray``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from secondpass.concurrency.lazy import require

if TYPE_CHECKING:
    from secondpass_ray.datasets import rerank_dataset
    from secondpass_ray.serving import app_builder, deployment

__all__ = ["app_builder", "deployment", "rerank_dataset"]

_PACKAGES = ("prometheus_client", "pyarrow", "ray", "starlette", "uvicorn")


def check_installed(needed_for: str) -> None:
    """Check that the packages of the extra ``ray`` are installed."""
    require(_PACKAGES, "ray", needed_for)


if not TYPE_CHECKING:  # or type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """A public name. The command imports only what a subcommand needs."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        check_installed(f"{__name__}.{name}")
        module = "datasets" if name == "rerank_dataset" else "serving"
        return getattr(import_module(f"{__name__}.{module}"), name)

    def __dir__() -> list[str]:
        return __all__
