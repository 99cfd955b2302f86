"""The ASGI application: its paths, and how requests are answered."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from secondpass import Reranker
from secondpass.ranking.diagnostics import log, log_exception
from secondpass.settings.arguments import explained
from secondpass_server.http.admission import Admission
from secondpass_server.http.bodies import (
    CLOSE,
    LARGE_BYTES,
    Body,
    error_headers,
    wait_for_disconnect,
)
from secondpass_server.http.errors import ClientGoneError, IncompleteError, RequestError
from secondpass_server.http.fields import Fields
from secondpass_server.http.keys import Keys
from secondpass_server.http.metrics import Metrics
from secondpass_server.http.paths import PlainPaths
from secondpass_server.http.service import Service, response_headers
from secondpass_server.http.settings import ServerSettings, is_loopback
from secondpass_server.http.shapes import COMMON, SCORE, SHAPES, Answer, Shape, shape_of

_GONE = 499
"""Status in the metrics of a request whose client has disconnected; nothing is sent."""
_HOST = re.compile(r"(\[[^\[\]]+\]|[^:\[\]]+)(?::[0-9]*)?")
"""The Host header: a name, and perhaps a port."""


@explained()
def create_app(
    rerankers: Mapping[str, Reranker], settings: ServerSettings | None = None
) -> Starlette:
    """An ASGI application that answers rerank requests in the shapes of several APIs.

    Args:
        rerankers: by the model names that clients send; the first is used for all other names.
        settings: limits, keys and defaults. None: the default settings.

    Returns:
        The application; ``app.state.service`` is its :class:`Service`, and ``app.state.metrics``
        its :class:`Metrics`. Its lifespan loads the models in the background and closes them at the
        end.

    Raises:
        ConfigurationError: there is no reranker, or a setting is wrong.
    """
    return _Server(Service(rerankers, settings or ServerSettings())).application()


class _Server:
    def __init__(self, service: Service) -> None:
        self.service = service
        self.settings = service.settings
        self.keys = Keys(self.settings)
        self.admission = Admission(self.settings)
        self.metrics = Metrics()
        self.paths: list[str] = []

    def application(self) -> Starlette:
        prefixes: dict[str, list[Shape]] = {
            "": [COMMON, SHAPES["mixedbread"], SCORE],
            **{f"/{name}": [shape] for name, shape in SHAPES.items()},
        }
        prefixes["/vllm"].append(SCORE)
        routes = []
        for prefix, shapes in prefixes.items():
            for shape in shapes:
                endpoint = functools.partial(self._rerank, shape)
                routes += [Route(prefix + path, endpoint, methods=["POST"]) for path in shape.paths]
            routes.append(Route(f"{prefix}/v1/models", self._guarded(self._models)))
            routes.append(Route(f"{prefix}/health", self._health))
        routes += [
            Route("/info", self._guarded(self._info)),
            Route("/tei/info", self._guarded(self._info)),
            Route("/ready", self._ready),
            Route("/metrics", self._guarded(self._metrics)),
        ]
        self.paths = [route.path for route in routes]
        application = Starlette(
            routes=routes,
            lifespan=self._lifespan,
            middleware=[Middleware(PlainPaths)],
            exception_handlers={HTTPException: self._http_error},
        )
        application.router.redirect_slashes = False
        application.state.service = self.service
        application.state.metrics = self.metrics
        return application

    @contextlib.asynccontextmanager
    async def _lifespan(self, _application: Starlette) -> AsyncIterator[None]:
        loading = asyncio.create_task(self.service.load())
        try:
            yield
        finally:
            loading.cancel()
            try:
                await asyncio.gather(loading, return_exceptions=True)
            finally:
                await self.service.close()

    # ------------------------------------------------------------------ rerank requests

    async def _rerank(self, shape: Shape, request: Request) -> Response:
        arrived = time.monotonic()
        body = Body(request, self.settings)
        try:
            self._check_client(request)
            body.check_head()
            with self.admission.slot() as slot:
                self.metrics.under_way.set(self.admission.requests)
                fields = Fields(await body.read(slot), self.settings)
                if shape is COMMON:
                    shape = shape_of(fields)
                rerank_request = shape.read(fields)
                answer = await self.service.rank(
                    rerank_request,
                    shape,
                    request.headers,
                    arrived,
                    lambda: wait_for_disconnect(request.receive),
                )
                self.metrics.add_ranking(answer.model, answer.ranking, len(rerank_request.texts))
                self.admission.add_duration(time.monotonic() - arrived)
                # A response with the documents takes as long to write as the request to parse.
                if slot.bytes <= LARGE_BYTES:
                    response = _response(shape, answer)
                else:
                    response = await asyncio.to_thread(_response, shape, answer)
        except RequestError as error:
            if isinstance(error, IncompleteError):
                self.metrics.add_ranking(error.model, error.ranking, len(rerank_request.texts))
            headers = await error_headers(error, body)
            response = _json(shape.error(error), shape.status(error), headers)
        except ClientGoneError:
            response = Response(status_code=_GONE)
        except Exception as error:
            log_exception(error, "the server")
            log("error", "a request raised %s", type(error).__name__)
            internal = RequestError(500, "internal error", "internal_error")
            response = _json(shape.error(internal), 500, CLOSE)
        finally:
            self.metrics.under_way.set(self.admission.requests)
        self.metrics.add_request(shape.name, response.status_code, time.monotonic() - arrived)
        return self._finished(request, response)

    def _check_client(self, request: Request) -> None:
        if self.settings.local_names:
            match = _HOST.fullmatch(request.headers.get("host", ""))
            if match is None or not is_loopback(match[1]):
                message = "the Host header must name this machine, as localhost or 127.0.0.1 do"
                raise RequestError(421, message, "misdirected")
            if request.client is not None and not is_loopback(request.client.host):
                message = "the server has no keys, so it answers only clients on its own machine"
                raise RequestError(403, message, "forbidden")
        self.keys.check(request.headers)

    def _finished(self, request: Request, response: Response) -> Response:
        headers = request.headers
        # With both, a proxy may disagree about the end of the request (RFC 9112, section 6.1).
        ambiguous = "content-length" in headers and "transfer-encoding" in headers
        if self.service.draining or ambiguous:
            response.headers["connection"] = "close"
        return response

    # ------------------------------------------------------------------ other paths

    def _guarded(
        self, endpoint: Callable[[Request], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                self._check_client(request)
                response = endpoint(request)
            except RequestError as error:
                response = _json(COMMON.error(error), COMMON.status(error), error.headers)
            return self._finished(request, response)

        return guarded

    def _models(self, _request: Request) -> Response:
        rows = [
            {"id": name, "object": "model", "created": 0, "owned_by": "secondpass"}
            for name in self.service.rerankers
        ]
        return _json({"object": "list", "data": rows})

    def _info(self, _request: Request) -> Response:
        """The server in the format of TEI's ``/info``."""
        return _json(
            {
                "model_id": next(iter(self.service.rerankers)),
                "model_type": {"reranker": {"id2label": {"0": "LABEL_0"}, "label2id": {}}},
                "max_client_batch_size": self.settings.max_candidates,
                "max_concurrent_requests": self.settings.max_requests,
            }
        )

    def _metrics(self, _request: Request) -> Response:
        text, media_type = self.metrics.text()
        return Response(text, media_type=media_type)

    async def _health(self, request: Request) -> Response:
        """Always 200: the process is alive."""
        return self._finished(request, _json({"status": "ok"}))

    async def _ready(self, request: Request) -> Response:
        states = {
            "draining": self.service.draining,
            "ready": self.service.ready,
            "a model failed": self.service.failed,
            "loading": True,
        }
        state = next(name for name, holds in states.items() if holds)
        return self._finished(request, _json({"status": state}, 200 if state == "ready" else 503))

    async def _http_error(self, request: Request, error: Exception) -> Response:
        """Answer unknown paths and methods in the format of the API with the path's prefix."""
        assert isinstance(error, HTTPException)
        # The path may be "*", and begins with that of a mount, if any.
        root = request.scope.get("root_path", "")
        path = request.scope["path"].removeprefix(root)
        prefix = path.lstrip("/").partition("/")[0]
        shape = SHAPES.get(prefix, COMMON)
        message = error.detail
        if error.status_code == 404:
            message = f"there is no such path; {self._known_paths(prefix, root)}"
        kind = error.detail.lower().replace(" ", "_")
        converted = RequestError(error.status_code, message, kind, headers=error.headers)
        headers = await error_headers(converted, Body(request, self.settings))
        self.metrics.add_request("none", error.status_code)
        return self._finished(request, _json(shape.error(converted), error.status_code, headers))

    def _known_paths(self, prefix: str, root: str) -> str:
        """The paths behind a prefix of an API; for any other, those without and the prefixes."""
        firsts = {path: path.split("/")[1] for path in self.paths}
        if prefix in SHAPES:
            known = [path for path, first in firsts.items() if first == prefix]
            return f"there are {', '.join(root + path for path in known)}"
        known = [path for path, first in firsts.items() if first not in SHAPES]
        others = ", ".join(f"{root}/{name}" for name in SHAPES)
        return f"there are {', '.join(root + path for path in known)}, and more behind {others}"


def _response(shape: Shape, answer: Answer) -> Response:
    return _json(shape.response(answer), headers=response_headers(answer))


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # ASCII only, because documents may have lone surrogates, which UTF-8 cannot encode.
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return Response(text, status, headers, media_type="application/json")
