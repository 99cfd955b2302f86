"""Loading and closing the models and clients of the component."""

from haystack import logging

from haystack_integrations.components.rankers.secondpass.saving import Saved
from secondpass.runtime.diagnostics import use_logger

logger = logging.getLogger(__name__)
LOGGER_NAME = "haystack_integrations.components.rankers.secondpass"
"""The core logs under this name, whose handlers Haystack sets up."""


class Loaded(Saved):
    """Base class of the component."""

    def warm_up(self) -> None:
        """Load the models and create the clients, unless they exist.

        Pipelines call this at each run, so an error is raised only if `raise_on_failure` is set.
        Otherwise it is logged, and the next `report` lists it.

        :raises Exception:
            If `raise_on_failure` is set and no model can be loaded.
        """
        with use_logger(LOGGER_NAME):
            self._life.warm_up()

    async def warm_up_async(self) -> None:
        """Like `warm_up`; the chat generator in this event loop, the rest in a thread."""
        with use_logger(LOGGER_NAME):
            await self._life.awarm_up()

    def close(self) -> None:
        """Close models and connections; they are loaded again when they are needed.

        The asynchronous interface of a chat generator that has a `close_async` stays open.
        """
        self._life.close()

    async def close_async(self) -> None:
        """Close both interfaces of the chat generator and, in a thread, the models."""
        await self._life.aclose()


def warn(name: str, error: Exception) -> None:
    """Log that the chat generator or the models cannot be warmed up."""
    logger.warning("{what} can't be warmed up: {error}", what=name, error=type(error).__name__)
