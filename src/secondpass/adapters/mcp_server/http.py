"""The tools over HTTP: keys, names of the host, and the server's life."""

from __future__ import annotations

import asyncio
import socket

from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from secondpass.adapters.http_server.admission import Admission
from secondpass.adapters.http_server.bodies import Body
from secondpass.adapters.http_server.keys import Keys
from secondpass.adapters.http_server.problems import ClientGoneError, RequestError
from secondpass.adapters.http_server.server import Plan, Server
from secondpass.adapters.http_server.settings import ServerSettings

PATH = "/mcp"


def create_app(server: MCPServer[None], settings: ServerSettings, host: str) -> ASGIApp:
    """An ASGI application of the streamable HTTP transport, without sessions, at ``/mcp``.

    Args:
        server: of :func:`~secondpass.adapters.mcp_server.tools.create_server`.
        settings: keys, and the bounds of bodies and of requests under way.
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
    return _Guarded(application, settings)


class _Guarded:
    """Asks for a key before anything else of a request is read, and bounds what is under way.

    The SDK waits for a body without a limit of time, and goes on with a call whose client has left.
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
        request = Request(scope, receive)
        body = Body(request, self.settings)
        try:
            self.keys.check(request.headers)
            if request.method != "POST":  # may be a stream of events
                await self.application(scope, receive, send)
                return
            body.check_head()
            with self.admission.slot() as slot:
                content = await body.read_bytes(slot)
                await self._call(scope, content, receive, send)
        except RequestError as error:
            whole = await body.discard()
            headers = {**error.headers, **({} if whole and not error.close else _CLOSE)}
            response = JSONResponse({"error": str(error)}, error.status or 400, headers)
            await response(scope, receive, send)
        except ClientGoneError:
            pass

    async def _call(self, scope: Scope, content: bytes, receive: Receive, send: Send) -> None:
        """Call the application until it has answered or the client has left."""
        gone = asyncio.ensure_future(_gone(receive))
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


_CLOSE = {"Connection": "close"}


async def _gone(receive: Receive) -> Message:
    """The message that the client has closed the connection."""
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message


def run(application: ASGIApp, plan: Plan, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; calls under way then have the plan's ``grace`` to end.

    Connections, the time for heads and the size of these are bounded as those of ``serve``.
    """
    Server(plan.config(application), None, plan.drain).run(sockets=[listening])
