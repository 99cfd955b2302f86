"""Warms up and closes the models of a component."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from secondpass.concurrency.lazy import ForkLock
from secondpass.reranker import Reranker


class OwnedLLM(Protocol):
    """The chat generator of a component, which the component warms up and closes."""

    def warm_up_sync(self) -> None: ...
    async def warm_up_async(self) -> None: ...
    def close_sync(self) -> None: ...
    async def close_async(self) -> None: ...


class LifeCycle:
    """Warms up a component once and closes it once, however often it is called.

    Args:
        reranker: its models are loaded and closed.
        llm: the component's own language model.
        warn: called with the name of what cannot be warmed up and the error, the first time. Under
            ``strict`` the error is raised instead, every time.

    Attributes:
        opened: whether models or connections may be open.
    """

    def __init__(
        self, reranker: Reranker, llm: OwnedLLM | None, warn: Callable[[str, Exception], None]
    ) -> None:
        self.opened = False
        self._reranker = reranker
        self._llm = llm
        self._warn = warn
        self._warm: set[str] = set()
        self._warned: set[str] = set()
        self._lock = ForkLock()

    def __deepcopy__(self, memo: dict[int, object]) -> LifeCycle:
        # A copy shares the models, but warms up and closes for itself.
        copied = LifeCycle(self._reranker, self._llm, self._warn)
        copied.opened = self.opened
        copied._warm |= self._warm
        copied._warned |= self._warned
        return copied

    def warm_up(self) -> None:
        """Warm up the language model's synchronous interface, and load the models."""
        self.opened = True
        with self._lock, self._tolerant("the chat generator"):
            if "sync" not in self._warm:
                if self._llm is not None:
                    self._llm.warm_up_sync()
                self._warm.add("sync")
        if self._first("models"):
            with self._tolerant("the models"):
                self._reranker.warm_up()

    async def awarm_up(self) -> None:
        """Warm up the language model in this event loop, and load the models in a thread."""
        self.opened = True
        with self._tolerant("the chat generator"):
            if "async" not in self._warm:
                if self._llm is not None:
                    await self._llm.warm_up_async()
                self._warm.add("async")
        if self._first("models"):
            with self._tolerant("the models"):
                await self._reranker.awarm_up()

    def close(self) -> None:
        """Close the language model's synchronous interface and the models."""
        try:
            if self._llm is not None:
                self._llm.close_sync()
        finally:
            if self._take_opened():
                self._reranker.close()

    async def aclose(self) -> None:
        """Close both interfaces of the language model and, in a thread, the models."""
        try:
            if self._llm is not None:
                await self._llm.close_async()
        finally:
            if self._take_opened():
                await self._reranker.aclose()

    def _take_opened(self) -> bool:
        opened, self.opened = self.opened, False
        self._warm.clear()
        return opened

    def _first(self, name: str) -> bool:
        """Whether this is the first call. The core retries models that cannot be loaded."""
        first = name not in self._warm
        self._warm.add(name)
        return first

    @contextmanager
    def _tolerant(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._reranker.strict:
                self._warm.clear()
                raise
            if name not in self._warned:  # pipelines warm up at each run
                self._warned.add(name)
                self._warn(name, error)
