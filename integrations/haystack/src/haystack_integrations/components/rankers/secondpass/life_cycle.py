"""Warms up and closes the models of a component."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from haystack import logging

from haystack_integrations.components.rankers.secondpass.chat_generator import OwnedChatGenerator
from secondpass import Reranker
from secondpass.adapters import Closing, fork_lock

logger = logging.getLogger(__name__)


class LifeCycle:
    """Warms up a component once and closes it once, however often it is called.

    What cannot be warmed up is logged, the first time. Under ``strict`` the error is raised
    instead, every time. ``opened`` says whether models or connections may be open.
    """

    def __init__(self, reranker: Reranker, llm: OwnedChatGenerator | None) -> None:
        self.opened = False
        self._reranker = reranker
        self._llm = llm
        self._warm: set[str] = set()
        self._warned: set[str] = set()
        self._lock = fork_lock()
        self._async_locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}

    def __deepcopy__(self, memo: dict[int, object]) -> LifeCycle:
        # A copy shares the models, but warms up and closes for itself.
        copied = LifeCycle(self._reranker, self._llm)
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
        with self._tolerant("the models"):
            if self._models_are_cold():
                self._reranker.warm_up()

    async def awarm_up(self) -> None:
        """Warm up the language model in this event loop, and load the models in a thread."""
        self.opened = True
        async with self._lock_of_this_loop():
            with self._tolerant("the chat generator"):
                if "async" not in self._warm:
                    if self._llm is not None:
                        await self._llm.warm_up_async()
                    self._warm.add("async")
        with self._tolerant("the models"):
            if self._models_are_cold():
                await self._reranker.awarm_up()

    def close(self) -> None:
        """Close the language model's synchronous interface and the models."""
        closing = Closing()
        with closing:
            if self._llm is not None:
                self._llm.close_sync()
        with closing:
            if self._take_opened():
                self._reranker.close()
        closing.end()

    async def aclose(self) -> None:
        """Close both interfaces of the language model and, in a thread, the models."""
        closing = Closing()
        with closing:
            if self._llm is not None:
                await self._llm.close_async()
        with closing:
            if self._take_opened():
                await self._reranker.aclose()
        closing.end()

    def _lock_of_this_loop(self) -> asyncio.Lock:
        """The lock of the running event loop: several cannot share an ``asyncio.Lock``."""
        for loop in [*self._async_locks]:
            if loop.is_closed():
                self._async_locks.pop(loop, None)
        return self._async_locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    def _take_opened(self) -> bool:
        opened, self.opened = self.opened, False
        self._warm.clear()
        return opened

    def _models_are_cold(self) -> bool:
        """Whether this is the first call. The core retries models that cannot be loaded."""
        is_first = "models" not in self._warm
        self._warm.add("models")
        return is_first

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
                kind = type(error).__name__
                logger.warning("{what} can't be warmed up: {error}", what=name, error=kind)
