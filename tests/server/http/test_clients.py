"""Clients of other packages, unmodified, get the order of the reranker in the process."""

import pytest

from secondpass import Reranker
from served_clients import KEY, check_clients

pytestmark = pytest.mark.long


@pytest.mark.parametrize("preset", ["embedded", "lexical"])
def test_orders(preset, serving, monkeypatch):
    monkeypatch.setenv("CLIENT_KEYS", KEY)
    server = serving(Reranker.from_preset(preset), api_key_env="CLIENT_KEYS")
    check_clients(server.url, preset)
