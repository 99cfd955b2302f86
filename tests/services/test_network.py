"""Proxies and certificates of the environment, compared with the HTTP clients that read them."""

from __future__ import annotations

from pathlib import Path

import httpx
import httpx2
import pytest

from secondpass.services import network
from secondpass.services.network import certificates, proxy_for, sentence

ONE_AUTHORITY = Path(__file__).parent.parent / "support/one_authority.pem"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
OTHERS = ("SSLKEYLOGFILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def _empty(monkeypatch):
    for name in (*VARIABLES, *OTHERS):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """Sets variables; ``FOLDER`` in a value is a folder with a file that is no certificate."""
    (tmp_path / "damaged.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n")
    (tmp_path / "empty").mkdir()

    def set_variables(settings):
        for setting in settings.split():
            name, _, value = setting.partition("=")
            monkeypatch.setenv(name, value.replace("FOLDER", str(tmp_path)).replace("·", " "))

    return set_variables


PROXIES = "http_proxy=http://plain:1 https_proxy=http://secure:2"
WAYS = [
    # variables, address
    ("HTTP_PROXY=http://plain:1", "http://a.example/v1"),
    ("HTTP_PROXY=http://plain:1", "https://a.example/v1"),
    ("HTTP_PROXY=plain:1", "http://a.example"),
    ("HTTP_PROXY=http://upper:1 http_proxy=http://lower:2", "http://a.example"),
    ("Http_Proxy=http://mixed:1", "http://a.example"),
    ("ALL_PROXY=http://any:3", "https://a.example"),
    ("ALL_PROXY=http://any:3 https_proxy=http://secure:2", "https://a.example"),
    (f"{PROXIES} NO_PROXY=*", "https://a.example"),
    (f"{PROXIES} NO_PROXY=a.example", "https://a.example"),
    (f"{PROXIES} NO_PROXY=a.example", "https://b.a.example"),
    (f"{PROXIES} NO_PROXY=a.example", "https://ba.example"),
    (f"{PROXIES} NO_PROXY=.a.example", "https://b.a.example"),
    (f"{PROXIES} no_proxy=b.example,·a.example·", "https://a.example"),
    (f"{PROXIES} NO_PROXY=a.example:8000", "http://a.example:8000"),
    (f"{PROXIES} NO_PROXY=a.example:8000", "http://a.example"),
    (f"{PROXIES} NO_PROXY=a.example:443", "https://a.example"),
    (f"{PROXIES} NO_PROXY=localhost", "http://localhost:8000"),
    (f"{PROXIES} NO_PROXY=127.0.0.1", "http://127.0.0.1:8000"),
    (f"{PROXIES} NO_PROXY=127.0.0.1", "http://127.0.0.2:8000"),
    (f"{PROXIES} NO_PROXY=::1", "http://[::1]:8000"),
    (f"{PROXIES} NO_PROXY=::1", "http://[::2]:8000"),
]


def way_of(package, url):
    """The address of the proxy by which a package's client sends a request; None for none."""
    with package.Client() as client:
        pool = client._transport_for_url(package.URL(url))._pool
    proxy = getattr(pool, "_proxy_url", None)
    return None if proxy is None else f"{proxy.host.decode()}:{proxy.port}"


@pytest.mark.parametrize(("settings", "url"), WAYS)
def test_the_proxy_of_an_address_is_that_of_the_clients(environment, settings, url):
    environment(settings)
    proxy = proxy_for(url)
    way = None if proxy is None else proxy.split()[2].removeprefix("http://")
    assert way == way_of(httpx, url) == way_of(httpx2, url)


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ("HTTP_PROXY=http://upper:1 http_proxy=http://lower:2", "http_proxy"),
        ("HTTP_PROXY=http://upper:1", "HTTP_PROXY"),
        ("Http_Proxy=http://mixed:1", "Http_Proxy"),
        ("all_proxy=http://any:1", "all_proxy"),
    ],
)
def test_the_variable_of_a_proxy(environment, settings, variable):
    environment(settings)
    assert [*network.environment()] == [variable]


SAID = [
    # variables, what is said of the first one
    ("ALL_PROXY=socks://h:1", "socks://h:1"),
    ("HTTP_PROXY=http://user:word@h:1/x?y", "http://h:1/x"),
    ("HTTP_PROXY=h:1", "http://h:1"),
    ("HTTP_PROXY=http://h:port", "not a valid address"),
    ("NO_PROXY=a.example,::1", "a.example,::1"),
    ("NO_PROXY=a.example,[::1]", "a.example,[::1]; write addresses without brackets"),
    ("SSL_CERT_FILE=FOLDER/none.pem", "'FOLDER/none.pem' cannot be read: No such file"),
    ("SSL_CERT_FILE=FOLDER", "'FOLDER' cannot be read: Is a directory"),
    ("SSL_CERT_FILE=FOLDER/damaged.pem", "'FOLDER/damaged.pem' has no certificates in PEM form"),
    ("SSL_CERT_DIR=FOLDER/none", "FOLDER/none"),
    ("SSL_CERT_FILE=FOLDER/none SSL_CERT_DIR=FOLDER", "'FOLDER/none' cannot be read"),
    ("CURL_CA_BUNDLE=x", "is not read; set SSL_CERT_FILE"),
]


@pytest.mark.parametrize(("settings", "said"), SAID)
def test_what_is_said_of_variables(environment, settings, said, tmp_path):
    environment(settings)
    first, *others = network.environment().items()
    assert first[0] == settings.partition("=")[0]
    assert first[1].startswith(said.replace("FOLDER", str(tmp_path)))
    assert others == []


def test_a_file_of_certificates_that_can_be_read(environment):
    environment(f"SSL_CERT_FILE={ONE_AUTHORITY}")
    assert certificates() == {"SSL_CERT_FILE": str(ONE_AUTHORITY)}


@pytest.mark.parametrize("package", [httpx, httpx2])
def test_the_sentence_of_a_client(environment, package):
    environment("ALL_PROXY=socks://h:1")
    with pytest.raises(ValueError, match="socks") as caught:
        package.Client()
    assert sentence(caught.value) == "ValueError: Unknown scheme for proxy URL URL('socks://h:1')"
    environment("HTTP_PROXY=http://user:12#word@h:1")
    assert sentence(caught.value) == "ValueError"


@pytest.mark.parametrize(
    "value",
    [
        "http://user:word@h:1",
        "http://user:word",
        "http://user:12#word@h:1",
        "http://user:1/word@h:1",
        "http://user:wo\x1brd@h:1",
        "socks://user:word@h:1",
        "user:word@h:1",
    ],
)
def test_no_password_of_a_proxy_is_shown(monkeypatch, value):
    monkeypatch.setenv("HTTP_PROXY", value)
    shown = f"{proxy_for('http://a.example')} {network.environment()}"
    assert "HTTP_PROXY" in shown
    for secret in ("user", "word", "12", "\x1b"):
        assert secret not in shown
