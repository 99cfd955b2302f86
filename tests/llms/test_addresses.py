"""The address that an SDK is given, whole or without what it appends."""

import asyncio

import pytest

import fake_provider as fake
from secondpass.llms import to_llm
from secondpass.questions import Prompt, Turn

PROMPT = Prompt("", (Turn("user", "yes or no?"),))
ADDRESSES = {
    # the base URL and the environment variable of a provider; the path that is called
    "openai": (["/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/"],
               "OPENAI_BASE_URL", "/v1/chat/completions"),
    "anthropic": (["", "/", "/v1", "/v1/messages"], "ANTHROPIC_BASE_URL", "/v1/messages"),
    "google": (["", "/v1beta", "/v1", "/v1beta/models/m:generateContent"],
               "GOOGLE_GEMINI_BASE_URL", "/models/m:generateContent"),
}  # fmt: skip
ROWS = [(flavour, end) for flavour, (ends, _, _) in ADDRESSES.items() for end in ends]


@pytest.fixture(scope="module")
def provider():
    with fake.FakeProvider() as server:
        yield server


@pytest.mark.parametrize("in_environment", [False, True])
@pytest.mark.parametrize(("flavour", "end"), ROWS)
def test_addresses(flavour, end, in_environment, provider, monkeypatch):
    _, variable, path = ADDRESSES[flavour]
    base = f"http://127.0.0.1:{provider.port}/{flavour}"
    provider.play(fake.good())
    settings = {"type": flavour, "model": "m", "api_key": "k"}
    if in_environment:
        monkeypatch.setenv(variable, f"{base}{end}")
        llm = to_llm(settings)
    else:
        llm = to_llm({**settings, "base_url": f"{base}{end}"})
    asyncio.run(llm.complete(PROMPT))
    llm.close()
    (request,) = provider.requests
    versions = ["/v1", "/v1beta"] if flavour == "google" else [""]  # it depends on Google's SDK
    assert request.path in [f"/{flavour}{version}{path}" for version in versions]
