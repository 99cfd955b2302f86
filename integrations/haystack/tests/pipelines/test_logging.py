"""What is logged, drawn and reported as telemetry."""

from __future__ import annotations

import http.server
import inspect
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from haystack import component
from haystack.dataclasses import ChatMessage
from haystack.telemetry._telemetry import pipeline_running

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from haystack_pipelines import (
    Broken,
    Result,
    Way,
    answering,
    asking,
    every_way,
    in_order,
    retrieving,
)


@component
class ColdGenerator:
    """Can't be warmed up, but answers."""

    def warm_up(self) -> None:
        raise OSError("sk-secret is no key")

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> Result:
        return {"replies": [ChatMessage.from_assistant(in_order(messages))]}


@contextmanager
def listening(name: str) -> Iterator[list[logging.LogRecord]]:
    """What reaches the handlers of this logger, at the level of warnings."""
    heard: list[logging.LogRecord] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record)

    handler = Ear(logging.WARNING)
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield heard
    finally:
        logger.removeHandler(handler)


# ---------------------------------------------------------------------- what is logged and printed


@every_way
def test_a_degraded_run_logs_one_warning_and_prints_nothing(
    way: Way, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = retrieving(SecondPassRanker({"method": Broken(), "fallback": ["lexical"]}))
    with listening("") as heard:
        result = way(pipeline, asking("retriever", "ranker"))
    assert result["ranker"]["report"]["status"] == "degraded"
    assert [record.levelname for record in heard] == ["WARNING"]
    assert "degraded" in heard[0].getMessage()
    assert "castle" not in heard[0].getMessage()
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_degraded_run_warns_through_haystacks_loggers() -> None:
    # `haystack.logging.configure_logging` puts its handler onto these names, not onto the root.
    pipeline = retrieving(SecondPassRanker({"method": Broken()}))
    with listening("haystack_integrations") as heard:
        pipeline.run(asking("retriever", "ranker"))
    assert len(heard) == 1


@every_way
def test_failed_warm_up_is_logged(way: Way, capsys: pytest.CaptureFixture[str]) -> None:
    ranker = SecondPassRanker({"method": "listwise"}, chat_generator=ColdGenerator())
    pipeline = retrieving(ranker)
    with listening("haystack_integrations") as heard:
        for _ in range(2):
            result = way(pipeline, asking("retriever", "ranker"))
            assert result["ranker"]["report"]["status"] == "ok"
    (record,) = heard
    assert record.getMessage() == "the chat generator can't be warmed up: OSError"
    # The values by themselves are what structured logs are made of, and only `haystack.logging`
    # leaves them on the record.
    assert record.__dict__["error"] == "OSError"
    assert capsys.readouterr().out == ""


@every_way
def test_warm_up_raises_under_raise_on_failure(way: Way) -> None:
    ranker = SecondPassRanker(
        {"method": "listwise"}, chat_generator=ColdGenerator(), raise_on_failure=True
    )
    pipeline = retrieving(ranker)
    for _ in range(2):
        with pytest.raises(OSError, match="sk-secret is no key"):
            way(pipeline, asking("retriever", "ranker"))


class Mermaid(http.server.BaseHTTPRequestHandler):
    """A server that draws an empty picture."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.end_headers()
        self.wfile.write(b"\x89PNG\r\n\x1a\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


# ---------------------------------------------------------------------- pictures and telemetry


def test_a_pipeline_with_it_is_drawn(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mermaid) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            picture = tmp_path / "pipeline.png"
            answering(SecondPassRanker("default")).draw(
                path=picture, server_url=f"http://127.0.0.1:{server.server_address[1]}"
            )
        finally:
            server.shutdown()
            thread.join()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_telemetry_has_the_class_but_no_settings() -> None:
    pipeline = retrieving(SecondPassRanker("lexical", query_prefix="confidential"))
    undecorated = inspect.getclosurevars(pipeline_running).nonlocals["func"]
    properties = undecorated(pipeline)
    event = json.dumps(properties)
    assert "SecondPassRanker" in event
    assert "confidential" not in event
