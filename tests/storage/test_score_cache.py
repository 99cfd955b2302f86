import math
import os
import struct

import pytest

from secondpass.errors import ConfigurationError
from secondpass.scorers.cross_encoder import CrossEncoderScorer
from secondpass.storage.digests import file_digest, namespace, text_digest
from secondpass.storage.score_cache import ScoreCache, pair_keys

KEYS = pair_keys(namespace({"model": "m"}), "query", [f"passage {n}" for n in range(1200)])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "scores.sqlite"


@pytest.fixture(params=["memory", "sqlite"])
def cache(request, path):
    opened = ScoreCache(2000 if request.param == "memory" else path)
    yield opened
    opened.close()


def test_scores_come_back_bit_by_bit(cache):
    scores = [0.1, -0.0, 1.0, 5e-324, 1e300, 1.5e308, -1 / 3, 12345678901234567.0]
    cache.put_many(zip(KEYS, scores, strict=False))
    got = cache.get_many(KEYS[: len(scores) + 1])
    assert got.pop() is None
    assert [struct.pack("d", score) for score in got] == [struct.pack("d", s) for s in scores]
    assert all(type(score) is float for score in got)


def test_many_keys_in_any_order(cache):
    cache.put_many((key, float(n)) for n, key in enumerate(KEYS) if n % 3)
    order = [(n * 7) % 1200 for n in range(1200)]
    assert cache.get_many([KEYS[n] for n in order]) == [float(n) if n % 3 else None for n in order]
    assert cache.get_many([KEYS[1], KEYS[0], KEYS[1]]) == [1.0, None, 1.0]
    assert cache.get_many([]) == []


def test_only_finite_scores_are_kept(cache):
    cache.put_many([(KEYS[0], math.nan), (KEYS[1], 1.0), (KEYS[2], math.inf)])
    assert cache.get_many(KEYS[:3]) == [None, 1.0, None]


def test_keys_name_everything():
    settings = {"model": "m", "precision": "exact", "max_length": 512, "prompt": None}
    start = namespace(settings)
    assert start == namespace(dict(reversed(settings.items())))
    assert start != namespace({**settings, "prompt": ""})
    assert start != namespace({**settings, "max_length": 256})
    [key] = pair_keys(start, "q", ["p"])
    assert len(key) == 48
    others = {key for q, p in ["pq", ("qp", ""), "qP"] for key in pair_keys(start, q, [p])}
    assert len(others - {key}) == 3
    assert key not in pair_keys(start, "q", ["p"], "") + pair_keys(start, "q", ["p"], "owls")
    assert len({text_digest(text) for text in ("", "\ud800", "\udfff", "a", "a\0")}) == 5


def test_file_digest(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"one")
    first = file_digest(file)
    assert first == file_digest(str(file))
    assert len(first) == 32
    file.write_bytes(b"two!")
    assert file_digest(file) != first
    other = tmp_path / "other"
    other.write_bytes(b"one")
    assert file_digest(other) == first
    os.replace(other, file)
    assert file_digest(file) == first
    with pytest.raises(FileNotFoundError):
        file_digest(tmp_path / "none")


def test_file_digest_reads_a_file_once(tmp_path, monkeypatch):
    import hashlib

    file = tmp_path / "model.onnx"
    file.write_bytes(b"weights")
    first = file_digest(file)
    monkeypatch.setattr(hashlib, "file_digest", None)
    assert file_digest(file) == first


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "", b"scores", "a\0b"])
def test_wrong_values(value):
    with pytest.raises(ConfigurationError, match="score_cache"):
        CrossEncoderScorer("any", score_cache=value)
