"""The embedded model, loaded once a process, which encodes each text once.

For tests in which it only has to be there: most of their time would be loading it and encoding
the same few passages again. `tests/scorers` tests the model as it is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from secondpass.scorers.minilm import Encoding, MiniLM, Tokens

_ENCODINGS = 500
"""About 100 KB each."""

_load = MiniLM.__init__
_encode_batch = MiniLM.encode_batch
_loaded: dict[Hashable, dict[str, Any]] = {}
_encodings: OrderedDict[Hashable, Encoding] = OrderedDict()


def remember(patch: pytest.MonkeyPatch) -> None:
    """Let models with the same settings share what one of them has loaded and encoded."""
    patch.setattr(MiniLM, "__init__", _load_once)
    patch.setattr(MiniLM, "encode_batch", _encode_once)


def _load_once(model: MiniLM, **settings: Any) -> None:
    key = tuple(sorted(settings.items()))
    if key not in _loaded:
        _load(model, **settings)
        _loaded[key] = vars(model).copy()
    vars(model).update(_loaded[key])


def _encode_once(model: MiniLM, texts: Sequence[Tokens]) -> list[Encoding]:
    variant = model.backend, model.precision
    keys = [(*variant, text.ids.tobytes()) for text in texts]
    found = {key: _encodings.get(key) for key in keys}  # other threads may drop one now
    known = {key: encoding for key, encoding in found.items() if encoding is not None}
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if missing:
        encodings = _encode_batch(model, [*missing.values()])
        known.update(zip(missing, encodings, strict=True))
    _encodings.update(known)
    while len(_encodings) > _ENCODINGS:
        _encodings.popitem(last=False)
    return [known[key] for key in keys]
