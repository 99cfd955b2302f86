"""Errors before a server is reached: names, ports, certificates, proxies, keys."""

import asyncio
import gc
import socket
import threading
import time

import pytest

import fake_provider as fake
from fake_provider import FakeProvider
from rankings import codes
from rerank_dialects import DIALECTS
from rotation import rotated

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
        calls = {
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


@pytest.mark.parametrize(
    ("flavour", "proxy", "mode"),
    rotated(SERVICES, ["down", "nonsense://x", "http://[::1", "http://:99999"], MODES),
)
def test_invalid_proxy(rank, mode, flavour, proxy, monkeypatch):
    is_down = proxy == "down"
    address = f"http://127.0.0.1:{fake.unused_port()}" if is_down else proxy
    monkeypatch.setenv("HTTP_PROXY", address)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    ranking = rank(mode, flavour, "http://models.invalid/v1")
    assert ranking.report.status == "unchanged"
    assert codes(ranking)
    assert "connection" in codes(ranking) or not is_down


@pytest.mark.parametrize(
    ("flavour", "path", "mode"), rotated(SERVICES, ["/no/such/file.pem", __file__], MODES)
)
def test_invalid_certificates(rank, mode, flavour, path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", path)
    ranking = rank(mode, flavour, f"https://127.0.0.1:{fake.unused_port()}")
    assert ranking.report.status == "unchanged"
    assert codes(ranking)


ADDRESSES = [
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
