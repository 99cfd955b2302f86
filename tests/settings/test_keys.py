"""Copies of configurations without keys."""

import json

import pytest

from secondpass import ConfigurationError, config
from secondpass.settings import Secret
from secondpass.settings.keys import HIDDEN, may_name_key, with_hidden_keys, with_placeholder_keys
from secondpass.settings.loading import read_yaml
from secondpass.settings.yaml_text import write as to_yaml

KEY = "sk-test-SECRET-123"
LLM = {"type": "openai", "model": "m"}
GRADED = {"type": "graded", "llm": {**LLM, "api_key": {"env": "MY_KEY"}}}

KEYS_ALONE = [
    {"type": "endpoint", "api_key": KEY},
    {"type": "endpoint", "api_key": None},
    {"type": "endpoint", "api_key_env": "CO"},
    {"type": "nosuch", "token": KEY},
    {"type": "cross_encoder", "token": {"env": "HF", "default": KEY}},
    {"model_kwargs": {"token": KEY}},
    {"options": [{"password": KEY}]},
    {"options": {"extra_headers": {"X-Any": KEY}, "keys": [KEY, [KEY]]}},
    {"options": {"url": "http://host/v1", "key": None, "use_auth": True, "max_tokens": 5}},
    {"base_url": "http://host/v1"},
]
"""Of which nothing but the keys is hidden."""
MORE = [
    # what is configured, and what is shown
    (
        {"options": {"headers": {"User-Agent": "x"}}},
        {"options": {"headers": {"User-Agent": HIDDEN}}},
    ),
    ({"options": {"token": 5}}, {"options": {"token": HIDDEN}}),
    (
        {"options": {"proxies": {"https": f"http://me:{KEY}@proxy:80"}}},
        {"options": {"proxies": {"https": f"http://proxy:80?{HIDDEN}"}}},
    ),
    ({"base_url": f"https://host/v1?key={KEY}#{KEY}"}, {"base_url": f"https://host/v1?{HIDDEN}"}),
    (
        {"base_url": {"env": "URL", "default": f"http://me:{KEY}@host/v1"}},
        {"base_url": {"env": "URL", "default": f"http://host/v1?{HIDDEN}"}},
    ),
]


@pytest.mark.parametrize(("method", "shown"), [*((one, None) for one in KEYS_ALONE), *MORE])
def test_keys_are_hidden_wherever_they_are(method, shown):
    stages = [{"type": "lexical"}, {"type": "graded", "llm": {**LLM, "api_key": KEY}}]
    whole = {"method": {"type": "cascade", "stages": stages}, "fallback": [method]}
    found = with_hidden_keys(whole)
    assert found["fallback"] == [shown or json.loads(json.dumps(method).replace(KEY, HIDDEN))]
    assert found["method"]["stages"][1]["llm"]["api_key"] == HIDDEN
    assert KEY not in str(found)
    assert stages[1]["llm"]["api_key"] == KEY


IN_FILES = [
    # a part of a method, the path of the key in it; None if it has none
    ({"options": {"api_key": KEY}}, "options.api_key"),
    ({"options": {"extra_headers": {"Authorization": KEY}}}, "options.extra_headers.Authorization"),
    ({"options": {"headers": [{"x-api-key": KEY}]}}, "options.headers[0].x-api-key"),
    ({"options": {"token": KEY}}, "options.token"),
    ({"options": {"clientSecret": KEY}}, "options.clientSecret"),
    ({"model_kwargs": {"token": KEY}}, "model_kwargs.token"),
    ({"config_kwargs": {"use_auth_token": KEY}}, "config_kwargs.use_auth_token"),
    ({"base_url": f"http://h/v1?a=b&key={KEY}"}, "base_url"),
    ({"base_url": {"env": "URL", "default": f"http://h?api_key={KEY}"}}, "base_url"),
    ({"base_url": {"env": "URL"}}, None),
    ({"base_url": "http://h/v1?api-version=2026-01-01"}, None),
    ({"options": {"prompt_cache_key": "c", "max_tokens": 5, "user": "u"}}, None),
    ({"options": {"json_schema": {"properties": {"api_key": {"type": "string"}}}}}, None),
    ({"options": {"use_auth_token": True, "api_key": None}}, None),
    ({"tokenizer_kwargs": {"pad_token": "[PAD]", "eos_token": "</s>"}}, None),
]


@pytest.mark.parametrize(("part", "path"), IN_FILES)
def test_a_file_with_a_key_is_an_error(tmp_path, part, path):
    """Wherever it stands: also in what is passed on to other libraries, and in an address."""
    file = tmp_path / "c.yaml"
    file.write_text(to_yaml({"method": {"type": "endpoint", "api": "tei"}, "fallback": [part]}))
    if path is None:
        assert read_yaml(file)["fallback"] == [part]
        return
    with pytest.raises(ConfigurationError, match="a file cannot hold a key") as caught:
        read_yaml(file)
    assert str(caught.value).startswith(f"{file}: fallback[0].{path}: ")
    assert KEY not in str(caught.value)


NAMES = """
    api_key OPENAI_API_KEY xApiKey Authorization token HF_TOKEN accessToken ACCESSTOKEN PGPASSWORD
    pwd client-secret CLIENTSECRET extra_headers AZURE_PAT
""".split()
OTHER_NAMES = "max_tokens depth PATH keyed SECONDPASS_DEBUG passages monkey model".split()


@pytest.mark.parametrize(
    ("name", "expected"),
    [*((name, True) for name in NAMES), *((name, False) for name in (*OTHER_NAMES, ""))],
)
def test_names_that_may_name_a_key(name, expected):
    assert may_name_key(name) is expected


def test_a_key_in_a_variable_need_not_be_set(monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="MY_KEY is not set"):
        config.load({"method": GRADED})
    config.load(with_placeholder_keys({"method": GRADED}))


@pytest.mark.parametrize("key", [{"env": ""}, {"env": 3}, {"env": []}, 3, ""])
def test_a_wrong_key_is_still_wrong(key):
    method = {"type": "graded", "llm": {**LLM, "api_key": key}}
    with pytest.raises(ConfigurationError, match="api_key"):
        config.load(with_placeholder_keys({"method": method}))


@pytest.mark.parametrize(
    "method",
    [
        GRADED,
        {"type": "cross_encoder", "model": "some/m", "token": {"env": "MY_KEY"}},
        {"type": "endpoint", "api": "cohere", "model": "m", "api_key": {"env": "MY_KEY"}},
        {"type": "cascade", "stages": ["lexical", GRADED]},
    ],
    ids=["llm", "token", "rerank API", "stage"],
)
@pytest.mark.parametrize("key", ["sk-1", "123456", "true"])
def test_a_key_in_a_variable_is_written_out_by_name(method, key, monkeypatch):
    """A key without which nothing could be kept for ``--resume``; of digits, it is no number."""
    monkeypatch.setenv("MY_KEY", key)
    reranker = config.load({"method": method})
    written = reranker.to_config()
    assert "{'env': 'MY_KEY'}" in str(written)
    assert key not in str(written)
    again = config.load(written)
    assert again.to_config() == written
    for loaded in (reranker, again):
        part = getattr(loaded.method, "stages", [loaded])[-1].method
        holder = getattr(part, "llm", None) or getattr(part, "scorer", None) or part
        assert Secret(key) in {getattr(holder, name, None) for name in ("api_key", "token")}
