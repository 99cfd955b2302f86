"""For adapters: what connects a Reranker to the components, models and documents of a framework.

Those for Haystack and LlamaIndex use nothing of secondpass that is private. A small one is
``examples/langchain_compressor.py``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from secondpass.adapters.public import *  # noqa: F403 - what __getattr__ returns


def __getattr__(name: str) -> Any:
    """A public name. The command imports modules of this package, and must not load all others."""
    unknown = AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # `from secondpass.adapters import scores` asks for the module first.
    if (name.startswith("_") and name != "__all__") or find_spec(f"{__name__}.{name}"):
        raise unknown
    try:
        return getattr(import_module(f"{__name__}.public"), name)
    except AttributeError:
        raise unknown from None


def __dir__() -> list[str]:
    return list(__getattr__("__all__"))
