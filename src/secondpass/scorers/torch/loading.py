"""What transformers loads: the weights that a checkpoint lacks, or has in other shapes or too many.

``from_pretrained`` says so with ``output_loading_info``, in all versions. As sentence-transformers
calls it several levels down and has no such argument, it is wrapped while a model is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from secondpass.concurrency.locks import fork_lock


class Loading(NamedTuple):
    """One call of ``from_pretrained``: the model, and the names of its weights."""

    model: Any
    missing: list[str]
    mismatched: list[str]
    unexpected: list[str]


_lock = fork_lock()
_observing = 0  # number of threads that observe, for which `from_pretrained` is wrapped
_original: Any = None  # what is wrapped

_turn = fork_lock()
"""Held by the one call of ``from_pretrained`` that runs, in any thread, while another is observed.

While transformers loads a model, it replaces functions of its classes and of torch, and torch's
default type. Of two loads at once, the second may put back what the first has put there. Then all
later models had weights that were not tied.
"""


class _Observed(threading.local):
    """What the current thread has loaded; None if it does not observe."""

    loadings: list[Loading] | None = None


_observed = _Observed()


@contextmanager
def observed_loading() -> Iterator[list[Loading]]:
    """What this thread loads in the meantime."""
    global _observing, _original  # noqa: PLW0603
    from transformers import PreTrainedModel

    with _lock:
        if not _observing:
            _original = PreTrainedModel.__dict__["from_pretrained"]
            wrapper = classmethod(_wrapper(_original.__func__))
            setattr(PreTrainedModel, "from_pretrained", wrapper)  # noqa: B010
        _observing += 1
    loadings: list[Loading] = []
    _observed.loadings = loadings
    try:
        yield loadings
    finally:
        _observed.loadings = None
        with _lock:
            _observing -= 1
            if not _observing:
                setattr(PreTrainedModel, "from_pretrained", _original)  # noqa: B010


def _wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
    def from_pretrained(cls: Any, *args: Any, **settings: Any) -> Any:
        loadings = _observed.loadings
        if loadings is None:
            with _turn:
                return original(cls, *args, **settings)
        asked = settings.pop("output_loading_info", False)
        # Otherwise transformers raises an error that names no weight.
        settings["ignore_mismatched_sizes"] = True
        with _turn:
            model, info = original(cls, *args, output_loading_info=True, **settings)
        loadings.append(_loading(model, info, settings.get("config")))
        return (model, info) if asked else model

    return from_pretrained


def _loading(model: Any, info: Mapping[str, Any], config: Any) -> Loading:
    missing = list(info["missing_keys"])
    unexpected = sorted(info["unexpected_keys"])
    if getattr(model, "_hf_peft_config_loaded", False):
        # These are keys of the adapter alone; a head that its base lacks must be in it.
        names = [name for name, _ in model.named_parameters()]
        known = getattr(config, "architectures", None) or ()
        if type(model).__name__ not in known and not any(".modules_to_save." in it for it in names):
            missing.append("trained head")
        unexpected = []
    mismatched = sorted(key for key, *_ in info["mismatched_keys"])
    return Loading(model, missing, mismatched, unexpected)
