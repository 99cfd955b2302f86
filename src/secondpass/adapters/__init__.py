"""For adapters: what connects a Reranker to the components, models and documents of a framework.

Those for Haystack and LlamaIndex use nothing of secondpass that is private. A small one is
``examples/langchain_compressor.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from secondpass.concurrency.lazy import public_names

if TYPE_CHECKING:
    from secondpass.adapters.public import *  # noqa: F403 - what __getattr__ returns
else:  # the command imports modules of this package, and must not load all others
    __getattr__, __dir__ = public_names(__name__)
