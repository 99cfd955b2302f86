"""Serves the tools over HTTP, with keys and limits."""

from __future__ import annotations

import asyncio
import logging
import socket

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from secondpass_server.http.admission import Admission
from secondpass_server.http.bodies import Body, error_headers, wait_for_disconnect
from secondpass_server.http.errors import ClientGoneError, RequestError
from secondpass_server.http.keys import Keys
from secondpass_server.http.paths import with_plain_path
from secondpass_server.http.server import Plan, Server
from secondpass_server.http.settings import ServerSettings

PATH = "/mcp"


def create_app(server: MCPServer[None], settings: ServerSettings, host: str) -> ASGIApp:
    """An ASGI application of the streamable HTTP transport, without sessions, at ``/mcp``.

    Without keys, only requests to loopback names are answered, which keeps web pages in a local
    browser out (DNS rebinding); with a key, any Host header is accepted.
    """
    # Its warnings have headers of clients without a key.
    logging.getLogger("mcp.server.transport_security").setLevel(logging.ERROR)
    anywhere = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    application = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=settings.max_bytes,
        transport_security=anywhere if settings.demands_key else None,
        host=host if settings.demands_key else "127.0.0.1",
    )
    return _Guarded(application, settings)


class _Guarded:
    """Checks the key before the body is read, and limits bodies and running requests.

    The SDK has no time limit for bodies, and continues calls whose client has disconnected.
    """

    def __init__(self, application: ASGIApp, settings: ServerSettings) -> None:
        self.application = application
        self.settings = settings
        self.keys = Keys(settings)
        self.admission = Admission(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        scope = with_plain_path(scope)
        request = Request(scope, receive)
        body = Body(request, self.settings)
        try:
            self.keys.check(request.headers)
            if scope["path"].removeprefix(scope.get("root_path", "")) != PATH:
                message = f"there is no such path; the tools are at {PATH}"
                raise RequestError(404, message, "not_found")
            if request.method != "POST":
                # Without sessions, a stream of events would stay open without any event.
                message = "there are no streams and no sessions; send calls by POST"
                raise RequestError(405, message, headers={"Allow": "POST"})
            body.check_head()
            with self.admission.slot() as slot:
                content = await body.read_bytes(slot)
                await self._call(scope, content, receive, send)
        except RequestError as error:
            headers = await error_headers(error, body)
            response = JSONResponse({"error": str(error)}, error.status or 400, headers)
            await response(scope, receive, send)
        except ClientGoneError:
            pass

    async def _call(self, scope: Scope, content: bytes, receive: Receive, send: Send) -> None:
        """Call the application until it has answered or the client disconnects."""
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        unread = [{"type": "http.request", "body": content, "more_body": False}]
        answered = False

        async def received() -> Message:
            return unread.pop() if unread else await asyncio.shield(gone)

        async def sent(message: Message) -> None:
            nonlocal answered
            await send(message)
            answered = message["type"] == "http.response.body" and not message.get("more_body")

        task = asyncio.ensure_future(self.application(scope, received, sent))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if answered or task.done():  # a connection seems closed once the response is sent
                await task
        finally:
            task.cancel()
            gone.cancel()
            await asyncio.gather(task, gone, return_exceptions=True)


def run(application: ASGIApp, plan: Plan, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; running calls then have the plan's ``grace`` to finish."""
    Server(plan, application).run(sockets=[listening])
