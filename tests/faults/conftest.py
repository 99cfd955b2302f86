"""What all fault tests share: SDKs that are imported, and an environment that is known."""

import pytest

from fake_provider import FakeProvider
from fault_fixtures import _closing, _environment, _quick_retries, _sdks
from secondpass import Reranker
from secondpass.services import throttle

__all__ = ["_closing", "_environment", "_quick_retries", "_sdks"]


@pytest.fixture(autouse=True)
def _no_pauses():
    """What a service asked for in the test before is forgotten."""
    throttle._throttles.clear()
    throttle._remembered.clear()


@pytest.fixture(scope="module")
def provider():
    with FakeProvider() as server:
        yield server


@pytest.fixture
def reranker(closing):
    """Makes rerankers that are closed in the end."""
    return lambda **settings: closing(Reranker.from_config(settings))
