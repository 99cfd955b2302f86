"""The preset listwise_ids, with a server that answers."""

from __future__ import annotations

import pytest

from tactic_candidates import KEY


@pytest.fixture
def provider(provider_with):
    return provider_with(
        {"OPENAI_API_KEY": KEY}, "OPENAI_BASE_URL", "TACTICIAN_LLM_MODEL", "TACTICIAN_RERANK_LIMIT"
    )


@pytest.fixture
def listwise_ids(preset_maker):
    return preset_maker("listwise_ids", "openai")
