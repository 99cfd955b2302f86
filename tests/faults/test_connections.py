"""Errors before a server is reached: names, ports, certificates, proxies, keys."""

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

import fake_provider as fake
from fake_provider import FakeProvider
from rankings import codes
from rerank_dialects import DIALECTS
from rotation import rotated
from secondpass import RerankError
from self_signed import self_signed

ONE_AUTHORITY = Path(__file__).parent.parent / "support/one_authority.pem"

FLAVOURS = ("openai", "anthropic", "google")
SERVICES = (*FLAVOURS, "cohere", "tei")
MODES = ("sync", "async")
GIVEN = ["3 a", "9 b", "5 c"]

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def rank(reranker):
    """Ranks with a model at a base URL, and checks what holds for every ranking."""

    def ranked(mode, flavour, base_url, key="sk-test-SECRET-123", deadline=60):
        service = {"model": "m", "base_url": base_url, "api_key": key}
        if flavour in DIALECTS:
            method = {"type": "endpoint", "api": flavour, **service}
        else:
            method = {"type": "graded", "llm": {"type": flavour, **service}}
        one = reranker(method=method, limits={"deadline": deadline, "retries": 1})

        def strict():
            with pytest.raises(RerankError) as caught:
                one.rerank("q", GIVEN, strict=True)
            for issue in caught.value.ranking.report.issues:
                assert issue.message in str(caught.value)
            return caught.value.ranking

        calls = {
            "strict": strict,
            "sync": lambda: one.rerank("q", GIVEN),
            "async": lambda: asyncio.run(one.arerank("q", GIVEN)),
        }
        ranking = calls[mode]()
        report = ranking.report
        assert sorted(ranking.order) == [0, 1, 2]
        assert report.usage.input_tokens is None or report.status == "ok"
        assert key.strip() not in f"{ranking!r} {report.to_dict()} {one!r} {one.method!r}"
        return ranking

    return ranked


@pytest.fixture
def lookup(monkeypatch):
    """An event that the lookup of names waits for before it fails."""
    found, done = socket.getaddrinfo, threading.Event()

    def failing(host, *more, **others):
        if "nowhere" in str(host):
            done.wait(60)
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found(host, *more, **others)

    monkeypatch.setattr(socket, "getaddrinfo", failing)
    yield done
    done.set()


@pytest.mark.parametrize(("flavour", "mode"), rotated(SERVICES, MODES))
def test_unknown_host(rank, mode, flavour, lookup):
    lookup.set()
    ranking = rank(mode, flavour, "http://nowhere.invalid/v1")
    assert ranking.report.status == "unchanged"
    assert "connection" in codes(ranking)
    assert ranking.report.usage.calls == 2


@pytest.mark.usefixtures("lookup")
@pytest.mark.parametrize("mode", MODES)
def test_lookup_hangs(rank, mode):
    ranking = rank(mode, "openai", "http://nowhere.invalid/v1", deadline=0.4)
    assert ranking.report.status == "unchanged"
    assert codes(ranking) <= {"deadline", "timeout"}


@pytest.mark.parametrize(("flavour", "mode", "tls"), rotated(SERVICES, MODES, ["garbage", "close"]))
def test_server_without_tls(rank, mode, flavour, tls):
    with FakeProvider(tls=tls) as provider:
        ranking = rank(mode, flavour, provider.base_url(flavour, "https"))
        assert ranking.report.status == "unchanged"
        assert "connection" in codes(ranking)
        assert 1 <= provider.handshakes == ranking.report.usage.calls <= 2
        assert provider.calls == 0


# The HTTP library leaves a socket to the garbage collector that is given up on in its handshake.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("mode", MODES)
def test_handshake_hangs(rank, mode):
    with FakeProvider(tls="silence") as provider:
        ranking = rank(mode, "openai", provider.base_url("openai", "https"), deadline=0.4)
        assert ranking.report.status == "unchanged"
        assert codes(ranking) <= {"deadline", "timeout", "connection"}
    time.sleep(0.05)
    gc.collect()


@pytest.mark.parametrize(("flavour", "mode"), rotated(SERVICES, MODES))
def test_plain_http_to_a_tls_port(rank, mode, flavour):
    """Plain HTTP to such a port is answered with an alert, in bytes that are no HTTP."""
    alert = fake.raw(b"\x15\x03\x03\x00\x02\x02\x46", fake.End.CLOSE)
    with FakeProvider(alert) as provider:
        ranking = rank(mode, flavour, provider.base_url(flavour))
        assert ranking.report.status == "unchanged"
        assert codes(ranking) <= {"connection", "bad_response", "asked_again"}
        assert provider.calls == ranking.report.usage.calls <= 2


