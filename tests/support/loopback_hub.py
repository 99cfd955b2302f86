"""A Hugging Face hub on loopback: the routes that `huggingface_hub` uses to load a model."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

COMMIT = "c0ffee" + "0" * 34

Answer = int | str | None
"""How a request is answered: a status, ``gated``, ``hang``, ``cut`` (in the middle of
the file), or None as the hub does."""


class LoopbackHub:
    """Serves folders as models, from ``__enter__`` to ``__exit__``.

    Args:
        models: by name.

    Attributes:
        answer: decides by the path within the hub how a request is answered.
        requests: method and path of each request.
    """

    def __init__(self, models: Mapping[str, Path]) -> None:
        self.models = models
        self.answer: Callable[[str], Answer] = lambda path: None
        self.requests: list[tuple[str, str]] = []
        self._over = threading.Event()

        class Handler(_Handler):
            hub = self

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> LoopbackHub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()  # ends answers that hang
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    def wait_until_over(self) -> None:
        """Return when the hub ends, after a minute at most."""
        self._over.wait(60)

    def downloads(self) -> list[str]:
        """The files that were downloaded, sorted."""
        return sorted(
            path.split(f"/resolve/{COMMIT}/")[-1].split("/resolve/main/")[-1]
            for method, path in self.requests
            if method == "GET" and "/resolve/" in path
        )


class _Handler(BaseHTTPRequestHandler):
    hub: LoopbackHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = urlsplit(self.path).path
        self.hub.requests.append((self.command, path))
        answer = self.hub.answer(path)
        if answer == "hang":
            self.hub.wait_until_over()
            self.close_connection = True
        elif isinstance(answer, int):
            self._send(answer, b"")
        elif answer == "gated":
            self._send(401, b"", **{"X-Error-Code": "GatedRepo"})
        elif path.startswith("/api/models/"):
            self._describe(path.removeprefix("/api/models/"))
        else:
            self._resolve(path, cut=answer == "cut")

    def _describe(self, path: str) -> None:
        name = "/".join(path.split("/")[:2])
        folder = self.hub.models.get(name)
        if folder is None:
            return self._send(404, b"", **{"X-Error-Code": "RepoNotFound"})
        files = [one for one in sorted(folder.rglob("*")) if one.is_file()]
        names = [str(one.relative_to(folder)) for one in files]
        if "/tree/" in path:
            below = path.partition("/tree/")[2].partition("/")[2]
            content: Any = [
                {"type": "file", "path": name, "size": one.stat().st_size, "oid": "0"}
                for name, one in zip(names, files, strict=True)
                if name.startswith(below)
            ]
            if not content:
                return self._send(404, b"", **{"X-Error-Code": "EntryNotFound"})
        else:
            siblings = [{"rfilename": name} for name in names]
            content = {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "tags": []}
        return self._send(200, json.dumps(content).encode(), **{"Content-Type": "application/json"})

    def _resolve(self, path: str, cut: bool) -> None:
        name, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        folder = self.hub.models.get(name)
        commit = {"X-Repo-Commit": COMMIT}
        if folder is None:
            return self._send(404, b"", **{"X-Error-Code": "RepoNotFound"})
        if revision not in ("main", COMMIT):
            return self._send(404, b"", **{"X-Error-Code": "RevisionNotFound"})
        if not (folder / file).is_file():
            return self._send(404, b"", **commit, **{"X-Error-Code": "EntryNotFound"})
        content = (folder / file).read_bytes()
        start = int(self.headers.get("Range", "bytes=0-")[len("bytes=") :].partition("-")[0])
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        if start:
            commit["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self._send(206 if start else 200, content[start:], cut=cut, ETag=etag, **commit)

    def _send(self, status: int, body: bytes, *, cut: bool = False, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            resumed = "Content-Range" in headers
            self.wfile.write(body[: 0 if resumed else len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut


@contextmanager
def loopback_hub(models: Mapping[str, Path]) -> Iterator[LoopbackHub]:
    """A hub that this process takes for the Hugging Face hub."""
    import huggingface_hub
    from huggingface_hub import constants

    with LoopbackHub(models) as hub, pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setattr(huggingface_hub.hf_api.api, "endpoint", hub.url)
        patch.setattr("transformers.utils.hub._hf_api", None)
        impatient = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
        patch.setattr(huggingface_hub.file_download, "time", impatient)
        huggingface_hub.utils.close_session()
        yield hub
        huggingface_hub.utils.close_session()
