"""Checks of addresses and paths."""

import pytest

from secondpass import ConfigurationError
from secondpass.strategies.rerank_address import check_path, check_url


@pytest.mark.parametrize("url", ["http://h", "https://h:8080/v1?x=1", "http://[::1]:80/"])
def test_urls(url):
    check_url(url, "base_url")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost", "base_url: must begin with http:// or https://"),
        ("ftp://h", "base_url: must begin with"),
        ("http://[::1", "base_url: is not a valid URL"),
        ("https://user:secret@h", "base_url: must not contain a password"),
    ],
)
def test_wrong_urls(url, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        check_url(url, "base_url")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("path", ["", "/v1/rerank", "models/$model:rank?x=1"])
def test_paths(path):
    check_path(path, "path")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/a b", "path: must not contain spaces or '#'"),
        ("/a#b", "path: must not contain spaces or '#'"),
        ("/a\x00", "path: must not contain spaces or '#'"),
        ("/$model/$name", r"path: '\$name' is no placeholder; '\$model' is one"),
    ],
)
def test_wrong_paths(path, message):
    with pytest.raises(ConfigurationError, match=message):
        check_path(path, "path")