BROKEN = [
    # a variable that prevents a client, its value, a part of the message
    ("ALL_PROXY", "socks://user:pass-word@h:1", "; ALL_PROXY: socks://h:1"),
    ("all_proxy", "socks://h:1", "ValueError: Unknown scheme for proxy URL"),
    ("http_proxy", "nonsense://x", "http_proxy: nonsense://x"),
    ("HTTPS_PROXY", "http://h:port", "InvalidURL: Invalid port: 'port'"),
    ("SSL_CERT_FILE", "/no/such/file.pem", "'/no/such/file.pem' cannot be read"),
    ("SSL_CERT_FILE", __file__, "has no certificates in PEM form"),
]


@pytest.mark.parametrize(
    ("flavour", "mode", "broken"), rotated(SERVICES, (*MODES, "strict"), BROKEN)
)
def test_an_environment_without_a_client_is_explained(rank, mode, flavour, broken, monkeypatch):
    """For SDKs and rerank APIs, with the variable and what is wrong with it."""
    variable, value, part = broken
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with FakeProvider() as provider:
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            ranking = rank(mode, flavour, provider.base_url(flavour))
        assert (ranking.report.status, provider.calls) == ("unchanged", 0)
        assert ranking.report.usage.calls == 0
        (issue,) = [issue for issue in ranking.report.issues if issue.code != "asked_again"]
        assert issue.code == "no_client"
        assert f"{variable}: " in issue.message
        assert part in issue.message
        assert "pass-word" not in issue.message
        assert "user" not in issue.message


@pytest.mark.parametrize("flavour", SERVICES)
def test_a_client_is_made_once_the_environment_is_right(reranker, flavour, monkeypatch):
    with FakeProvider() as provider:
        service = {"model": "m", "base_url": provider.base_url(flavour), "api_key": "k"}
        method = {"type": "graded", "llm": {"type": flavour, **service}}
        if flavour in DIALECTS:
            method = {"type": "endpoint", "api": flavour, **service}
        with monkeypatch.context() as patch:
            patch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
            one = reranker(method=method, limits={"retries": 0})
            assert codes(one.rerank("q", GIVEN)) == {"no_client"}
        assert one.rerank("q", GIVEN).report.status == "ok"


@pytest.mark.parametrize("flavour", ["cohere", "tei"])
def test_brackets_in_no_proxy_are_explained(rank, flavour, monkeypatch):
    """httpx rejects them; httpx2, which the SDKs use, does not."""
    monkeypatch.setenv("NO_PROXY", "localhost,[::1]")
    (issue,) = rank("sync", flavour, "http://127.0.0.1:9").report.issues
    assert issue.code == "no_client"
    assert "NO_PROXY: localhost,[::1]; write addresses without brackets" in issue.message


