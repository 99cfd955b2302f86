"""Faults before a server is reached: names, ports, certificates, proxies, keys."""

import asyncio
import gc
import socket
import threading
import time

import pytest

import fake_provider as fake
from fake_provider import FakeProvider
from secondpass import Reranker

FLAVOURS = ("openai", "anthropic", "google")
DEADLINE = 1.0
SLACK = 0.25
GIVEN = ["3 a", "9 b", "5 c"]

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture(params=["sync", "async"])
def rank(request, reranker):
    """Ranks with a model at a base URL, and sees to what holds of every ranking."""

    def ranked(flavour, base_url, key="sk-test-SECRET-123", retries=1, **limits):
        one = reranker(
            method={
                "type": "graded",
                "llm": {"type": flavour, "model": "m", "base_url": base_url, "api_key": key},
            },
            limits={"deadline": DEADLINE, "retries": retries, **limits},
        )
        # A client is made in the first ranking, from certificates and the like.
        began = time.perf_counter()
        if request.param == "sync":
            ranking = one.rerank("q", GIVEN)
        else:
            ranking = asyncio.run(one.arerank("q", GIVEN))
        assert time.perf_counter() - began <= one.limits.deadline + SLACK
        report = ranking.report
        assert sorted(ranking.order) == [0, 1, 2]
        assert report.usage.input_tokens is None or report.status == "ok"
        assert key.strip() not in f"{ranking!r} {report.to_dict()} {one!r} {one.method!r}"
        return ranking

    return ranked


def codes(ranking):
    return {issue.code for issue in ranking.report.issues}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_nobody_listens(rank, flavour):
    ranking = rank(flavour, f"http://127.0.0.1:{fake.unused_port()}")
    assert (ranking.report.status, codes(ranking)) == ("unchanged", {"connection"} | codes(ranking))
    assert ranking.report.usage.calls == 2


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_name_that_nobody_knows(rank, flavour, monkeypatch):
    lookup = socket.getaddrinfo

    def unknown(host, *more, **others):
        if "nowhere" in str(host):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return lookup(host, *more, **others)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    ranking = rank(flavour, "http://nowhere.invalid/v1")
    assert ranking.report.status == "unchanged"
    assert "connection" in codes(ranking)
    assert ranking.report.usage.calls == 2


def test_a_lookup_that_takes_for_ever(rank, monkeypatch):
    lookup, done = socket.getaddrinfo, threading.Event()

    def stuck(host, *more, **others):
        if "nowhere" in str(host):
            done.wait(20)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return lookup(host, *more, **others)

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    ranking = rank("openai", "http://nowhere.invalid/v1", deadline=0.4)
    done.set()
    assert ranking.report.status == "unchanged"
    assert codes(ranking) <= {"deadline", "timeout"}


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("tls", ["close", "garbage"])
def test_a_server_that_speaks_no_tls(rank, flavour, tls):
    with FakeProvider(tls=tls) as provider:
        ranking = rank(flavour, provider.base_url(flavour, "https"))
        assert ranking.report.status == "unchanged"
        assert "connection" in codes(ranking)
        assert 1 <= provider.handshakes == ranking.report.usage.calls <= 2
        assert provider.calls == 0


# The HTTP library leaves a socket to the garbage collector that is given up on in its handshake.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_handshake_that_takes_for_ever(rank):
    with FakeProvider(tls="silence") as provider:
        ranking = rank("openai", provider.base_url("openai", "https"), deadline=0.4)
        assert ranking.report.status == "unchanged"
        assert codes(ranking) <= {"deadline", "timeout", "connection"}
    time.sleep(0.05)
    gc.collect()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_server_that_speaks_tls_only(rank, flavour):
    """Plain HTTP to such a port is answered with an alert, in bytes that are no HTTP."""
    alert = fake.raw(b"\x15\x03\x03\x00\x02\x02\x46", fake.End.CLOSE)
    with FakeProvider(alert) as provider:
        ranking = rank(flavour, provider.base_url(flavour))
        assert ranking.report.status == "unchanged"
        assert codes(ranking) <= {"connection", "bad_response", "asked_again"}
        assert provider.calls == ranking.report.usage.calls <= 2


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_proxy_that_is_not_there(rank, flavour, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{fake.unused_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    ranking = rank(flavour, "http://models.invalid/v1")
    assert ranking.report.status == "unchanged"
    assert "connection" in codes(ranking)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("proxy", ["nonsense://x", "http://[::1", "http://:99999"])
def test_a_proxy_that_is_none(rank, flavour, proxy, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    ranking = rank(flavour, "http://models.invalid/v1")
    assert ranking.report.status == "unchanged"
    assert codes(ranking)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("path", ["/no/such/file.pem", __file__])
def test_certificates_that_are_none(rank, flavour, path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", path)
    ranking = rank(flavour, f"https://127.0.0.1:{fake.unused_port()}")
    assert ranking.report.status == "unchanged"
    assert codes(ranking)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    "url",
    ["http://", "http:///v1", "http://:80", "http://[::1", "http://127.0.0.1:0", "http://1:99999"],
)
def test_addresses_that_lead_nowhere(rank, flavour, url):
    """Refused at once or in the ranking; never an exception of an HTTP library."""
    try:
        ranking = rank(flavour, url)
    except ValueError as error:
        assert "base_url" in str(error)
    else:
        assert ranking.report.status == "unchanged"
        assert codes(ranking)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    "key", ["ключ-SECRET", "sk-\r\nX-Injected: SECRET", "sk-\x00-SECRET", "sk-\udcff-SECRET"]
)
def test_keys_that_no_header_can_hold(rank, flavour, key):
    with FakeProvider() as provider:
        ranking = rank(flavour, provider.base_url(flavour), key=key)
        assert "SECRET" not in str(ranking.report.to_dict())
        assert all("x-injected" not in request.headers for request in provider.requests)
        if not provider.requests:
            assert ranking.report.status == "unchanged"
            assert codes(ranking)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_no_key_at_all(flavour, reranker, monkeypatch):
    one = reranker(
        method={
            "type": "graded",
            "llm": {"type": flavour, "model": "m", "api_key_env": "NO_SUCH_KEY_VARIABLE"},
        }
    )
    ranking = one.rerank("q", GIVEN)
    assert ranking.order == (0, 1, 2)
    assert codes(ranking) == {"no_key"}
    assert "NO_SUCH_KEY_VARIABLE" in ranking.report.issues[0].message
    # A key that is set later is found.
    with FakeProvider() as provider:
        monkeypatch.setenv("NO_SUCH_KEY_VARIABLE", " sk-late\n")
        late = reranker(
            method={
                "type": "graded",
                "llm": provider.llm(flavour, api_key_env="NO_SUCH_KEY_VARIABLE"),
            }
        )
        assert late.rerank("q", GIVEN).order == (1, 2, 0)
        assert provider.requests[0].key == "sk-late"


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_server_that_comes_back_is_asked_again(flavour, reranker):
    port = fake.unused_port()
    with FakeProvider() as provider:
        one = Reranker.from_config(
            {
                "method": {"type": "graded", "llm": provider.llm(flavour, api_key="k")},
                "limits": {"deadline": 5, "retries": 1},
            }
        )
        assert one.rerank("q", GIVEN).report.status == "ok"
        port = provider.port
    assert one.rerank("q", GIVEN).report.status == "unchanged"
    with FakeProvider(port=port):
        assert one.rerank("q", GIVEN).report.status == "ok"
    one.close()
