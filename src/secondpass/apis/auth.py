"""Authentication of requests to APIs: keys, AWS signatures and Google tokens."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from secondpass.errors import ConfigurationError, LLMError, Problem
from secondpass.services.client import NO_KEY
from secondpass.services.network import as_text, unreadable
from secondpass.settings import configurable

if TYPE_CHECKING:
    from annotated_types import MinLen

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FRAMING = frozenset({"content-length", "transfer-encoding"})
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables with certificates for google-auth."""
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9]+")


@configurable
@dataclass(frozen=True)
class Auth:
    """How requests are authenticated. Without any setting, the key is sent as a bearer token.

    Attributes:
        header: sends the key in this header instead.
        prefix: precedes the key in that header, such as ``ApiKey`` and a space.
        query: sends the key as this query parameter of the URL.
        sigv4: signs requests for this AWS service with the AWS credentials of the environment, by
            botocore.
        google: sends an access token with this scope for the Google credentials of the environment,
            by google-auth; if there is a key, that is sent as the token.

    Raises:
        ConfigurationError: more than one of these is set, or HTTP does not allow the header name.
    """

    header: Annotated[str, MinLen(1)] | None = None
    prefix: str = ""
    query: Annotated[str, MinLen(1)] | None = None
    sigv4: Annotated[str, MinLen(1)] | None = None
    google: Annotated[str, MinLen(1)] | None = None

    def __post_init__(self) -> None:
        ways = {
            "header": self.header,
            "query": self.query,
            "sigv4": self.sigv4,
            "google": self.google,
        }
        names = [name for name, value in ways.items() if value is not None]
        if len(names) > 1:
            raise ConfigurationError(f"{', '.join(names)}: give one of them")
        if self.prefix and self.header is None:
            raise ConfigurationError("header: is required with prefix")
        check_headers({self.header or "x": self.prefix or "x"}, "header")

    @property
    def packages(self) -> tuple[str, ...]:
        """The modules that it needs besides httpx."""
        if self.sigv4 is not None:
            return ("botocore",)
        return ("google.auth", "requests") if self.google is not None else ()

    @property
    def extra(self) -> str:
        """The extra of secondpass that installs the packages it needs."""
        if self.sigv4:
            return "aws"
        return "google-auth" if self.google else "remote"


def check_headers(headers: Mapping[str, str], setting: str) -> None:
    """Check that HTTP allows the names and values of headers."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _FRAMING:
            raise ConfigurationError([Problem((setting,), "http allows no header of this name")])
        if not all(" " <= character <= "~" for character in value):
            message = f"http allows no such value of {name!r}"
            raise ConfigurationError([Problem((setting,), message)])


_unlogged = ContextVar("_unlogged", default=False)


def _is_logged(_record: logging.LogRecord) -> bool:
    return not _unlogged.get()


@contextmanager
def _without_secrets_in_logs() -> Iterator[None]:
    """Suppress botocore's records at DEBUG that contain credentials."""
    for name in ("botocore.auth", "botocore.parsers", "botocore.endpoint"):
        logging.getLogger(name).addFilter(_is_logged)
    token = _unlogged.set(True)
    try:
        yield
    finally:
        _unlogged.reset(token)


BEARER = Auth()
"""The key as a bearer token."""


class Credentials:
    """The AWS or Google credentials of the environment, for ``sigv4`` or ``google``."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth
        self._source: Any = None
        self._aws: Any = None
        self._default_region: str | None = None
        self.secrets: Sequence[str] = ()

    def prepare(self) -> None:
        """Load the credentials, or renew them if they expire. May block for seconds."""
        try:
            with _without_secrets_in_logs():
                available = self._prepare_aws() if self._auth.sigv4 else self._prepare_google()
        except Exception as error:  # the message may hold parts of a key
            files = ("AWS_CA_BUNDLE",) if self._auth.sigv4 else _BUNDLES
            found = as_text(unreadable(files))
            reason = "; ".join(filter(None, [type(error).__name__, found]))
            message = f"the credentials cannot be loaded ({reason})"
            raise LLMError(message, "no_key", sent=False) from None
        if not available:
            raise LLMError("no AWS credentials were found", "no_key", sent=False)

    def signed(self, url: str, content: bytes, content_type: str, model: str) -> dict[str, str]:
        """The headers that authenticate a request."""
        if self._auth.sigv4 is None:
            headers = {"authorization": f"Bearer {self._source.token}"}
            project = getattr(self._source, "quota_project_id", None)
            return {**headers, "x-goog-user-project": project} if project else headers
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        headers = {"content-type": content_type}
        request = AWSRequest("POST", url, data=content, headers=headers)
        signature = SigV4Auth(self._aws, self._auth.sigv4, self._region(url, model))
        with _without_secrets_in_logs():
            signature.add_auth(request)
        return {name.lower(): value for name, value in request.headers.items()}

    def _prepare_aws(self) -> bool:
        if self._source is None:
            from botocore.session import get_session

            session = get_session()
            self._default_region = session.get_config_variable("region")
            self._source = session.get_credentials()
        if self._source is None:
            return False
        self._aws = self._source.get_frozen_credentials()
        parts = (self._aws.access_key, self._aws.secret_key, self._aws.token)
        self.secrets = [str(part) for part in parts if part]
        return True

    def _prepare_google(self) -> bool:
        import google.auth
        from google.auth.transport.requests import Request

        if self._source is None:
            self._source, _ = google.auth.default(scopes=[str(self._auth.google)])
        if not self._source.valid:
            self._source.refresh(Request())
        self.secrets = [str(self._source.token)]
        return True

    def _region(self, url: str, model: str) -> str:
        """The AWS region that the address or the ARN of a model names, else the default."""
        host = (urlsplit(url).hostname or "").split(".")
        parts = host if "amazonaws" in host[-3:-1] else []  # of China: amazonaws.com.cn
        named = filter(_REGION.fullmatch, [*parts, *model.split(":")[3:4]])
        region: str | None = next(named, self._default_region)
        if region is None:
            message = "the AWS region is not known: set AWS_DEFAULT_REGION"
            raise LLMError(message, "bad_request", sent=False)
        return region


def authorize(
    client: Any, auth: Auth, key: str, credentials: Credentials | None, model: str
) -> None:
    """Add authentication to an httpx client: by credentials if there are any, else by the key."""
    import httpx

    class Authorization(httpx.Auth):
        requires_request_body = True

        def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
            if credentials is not None:
                kind = request.headers["content-type"]
                request.headers.update(
                    credentials.signed(str(request.url), request.content, kind, model)
                )
            elif auth.query is not None:
                request.url = request.url.copy_add_param(auth.query, key)
            yield request

    if credentials is not None or (auth.query is not None and key != NO_KEY):
        client.auth = Authorization()
    elif auth.header is not None and key != NO_KEY:
        client.headers[auth.header] = f"{auth.prefix}{key}"
