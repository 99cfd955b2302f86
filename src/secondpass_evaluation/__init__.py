"""Evaluation: suites, search, measures, and comparisons of rerankers.

:func:`compare` measures first stages and rerankers on a :class:`Suite`. The extra ``evaluation`` is
needed: ir_measures, bm25s, numpy, scipy, jinja2, markdown-it-py and lxml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from secondpass.concurrency.lazy import public_names, require

if TYPE_CHECKING:
    from secondpass_evaluation.public import *  # noqa: F403 - what __getattr__ returns

_PACKAGES = ("bm25s", "ir_measures", "jinja2", "lxml", "markdown_it", "numpy", "scipy")


def check_installed(needed_for: str) -> None:
    """Check that the packages of the extra ``evaluation`` are installed."""
    require(_PACKAGES, "evaluation", needed_for)


if not TYPE_CHECKING:  # the command imports only what a subcommand needs
    __getattr__, __dir__ = public_names(__name__, check_installed)
