"""Rerankers by each rerank API, with a server that answers."""

from __future__ import annotations

from typing import Any

import pytest

from fake_provider import FakeProvider
from rerank_dialects import SIGNED

AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "AWS_SESSION_TOKEN": "session/EXAMPLE==",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def provider():
    with FakeProvider() as server:
        yield server


@pytest.fixture(autouse=True)
def _answering(provider):
    provider.play()


@pytest.fixture(autouse=True)
def _aws(monkeypatch):
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def make(provider, build):
    """Makes rerankers that ask the server."""

    def reranker(api: str = "tei", *, limits: Any = None, whole: Any = None, **settings: Any):
        method = {"type": "endpoint", "api": api, **settings}
        if api in SIGNED:
            method.pop("api_key", None)
        elif api == "vertex":
            method.setdefault("api_key", "ya29.token")
        method.setdefault("base_url", f"http://127.0.0.1:{provider.port}/{api}")
        if "model" not in method and api != "tei":
            method["model"] = "m"
        return build(method, limits, whole)

    return reranker