@contextlib.contextmanager
def answering(answer, context=None):
    """The port of a server that answers each connection with these bytes, perhaps over TLS."""

    def answer_all():
        with contextlib.suppress(OSError):  # the end of the test
            while True:
                connection, _ = server.accept()
                connection.settimeout(60)
                with connection, contextlib.suppress(OSError):
                    if context is None:
                        connection.recv(2**16)
                        connection.sendall(answer)
                    else:
                        context.wrap_socket(connection, server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer_all, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(60)


PROXIES = {
    # what the proxy answers -> the message for http, and for https
    b"": ("connection failed", "connection failed"),
    b"HTTP/1.1 407 wombats of 1899\r\nContent-Length: 0\r\n\r\n": (
        "the proxy demands a user and a password (status 407)",
        "the proxy refused to connect (status 407)",
    ),
    b"HTTP/1.1 503 wombats of 1899\r\nContent-Length: 0\r\n\r\n": (
        "server error (status 503",
        "the proxy refused to connect (status 503)",
    ),
    None: ("the proxy cannot be reached", "the proxy cannot be reached"),
}


@pytest.mark.parametrize(
    ("flavour", "mode", "scheme", "answer"),
    rotated(SERVICES, MODES, ["http", "https"], PROXIES),
)
def test_a_proxy_is_named(rank, mode, flavour, scheme, answer, monkeypatch):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with contextlib.ExitStack() as stack:
        port = fake.unused_port() if answer is None else stack.enter_context(answering(answer))
        variable = f"{scheme}_proxy"
        monkeypatch.setenv(variable, f"http://user:pass-word@127.0.0.1:{port}")
        ranking = rank(mode, flavour, f"{scheme}://models.invalid/v1")
    assert ranking.report.status == "unchanged"
    message = ranking.report.issues[-1].message
    assert message.startswith(PROXIES[answer][scheme == "https"])
    assert f"through the proxy http://127.0.0.1:{port} of {variable}, model m" in message
    for secret in ("user:", "pass-word", "wombats"):
        assert secret not in str(ranking.report.to_dict())


@pytest.mark.parametrize(("flavour", "mode"), rotated(SERVICES, MODES))
def test_a_server_that_is_not_there_is_named(rank, mode, flavour):
    address = f"http://localhost:{fake.unused_port()}"
    message = rank(mode, flavour, f"{address}/v1").report.issues[-1].message
    assert message.startswith(f"no server answers at {address}; start it, or set `base_url` [")


@pytest.mark.parametrize("flavour", ["openai", "cohere"])
@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"SSL_CERT_FILE": str(ONE_AUTHORITY)}, f"; SSL_CERT_FILE: {ONE_AUTHORITY} ["),
        ({"SSL_CERT_DIR": "/no/such/folder"}, "; SSL_CERT_DIR: /no/such/folder ["),
        ({"REQUESTS_CA_BUNDLE": "x"}, "; REQUESTS_CA_BUNDLE: is not read; set SSL_CERT_FILE ["),
        ({}, " ["),
    ],
)
def test_a_certificate_that_is_not_trusted(rank, flavour, variables, reason, monkeypatch, signed):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (issue,) = rank("sync", flavour, f"https://localhost:{signed}").report.issues
    assert issue.code == "connection"
    assert issue.message.startswith("TLS connection failed: self-signed certificate")
    assert reason in issue.message


@pytest.fixture
def signed(tmp_path):
    """The port of a TLS server with a certificate that it signed itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path))
    with answering(b"", context) as port:
        yield port


@pytest.mark.parametrize("flavour", ["openai", "anthropic"])
def test_an_address_of_the_environment_is_checked(reranker, flavour, monkeypatch):
    """Google's SDK drops line breaks."""
    variable = f"{flavour.upper()}_BASE_URL"
    monkeypatch.setenv(variable, "http://127.0.0.1:9/v1\n")
    llm = {"type": flavour, "model": "m", "api_key": "k"}
    one = reranker(method={"type": "graded", "llm": llm}, limits={"retries": 0})
    (issue,) = one.rerank("q", GIVEN).report.issues
    assert issue.code == "no_client"
    assert f"{variable}: must not contain white space" in issue.message


ADDRESSES = [
    "http://127.0.0.1:9/v1\n",
    "http://127.0.0.1:9/v1\r\nx-more: 1",
    "http://",
    "http:///v1",
    "http://:80",
    "http://[::1",
    "http://127.0.0.1:0",
    "http://1:99999",
]


@pytest.mark.parametrize(("url", "flavour", "mode"), rotated(ADDRESSES, SERVICES, MODES))
def test_invalid_addresses(rank, mode, flavour, url):
    """Refused at once or in the ranking; never an exception of an HTTP library."""
    try:
        ranking = rank(mode, flavour, url)
    except ValueError as error:
        assert "base_url" in str(error)
    else:
        assert ranking.report.status == "unchanged"
        assert codes(ranking)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_no_key(flavour, reranker, monkeypatch):
    with FakeProvider() as provider:
        llm = provider.llm(flavour, api_key_env="NO_SUCH_KEY_VARIABLE")
        one = reranker(method={"type": "graded", "llm": llm})
        ranking = one.rerank("q", GIVEN)
        assert ranking.order == (0, 1, 2)
        assert codes(ranking) == {"no_key"}
        assert "NO_SUCH_KEY_VARIABLE" in ranking.report.issues[0].message
        # A key that is set later is found.
        monkeypatch.setenv("NO_SUCH_KEY_VARIABLE", " sk-late\n")
        assert one.rerank("q", GIVEN).order == (1, 2, 0)
        assert provider.requests[0].key == "sk-late"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_server_comes_back(flavour, reranker):
    with FakeProvider() as provider:
        method = {"type": "graded", "llm": provider.llm(flavour, api_key="k")}
        one = reranker(method=method, limits={"deadline": 60, "retries": 1})
        assert one.rerank("q", GIVEN).report.status == "ok"
    assert one.rerank("q", GIVEN).report.status == "unchanged"
    with FakeProvider(port=provider.port):
        assert one.rerank("q", GIVEN).report.status == "ok"
