"""The tools over HTTP: keys, names of the host, and the server's life."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from secondpass.adapters.http_server.keys import Keys
from secondpass.adapters.http_server.problems import RequestError
from secondpass.adapters.http_server.server import Plan, Server
from secondpass.adapters.http_server.settings import ServerSettings

PATH = "/mcp"


def create_app(server: MCPServer[None], settings: ServerSettings, host: str) -> ASGIApp:
    """An ASGI application of the streamable HTTP transport, without sessions, at ``/mcp``.

    Args:
        server: of :func:`~secondpass.adapters.mcp_server.tools.create_server`.
        settings: keys, and the largest body.
        host: the address that is listened on. Without keys, only requests to loopback names are
            answered, which keeps web pages in a local browser out (DNS rebinding).

    Raises:
        ConfigurationError: a key is wrong.
    """
    # Whoever has a key may call the server by any name.
    anywhere = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=settings.max_bytes,
        transport_security=anywhere if settings.demands_key else None,
        host="127.0.0.1" if not settings.demands_key else host,
    )
    return _Guarded(application, Keys(settings))


class _Guarded:
    """Asks for a key before anything else of a request is read."""

    def __init__(self, application: ASGIApp, keys: Keys) -> None:
        self.application = application
        self.keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers: Mapping[str, str] = Headers(scope=scope)
            try:
                self.keys.check(headers)
            except RequestError as error:
                response = JSONResponse({"error": str(error)}, 401, dict(error.headers))
                await response(scope, receive, send)
                return
        await self.application(scope, receive, send)


def run(application: ASGIApp, plan: Plan, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; calls under way then have the plan's ``grace`` to end.

    Connections, the time for heads and the size of these are bounded as those of ``serve``.
    """
    Server(plan.config(application), None, plan.drain).run(sockets=[listening])
