"""Makes a full garbage collection quick: it takes a second where many modules are loaded."""

import gc

import pytest


@pytest.fixture
def frozen_heap():
    """All that exists before the test is left out of collections within it."""
    gc.freeze()
    yield
    gc.unfreeze()
