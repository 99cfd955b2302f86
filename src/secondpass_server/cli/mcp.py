"""``secondpass mcp``: rerankers as tools of the Model Context Protocol."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from secondpass.cli.console import info
from secondpass.cli.options import grouped
from secondpass_server.cli.served import Bounds, Keys, Port, ServedModels, note_depths
from secondpass_server.mcp import check_installed

_GRACE = 25.0


class Transport(StrEnum):
    stdio = "stdio"
    http = "http"


@grouped
def mcp(
    *,
    models: ServedModels,
    transport: Annotated[
        Transport,
        typer.Option(
            help="`stdio`: the client starts this command and talks to it directly. `http`: "
            "clients connect to its address."
        ),
    ] = Transport.stdio,
    host: Annotated[str, typer.Option(help="Address to listen on, with `http`.")] = "127.0.0.1",
    port: Port = 8090,
    keys: Keys,
    bounds: Bounds,
) -> None:
    """Serve rerankers as tools for agents (Model Context Protocol).

    The tools are `rerank`, `explain` and `pack`. `pack` returns the best passages that fit into a
    number of tokens, with their sources. Each result says whether it was reranked, and if not, why.
    For example:

    - `secondpass mcp --preset embedded`, as the command of a client's configuration

    - `secondpass mcp -c rerank.yaml --transport http --port 8090`, at `http://127.0.0.1:8090/mcp`
    """
    check_installed()
    from secondpass_server.http.workers import log_to_stderr
    from secondpass_server.mcp import stdio
    from secondpass_server.mcp.tools import ToolLimits, create_server
    from secondpass_server.rerankers import load_all

    limits = ToolLimits(
        bounds.max_candidates,
        bounds.max_characters,
        deadline=bounds.deadline,
        issue_messages=bounds.issue_messages,
    )
    served = models.read()
    rerankers = load_all(served)
    note_depths(rerankers, bounds.max_candidates)
    if transport is Transport.stdio:
        server = create_server(rerankers, limits)
        log_to_stderr()
        stdio.run(server)
        return
    from secondpass_server.http.server import Plan
    from secondpass_server.http.settings import ServerSettings
    from secondpass_server.mcp import http

    settings = ServerSettings(**keys.settings())
    settings.check_host(host)
    server = create_server(rerankers, limits)
    application = http.create_app(server, settings, host)
    plan = Plan(served, settings, host=host, port=port, drain=0.0, grace=_GRACE)
    listening = plan.bind()
    info(f"serving {', '.join(served)} at {plan.url(listening)}{http.PATH}")
    log_to_stderr()
    http.run(application, plan, listening)
