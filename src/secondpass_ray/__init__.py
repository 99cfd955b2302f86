"""Reranking on Ray: a Dataset of requests to one of rankings.

``secondpass job`` does it from files to files, and ranks what is missing when it is repeated. Needs
the extra ``ray``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from secondpass.concurrency.lazy import require

if TYPE_CHECKING:
    from secondpass_ray.datasets import rerank_dataset

__all__ = ["rerank_dataset"]


def check_installed(needed_for: str) -> None:
    """Check that the packages of the extra ``ray`` are installed."""
    require(("pyarrow", "ray"), "ray", needed_for)


if not TYPE_CHECKING:  # or type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """A public name. The command imports only what a subcommand needs."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        check_installed(f"{__name__}.{name}")
        from secondpass_ray.datasets import rerank_dataset

        return rerank_dataset

    def __dir__() -> list[str]:
        return __all__
