"""Evaluation: suites, search, measures, and comparisons of rerankers.

:func:`compare` measures first stages and rerankers on a :class:`Suite`. The extra ``evaluation`` is
needed: ir_measures, bm25s, numpy, scipy, jinja2, markdown-it-py and lxml.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from secondpass.concurrency.lazy import require

if TYPE_CHECKING:
    from secondpass_evaluation.public import *  # noqa: F403 - what __getattr__ returns

_PACKAGES = ("bm25s", "ir_measures", "jinja2", "lxml", "markdown_it", "numpy", "scipy")


def check_installed(needed_for: str) -> None:
    """Check that the packages of the extra ``evaluation`` are installed.

    Raises:
        MissingExtraError: one is not.
    """
    require(_PACKAGES, "evaluation", needed_for)


def __getattr__(name: str) -> Any:
    """A public name. The command imports only what a subcommand needs."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(name)
    check_installed(__name__)
    public = import_module(f"{__name__}.public")
    try:
        return getattr(public, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))
