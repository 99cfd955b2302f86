"""Evaluation: suites, search, measures, and comparisons of rerankers.

:func:`compare` measures first stages and rerankers on a :class:`Suite`. The extra ``evaluation`` is
needed: ir_measures, bm25s, numpy, scipy, jinja2, markdown-it-py and lxml.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from secondpass.concurrency.lazy import require

if TYPE_CHECKING:
    from secondpass_evaluation.public import *  # noqa: F403 - what __getattr__ returns

_PACKAGES = ("bm25s", "ir_measures", "jinja2", "lxml", "markdown_it", "numpy", "scipy")


def check_installed(needed_for: str) -> None:
    """Check that the packages of the extra ``evaluation`` are installed."""
    require(_PACKAGES, "evaluation", needed_for)


def __getattr__(name: str) -> Any:
    """A public name. The command imports only what a subcommand needs."""
    unknown = AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A module of the package is none: `from secondpass_evaluation import suites` imports it then.
    if (name.startswith("_") and name != "__all__") or find_spec(f"{__name__}.{name}"):
        raise unknown
    check_installed(__name__)
    try:
        return getattr(import_module(f"{__name__}.public"), name)
    except AttributeError:
        raise unknown from None


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))
