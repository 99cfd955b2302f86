"""``secondpass mcp``: rerankers as tools of the Model Context Protocol."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from secondpass.cli.shared import Set, info
from secondpass.config import load
from secondpass_server.cli.served import (
    ApiKeyEnv,
    ApiKeyFile,
    Configs,
    IssueMessages,
    Presets,
    configurations,
)
from secondpass_server.mcp import check_installed

_MIB = 2**20
_GRACE = 25.0


class Transport(StrEnum):
    stdio = "stdio"
    http = "http"


def mcp(
    *,
    preset: Presets = None,
    config: Configs = None,
    settings: Set = None,
    transport: Annotated[
        Transport, typer.Option(help="`stdio`: the client starts this command.")
    ] = Transport.stdio,
    host: Annotated[str, typer.Option(help="Address to listen on, with `http`.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any that is free.")
    ] = 8090,
    api_key_env: ApiKeyEnv = None,
    api_key_file: ApiKeyFile = None,
    deadline: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="Time limit of a ranking; the answer is then the best order so far.",
        ),
    ] = None,
    max_candidates: Annotated[
        int, typer.Option(min=1, help="Maximum number of candidates in a call.")
    ] = 1000,
    max_characters: Annotated[
        int, typer.Option(min=1, help="Maximum number of characters in a candidate.")
    ] = 200_000,
    issue_messages: IssueMessages = False,
) -> None:
    """Serve rerankers to agents (Model Context Protocol).

    The tools are `rerank`, `explain` and `pack` (the best passages within a number of tokens, with
    sources). Each result says whether it was reranked, and if not, why. For example:

    - `secondpass mcp --preset embedded`, as the command of a client's configuration

    - `secondpass mcp -c rerank.yaml --transport http --port 8090`, at `http://127.0.0.1:8090/mcp`
    """
    check_installed()
    from secondpass_server.mcp.tools import ToolLimits, create_server

    limits = ToolLimits(
        max_candidates, max_characters, deadline=deadline, issue_messages=issue_messages
    )
    served = configurations(preset, config, settings)
    if transport is Transport.stdio:
        server = create_server({name: load(value) for name, value in served.items()}, limits)
        server.run("stdio")
        return
    from secondpass_server.http.server import Plan
    from secondpass_server.http.settings import ServerSettings
    from secondpass_server.http.workers import log_to_stderr
    from secondpass_server.mcp import http

    keys = ServerSettings(
        api_key_env=api_key_env,
        api_key_file=None if api_key_file is None else str(api_key_file),
        max_bytes=8 * _MIB,
    )
    keys.check_host(host)
    server = create_server({name: load(value) for name, value in served.items()}, limits)
    application = http.create_app(server, keys, host)
    plan = Plan(served, keys, host=host, port=port, drain=0.0, grace=_GRACE)
    listening = plan.bind()
    info(f"serving {', '.join(served)} at {plan.url(listening)}{http.PATH}")
    log_to_stderr()
    http.run(application, plan, listening)
