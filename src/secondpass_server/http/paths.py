"""The path of a request in one form, whatever a client writes."""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

_ABSOLUTE = re.compile(r"https?://([^/]*)(/.*)?", re.I | re.S)


class PlainPaths:
    """Middleware: the application gets paths in their plain form."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        plain = with_plain_path(scope) if scope["type"] == "http" else scope
        await self.app(plain, receive, send)


def with_plain_path(scope: Scope) -> Scope:
    """The scope of an HTTP request without its host, and without slashes that mean nothing.

    Clients of a proxy send a whole URL, which every server has to accept (RFC 9112, section 3.2.2);
    its host takes the place of the Host header. Clients that join a base URL and a path send
    ``/v1//rerank`` and ``/v1/rerank/``; a redirect would lose the body or the key of many.
    """
    path, headers = scope["path"], scope["headers"]
    if match := _ABSOLUTE.fullmatch(path):
        path = match[2] or "/"
        host = match[1].encode("utf-8", "replace")
        headers = [(b"host", host), *(pair for pair in headers if pair[0] != b"host")]
    if path.startswith("/"):
        path = "/" + "/".join(filter(None, path.split("/")))
    if path == scope["path"]:
        return scope
    return {**scope, "path": path, "raw_path": quote(path).encode(), "headers": headers}
