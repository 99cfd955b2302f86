"""A replica of the server on Ray Serve."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ray import serve
from starlette.applications import Starlette

from secondpass import SecondPassError
from secondpass.adapters.depths import scoring_all
from secondpass.config import load
from secondpass.settings import changed, from_mapping
from secondpass_server.http.application import create_app
from secondpass_server.http.settings import ServerSettings


@serve.ingress()
class RerankServer:
    """A replica: the application, with rerankers built in its own process.

    Variables of the configurations and of the settings are read from its environment. Models whose
    depth is ``unstated`` score all documents of a request if that costs no money.
    """

    def __init__(
        self,
        models: Mapping[str, Mapping[str, Any]],
        settings: Mapping[str, Any],
        unstated: Collection[str] = (),
    ) -> None:
        known: ServerSettings = from_mapping(ServerSettings, settings)
        if not known.demands_key:
            known = changed(known, local_names=True)
        self._rerankers = {
            name: load(scoring_all(config) if name in unstated else config)
            for name, config in models.items()
        }
        self._application = create_app(self._rerankers, known)

    async def __serve_build_asgi_app__(self) -> Starlette:
        """The application. Its models are loaded before Serve sends requests to this replica."""
        for name, reranker in self._rerankers.items():
            try:
                is_first = await reranker.awarm_up()
            except SecondPassError:
                raise
            except Exception as error:  # its message may contain secrets
                reason = type(error).__name__
                raise SecondPassError(f"the model {name!r} could not be loaded: {reason}") from None
            if not is_first:
                raise SecondPassError(f"only a fallback of the model {name!r} could be loaded")
        return self._application

    async def check_health(self) -> None:
        """Do nothing: Serve replaces a replica whose event loop does not run this."""
