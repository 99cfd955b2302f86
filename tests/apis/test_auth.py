"""How requests show who sends them."""

import logging
from types import SimpleNamespace

import httpx
import pytest

from secondpass import ConfigurationError
from secondpass.apis.auth import BEARER, Auth, Credentials, authorize
from secondpass.errors import LLMError
from secondpass.services.client import NO_KEY


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"header": "x", "query": "y"}, "header, query: give one of them"),
        ({"sigv4": "bedrock", "google": "scope"}, "sigv4, google: give one of them"),
        ({"prefix": "ApiKey "}, "header: is required with prefix"),
        ({"header": "x y"}, "header: http allows no header of this name"),
        ({"header": "Content-Length"}, "header: http allows no header of this name"),
        ({"header": "Transfer-Encoding"}, "header: http allows no header of this name"),
        ({"header": "x", "prefix": "a\n"}, "header: http allows no such value of 'x'"),
        ({"header": "x", "prefix": "ü"}, "header: http allows no such value of 'x'"),
        ({"header": ""}, "header"),
    ],
    ids=str,
)
def test_wrong_settings(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        Auth(**settings)


@pytest.mark.parametrize(
    ("auth", "packages", "extra"),
    [
        (BEARER, (), "remote"),
        (Auth(header="x"), (), "remote"),
        (Auth(sigv4="bedrock"), ("botocore",), "aws"),
        (Auth(google="scope"), ("google.auth", "requests"), "google-auth"),
    ],
    ids=str,
)
def test_packages(auth, packages, extra):
    assert (auth.packages, auth.extra) == (packages, extra)


def sent(auth, key, credentials=None):
    """The request of a client that shows who it is."""
    transport = httpx.MockTransport(lambda request: httpx.Response(200))
    with httpx.Client(transport=transport) as client:
        authorize(client, auth, key, credentials, "m")
        return client.post("http://h/rerank?a=1", json={"q": 1}).request


@pytest.mark.parametrize(
    ("auth", "key", "header", "url"),
    [
        (Auth(header="api-key"), "k", "k", "http://h/rerank?a=1"),
        (Auth(header="api-key", prefix="Key "), "k", "Key k", "http://h/rerank?a=1"),
        (Auth(header="api-key"), NO_KEY, None, "http://h/rerank?a=1"),
        (Auth(query="key"), "k&y", None, "http://h/rerank?a=1&key=k%26y"),
        (Auth(query="key"), NO_KEY, None, "http://h/rerank?a=1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_keys(auth, key, header, url):
    request = sent(auth, key)
    assert (request.headers.get("api-key"), str(request.url)) == (header, url)


def test_a_google_token():
    credentials = Credentials(Auth(google="scope"))
    credentials._source = SimpleNamespace(token="ya29", valid=True, quota_project_id="p")
    request = sent(Auth(google="scope"), NO_KEY, credentials)
    assert request.headers["authorization"] == "Bearer ya29"
    assert request.headers["x-goog-user-project"] == "p"
    credentials._source.quota_project_id = None
    headers = sent(Auth(google="scope"), NO_KEY, credentials).headers
    assert "x-goog-user-project" not in headers


REGIONS = [
    # host, model, default; the region
    ("https://bedrock.eu-west-1.amazonaws.com/x", "m", "us-east-1", "eu-west-1"),
    ("https://bedrock.cn-north-1.amazonaws.com.cn/x", "m", None, "cn-north-1"),
    ("https://h/x", "arn:aws:bedrock:us-west-2::model/m", "us-east-1", "us-west-2"),
    ("https://eu-west-1.example.com/x", "m", "us-east-1", "us-east-1"),
    ("https://h/x", "m", "us-east-1", "us-east-1"),
    ("https://h/x", "m", None, None),
]


@pytest.mark.parametrize(("url", "model", "default", "region"), REGIONS)
def test_regions(url, model, default, region):
    credentials = Credentials(Auth(sigv4="bedrock"))
    credentials._default_region = default
    if region is not None:
        assert credentials._region(url, model) == region
        return
    with pytest.raises(LLMError, match="set AWS_DEFAULT_REGION") as caught:
        credentials._region(url, model)
    assert (caught.value.code, caught.value.sent) == ("bad_request", False)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (ValueError("sk-secret"), r"cannot be loaded \(ValueError\)"),
        (False, "no AWS credentials were found"),
    ],
)
def test_without_credentials(found, message, monkeypatch):
    def prepare(_self):
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(Credentials, "_prepare_aws", prepare)
    with pytest.raises(LLMError, match=message) as caught:
        Credentials(Auth(sigv4="bedrock")).prepare()
    assert (caught.value.code, caught.value.__cause__) == ("no_key", None)


def test_certificates_for_google_that_are_missing(monkeypatch):
    """google-auth calls its server by requests, which reads another variable than httpx."""
    oauth2 = pytest.importorskip("google.oauth2.credentials")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/no/such/file.pem")
    credentials = Credentials(Auth(google="scope"))
    uri = "https://127.0.0.1:9/token"
    credentials._source = oauth2.Credentials(
        None, refresh_token="r", token_uri=uri, client_id="c", client_secret="s"
    )
    with pytest.raises(LLMError, match="REQUESTS_CA_BUNDLE: '/no/such/file"):
        credentials.prepare()


def test_what_botocore_logs_meanwhile_is_left_out(monkeypatch, caplog):
    caplog.set_level(logging.DEBUG, "botocore.auth")
    logger = logging.getLogger("botocore.auth")

    def prepare(_self):
        logger.debug("sk-secret")
        return True

    monkeypatch.setattr(Credentials, "_prepare_aws", prepare)
    Credentials(Auth(sigv4="bedrock")).prepare()
    logger.debug("afterwards")
    assert caplog.messages == ["afterwards"]
