"""HTTP clients that no server can overwhelm, lead elsewhere, or make wait.

Made of the client class that each provider's SDK brings (httpx or httpx2), so that proxies and
certificates from the environment work as they do for that SDK.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import AsyncIterator
from typing import Any

MOST_BYTES = 16 * 2**20
"""Of one response, unpacked. Replies of rerankers have some kilobytes."""


class ResponseTooLongError(Exception):
    """A response has more than :data:`MOST_BYTES`, or is packed in a way not asked for."""


class RedirectedError(Exception):
    """A response points elsewhere, where neither keys nor passages shall go."""


def bounded(client_class: type, timeout: float, **options: Any) -> Any:
    """An asynchronous client which follows no redirect and stops reading at the limit.

    Args:
        client_class: httpx.AsyncClient, httpx2.AsyncClient or a subclass.
        timeout: seconds for each read; the driver's clock covers the whole.
        options: further arguments of the class.
    """
    return client_class(
        timeout=timeout,
        follow_redirects=False,
        event_hooks={"request": [_ask_for_gzip], "response": [_bound]},
        **options,
    )


async def _ask_for_gzip(request: Any) -> None:
    request.headers["accept-encoding"] = "gzip"  # what can be unpacked piece by piece below


async def _bound(response: Any) -> None:
    """Have the body counted while it is read, and unpacked here: httpx unpacks without a limit."""
    if response.status_code // 100 == 3:
        # One SDK would read the body of a redirect as an answer.
        raise RedirectedError(response.status_code)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "", "gzip", "deflate"}:
        raise ResponseTooLongError("packed in a way that was not asked for")
    package = sys.modules[type(response).__module__.partition(".")[0]]
    raw = response.stream

    class Bounded(package.AsyncByteStream):  # type: ignore[name-defined, misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            unpack = zlib.decompressobj(wbits=47) if "gzip" in encoding else None
            if encoding == "deflate":
                unpack = zlib.decompressobj()
            count = 0
            async for chunk in raw:
                piece = chunk if unpack is None else unpack.decompress(chunk, MOST_BYTES + 1)
                count += len(piece)
                if count > MOST_BYTES:
                    raise ResponseTooLongError("longer than any reply")
                yield piece

        async def aclose(self) -> None:
            await raw.aclose()

    response.stream = Bounded()
    if encoding in {"gzip", "deflate"}:
        del response.headers["content-encoding"]
