"""``secondpass serve``: serve rerankers through the rerank APIs of existing clients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from secondpass.cli.console import info
from secondpass.cli.options import grouped
from secondpass_server.cli.served import Bounds, Keys, Port, ServedModels, note_depths
from secondpass_server.http import check_installed

_MIB = 2**20


@grouped
def serve(
    *,
    models: ServedModels,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Port = 8080,
    keys: Keys,
    strict_models: Annotated[
        bool,
        typer.Option(
            "--strict-models", help="Reject requests for a model name that is not served."
        ),
    ] = False,
    forgiving: Annotated[
        bool,
        typer.Option(
            "--forgiving",
            help="If no candidate could be scored, answer with the order of the request. By "
            "default, the answer is then status 503, or 504 at the deadline.",
        ),
    ] = False,
    bounds: Bounds,
    max_requests: Annotated[
        int,
        typer.Option(
            min=1, help="Maximum number of concurrent requests; further ones get status 429."
        ),
    ] = 256,
    max_body: Annotated[
        int, typer.Option(min=1, max=1024, metavar="MIB", help="Maximum size of a request body.")
    ] = 8,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Number of processes.")] = 1,
    drain: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="How long new requests are still accepted after SIGTERM.",
        ),
    ] = 1.0,
    grace: Annotated[
        float,
        typer.Option(
            min=1.0, metavar="SECONDS", help="How long requests may still run after --drain."
        ),
    ] = 25.0,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM file with the certificate, for HTTPS.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="PEM file with the private key of the certificate.")
    ] = None,
) -> None:
    """Serve rerankers over HTTP, as Cohere, Jina, TEI and others do.

    Set the base URL of your client to the address of this server. If your client speaks a certain
    API, add its prefix: `/cohere`, `/jina`, `/voyage`, `/tei`, `/vllm`, `/infinity`, `/llama_cpp`
    or `/mixedbread`. The server then answers as that API does. Further paths are `/health`,
    `/ready`, `/v1/models` and `/metrics`. On SIGTERM, the server finishes its requests before it
    stops. For example:

    - `secondpass serve --preset embedded --port 8080`

    - `secondpass serve -c rerank.yaml=rerank-v3.5 --host 0.0.0.0 --api-key-env RERANK_KEYS`
    """
    check_installed()
    from secondpass_server.http.server import Plan, deferred_sigterm, run
    from secondpass_server.http.settings import ServerSettings
    from secondpass_server.http.workers import log_to_stderr, run_workers
    from secondpass_server.rerankers import load_all

    plan = Plan(
        models.read(),
        ServerSettings(
            **keys.settings(),
            strict_models=strict_models,
            forgiving=forgiving,
            issue_messages=bounds.issue_messages,
            deadline=bounds.deadline,
            max_requests=max_requests,
            max_bytes=max_body * _MIB,
            max_total_bytes=max(128, max_body) * _MIB,
            max_candidates=bounds.max_candidates,
            max_text_characters=bounds.max_characters,
        ),
        host=host,
        port=port,
        workers=workers,
        drain=drain,
        grace=grace,
        tls_certificate=_path(tls_certificate),
        tls_key=_path(tls_key),
    ).checked()
    listening = plan.bind()
    with deferred_sigterm() as early:  # clients can connect from now on
        info(f"serving {', '.join(plan.configurations)} at {plan.url(listening)}")
        note_depths(load_all(plan.configurations), bounds.max_candidates)
        log_to_stderr()
        if workers > 1:
            run_workers(plan, listening, early)
            return
        answered, cut_off = run(plan, listening, early)
    lost = f"; {cut_off} were cut off after {grace:g} s" if cut_off else ""
    info(f"stopped; {answered} requests were answered{lost}")


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)
