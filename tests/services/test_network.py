"""Proxies and certificates of the environment, compared with the HTTP clients that read them."""

from __future__ import annotations

import httpx
import httpx2
import pytest

from secondpass.services import network
from secondpass.services.network import certificates, client_problem, proxies, proxy_for

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
    (f"{PROXIES} NO_PROXY=.a.example", "https://a.example"),
    (f"{PROXIES} no_proxy=b.example,·a.example·", "https://a.example"),
    (f"{PROXIES} NO_PROXY=a.example:8000", "http://a.example:8000"),
    (f"{PROXIES} NO_PROXY=a.example:8000", "http://a.example"),
    (f"{PROXIES} NO_PROXY=a.example:443", "https://a.example"),
    (f"{PROXIES} NO_PROXY=https://a.example:443", "https://a.example"),
    (f"{PROXIES} NO_PROXY=https://a.example", "https://a.example"),
    (f"{PROXIES} NO_PROXY=https://a.example", "http://a.example"),
    (f"{PROXIES} NO_PROXY=localhost", "http://localhost:8000"),
    (f"{PROXIES} NO_PROXY=localhost", "http://a.localhost:8000"),
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
    way = None if proxy is None else proxy.address.removeprefix("http://")
    assert way == way_of(httpx, url) == way_of(httpx2, url)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("10.0.0.0/8", "http://10.1.2.3"),
        ("10.0.0.0/8", "http://11.1.2.3"),
        ("::1/128", "http://[::1]"),
        ("[::1]", "http://[::1]"),
        ("*.a.example", "https://b.a.example"),
    ],
)
def test_entries_that_only_newer_clients_read(environment, entry, url):
    environment(f"{PROXIES} NO_PROXY={entry}")
    proxy = proxy_for(url)
    way = None if proxy is None else proxy.address.removeprefix("http://")
    assert way == way_of(httpx2, url)


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
    assert [proxy.variable for proxy in proxies().values()] == [variable]


PROBLEMS = [
    # variables, the beginning of the problem, a part of it
    ("ALL_PROXY=socks://h:1", "ALL_PROXY: 'socks' is not the scheme of a proxy", "socks5"),
    ("all_proxy=SOCKS://h:1", "all_proxy: 'socks' is not the scheme of a proxy", "socks5"),
    ("HTTP_PROXY=://h:1", "HTTP_PROXY: this is not the scheme", ""),
    ("https_proxy=·http://h:1", "https_proxy: this is not the scheme", ""),
    ("HTTP_PROXY=http://h:port", "HTTP_PROXY: it is not a valid address", ""),
    ("HTTP_PROXY=http://u:p#x@h:1", "HTTP_PROXY: it is not a valid address", "%23"),
    ("NO_PROXY=a.example,[::1]", "NO_PROXY: '[::1]' cannot be read", "without brackets"),
    ("no_proxy=::1/128", "no_proxy: '::1/128' cannot be read", ""),
    ("NO_PROXY=é.example", "NO_PROXY: 'é.example' cannot be read", ""),
    ("SSL_CERT_FILE=FOLDER/none.pem", "SSL_CERT_FILE: ", "No such file"),
    ("SSL_CERT_FILE=FOLDER", "SSL_CERT_FILE: ", "Is a directory"),
    ("SSL_CERT_FILE=FOLDER/damaged.pem", "SSL_CERT_FILE: ", "is damaged"),
    ("SSLKEYLOGFILE=FOLDER/none/keys", "SSLKEYLOGFILE: ", "cannot be written"),
    ("SSL_CERT_FILE= NO_PROXY= HTTP_PROXY=", "", ""),
    ("HTTP_PROXY=http://user:word@h:1 NO_PROXY=::1,10.0.0.0/8,*.a.example", "", ""),
    ("HTTP_PROXY=socks://h:1 NO_PROXY=*", "", ""),
    ("SSL_CERT_DIR=FOLDER/none", "", ""),
]


@pytest.mark.parametrize(("settings", "start", "part"), PROBLEMS)
def test_a_problem_is_found_where_no_client_can_be_made(environment, settings, start, part):
    environment(settings)
    problem = client_problem() or ""
    assert (problem.startswith(start), part in problem, not problem) == (True, True, not start)
    try:
        with httpx.Client():
            made = True
    except Exception:
        made = False
    assert made == (not problem)


def test_a_socks_proxy_needs_its_package(environment, monkeypatch):
    environment("ALL_PROXY=socks5h://h:1")
    monkeypatch.setattr(network, "is_installed", lambda module: module != "socksio")
    assert client_problem() == (
        "ALL_PROXY: a SOCKS proxy needs the package socksio: pip install socksio"
    )
    monkeypatch.undo()
    monkeypatch.setattr(network, "is_installed", lambda module: True)
    assert client_problem() is None


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
    (proxy,) = proxies().values()
    shown = f"{proxy} {proxy!r} {proxy.address} {proxy.problem} {client_problem()}"
    assert "HTTP_PROXY" in shown
    for secret in ("user", "word", "12", "\x1b"):
        assert secret not in shown.replace("a password, write", "")


@pytest.mark.parametrize(
    ("settings", "variable", "problem"),
    [
        ("SSL_CERT_DIR=FOLDER/none", "SSL_CERT_DIR", "No such file"),
        ("SSL_CERT_DIR=FOLDER/empty", "SSL_CERT_DIR", "rehash"),
        ("SSL_CERT_DIR=FOLDER/empty:FOLDER/none", "SSL_CERT_DIR", "No such file"),
        ("SSL_CERT_FILE=FOLDER/none SSL_CERT_DIR=FOLDER", "SSL_CERT_FILE", "No such file"),
    ],
)
def test_certificates_in_use(environment, settings, variable, problem):
    environment(settings)
    used = certificates()
    assert (used.variable, problem in used.problem) == (variable, True)


def test_a_folder_with_certificates(monkeypatch, tmp_path):
    (tmp_path / "5ed36f99.0").touch()
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert certificates().problem is None
