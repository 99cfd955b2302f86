"""The embedded model, loaded once a process, which encodes each text once.

For tests in which it only has to be there: most of their time would be loading it and encoding
the same few passages again. `tests/scorers` tests the model as it is, and loads it once for each
of its settings.
"""

import os
from collections import OrderedDict
from functools import cache

from secondpass.concurrency.processor import usable_cpus
from secondpass.scorers.embedding import encoder, minilm_graph
from secondpass.scorers.embedding.encoder import MAX_TOKENS, choose_backend
from secondpass.scorers.embedding.minilm import MiniLM
from secondpass.scorers.runtimes import runtime as runtimes

_MODELS = 8
"""About 100 MB each."""

_ENCODINGS = 500
"""About 100 KB each."""

_load = MiniLM.__init__
_encode_batch = MiniLM.encode_batch
_open_runtime = encoder.open_runtime
_build_once = cache(minilm_graph.build)
_runtimes = {}
_loaded = OrderedDict()
_encodings = OrderedDict()


def remember(patch):
    """Let models with the same settings share what one of them has loaded and encoded."""
    remember_loaded(patch)
    patch.setattr(MiniLM, "encode_batch", _encode_once)


def remember_loaded(patch):
    """Let models with the same settings share what one of them has loaded.

    A runtime is shared whatever the length to which the tokenizer truncates, and by both precisions
    where they are the same.
    """
    patch.setattr(MiniLM, "__init__", _load_once)
    patch.setattr(minilm_graph, "build", _build_once)
    patch.setattr(encoder, "open_runtime", _open_once)


def _load_once(model, **settings):
    precision = settings.get("precision", "exact")
    backend, reason = choose_backend(settings.get("backend", "auto"), precision)
    key = (
        backend,
        precision,
        settings.get("threads") or usable_cpus(),
        settings.get("max_tokens", MAX_TOKENS),
    )
    found = _loaded.get(key)
    if found is None:
        _load(model, **settings)
        found = vars(model).copy()
    _loaded[key] = found
    _loaded.move_to_end(key)
    while len(_loaded) > _MODELS:
        _loaded.popitem(last=False)
    vars(model).update(found, reason=reason)


def _open_once(model, backend, *, precision, threads):
    reduced = backend == "openvino" and precision == "auto" and runtimes.has_fast_bfloat16()
    key = (os.getpid(), len(model), backend, reduced, threads)  # a child loads its own
    if key not in _runtimes:
        _runtimes[key] = _open_runtime(model, backend, precision=precision, threads=threads)
    return _runtimes[key]


def _encode_once(model, texts):
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
