"""Names and attributes of spans and metrics, by the conventions of OpenTelemetry and OpenInference.

OpenTelemetry, semantic conventions for generative AI 1.41 (``gen_ai.*``, ``error.type``,
``server.address``); OpenInference (``openinference.span.kind``, ``reranker.*``, ``document.*``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from secondpass.candidates import retrieval_score
from secondpass.effects import Completion, Prompt
from secondpass.runtime.observers import (
    MethodOperation,
    Operation,
    RankingOperation,
    RequestOperation,
    ScoringOperation,
)
from secondpass.types import Candidate, Ranking, Report

Value: TypeAlias = str | int | float | Sequence[str]

_PROVIDERS = {"google": "gcp.gemini"}
"""Provider names of secondpass that differ from the well-known values."""


def span_name(operation: Operation) -> str:
    """The name of a span."""
    if isinstance(operation, RankingOperation):
        return f"rerank {operation.name}"
    if isinstance(operation, RequestOperation):
        return f"{operation.kind} {operation.name}"
    if isinstance(operation, ScoringOperation):
        return f"score {operation.name}"
    return operation.name


def at_start(operation: Operation) -> dict[str, Value]:
    """The attributes that are known when an operation starts."""
    if isinstance(operation, RankingOperation):
        top_k = operation.candidates if operation.top_k is None else operation.top_k
        return {
            "openinference.span.kind": "RERANKER",
            "reranker.model_name": operation.name,
            "reranker.top_k": top_k,
            "secondpass.candidates": operation.candidates,
        }
    if isinstance(operation, MethodOperation):
        return {"openinference.span.kind": "CHAIN", "secondpass.texts": operation.texts}
    if isinstance(operation, ScoringOperation):
        return {
            "openinference.span.kind": "CHAIN",
            "secondpass.queries": operation.queries,
            "secondpass.pairs": operation.pairs,
        }
    if isinstance(operation, RequestOperation):
        again = {} if operation.after is None else {"secondpass.after": operation.after}
        return {
            "openinference.span.kind": "LLM" if operation.kind == "chat" else "RERANKER",
            **_request_labels(operation),
            "secondpass.documents": operation.documents,
            "secondpass.attempt": operation.attempt,
            **again,
        }
    return {}


def at_end(operation: Operation) -> dict[str, Value]:
    """The further attributes that are known when an operation has ended."""
    known: dict[str, Value | None] = {"error.type": operation.error}
    if isinstance(operation, RankingOperation) and operation.report is not None:
        known |= _report(operation.report)
    elif isinstance(operation, MethodOperation):
        known["secondpass.scored"] = operation.scored
    elif isinstance(operation, RequestOperation):
        known["gen_ai.usage.input_tokens"] = operation.input_tokens
        known["gen_ai.usage.output_tokens"] = operation.output_tokens
        known["secondpass.usage.units"] = operation.units
        if operation.cut:
            known["gen_ai.response.finish_reasons"] = ["length"]
    return {name: value for name, value in known.items() if value is not None}


def _report(report: Report) -> dict[str, Value | None]:
    usage = report.usage
    return {
        "secondpass.status": report.status,
        "secondpass.method": report.method,
        "secondpass.score_kind": report.score_kind,
        "secondpass.skipped.pairs": None if report.skipped is None else report.skipped.pairs,
        "secondpass.nothing_relevant": report.nothing_relevant,
        "secondpass.issues": list(dict.fromkeys(issue.code for issue in report.issues)) or None,
        "secondpass.usage.calls": usage.calls,
        "secondpass.usage.rounds": usage.rounds,
        "secondpass.usage.pairs": usage.pairs,
        "secondpass.usage.input_tokens": usage.input_tokens,
        "secondpass.usage.output_tokens": usage.output_tokens,
        "secondpass.usage.units": usage.units,
        "secondpass.usage.cost": usage.cost,
        "secondpass.usage.retries": usage.retries,
        "secondpass.usage.repairs": usage.repairs,
        "secondpass.usage.cached": usage.cached,
    }


def labels(operation: Operation) -> dict[str, str | int]:
    """The attributes of metrics, which have few distinct values."""
    error = {} if operation.error is None else {"error.type": operation.error}
    if isinstance(operation, RankingOperation):
        status = "none" if operation.report is None else operation.report.status
        return {"secondpass.method": operation.name, "secondpass.status": status, **error}
    if isinstance(operation, RequestOperation):
        return {**_request_labels(operation), **error}
    name = "secondpass.method" if isinstance(operation, MethodOperation) else "secondpass.model"
    return {name: operation.name, **error}


def _request_labels(operation: RequestOperation) -> dict[str, str | int]:
    server = {"server.address": operation.address, "server.port": operation.port}
    address = {name: value for name, value in server.items() if value is not None}
    return {
        "gen_ai.operation.name": operation.kind,
        "gen_ai.provider.name": _PROVIDERS.get(operation.provider, operation.provider),
        "gen_ai.request.model": operation.name,
        **address,
    }


# ---------------------------------------------------------------------- texts


def of_texts(texts: Mapping[str, Any]) -> dict[str, Value]:
    """The attributes for the texts of an operation, which :meth:`Observer.content` receives."""
    attributes: dict[str, Value] = {}
    for name, value in texts.items():
        if name == "query":
            attributes["reranker.query"] = value
        elif name == "candidates":
            for index, candidate in enumerate(value):
                score = retrieval_score(candidate)
                attributes |= _document("input", index, candidate, score, candidate.metadata)
        elif isinstance(value, Ranking):
            for index, item in enumerate(value):
                score = item.final_score
                attributes |= _document("output", index, item.candidate, score, item.metadata)
        elif isinstance(value, Prompt):
            attributes |= _prompt(value)
        elif isinstance(value, Completion):
            attributes |= _completion(value)
    return attributes


def _document(
    side: str, index: int, candidate: Candidate, score: float | None, metadata: object
) -> dict[str, Value]:
    known = {
        "id": None if candidate.id is None else str(candidate.id),
        "content": candidate.text if isinstance(candidate.text, str) else None,
        "score": score,
        "metadata": _json(metadata) if metadata else None,
    }
    prefix = f"reranker.{side}_documents.{index}.document"
    return {f"{prefix}.{name}": value for name, value in known.items() if value is not None}


def _prompt(prompt: Prompt) -> dict[str, Value]:
    messages = [
        {"role": turn.role, "parts": [{"type": "text", "content": turn.text}]}
        for turn in prompt.turns
    ]
    attributes: dict[str, Value] = {"gen_ai.input.messages": _json(messages)}
    if prompt.system:
        parts = [{"type": "text", "content": prompt.system}]
        attributes["gen_ai.system_instructions"] = _json(parts)
    return attributes


def _completion(completion: Completion) -> dict[str, Value]:
    message = {
        "role": "assistant",
        "parts": [{"type": "text", "content": completion.text}],
        "finish_reason": "length" if completion.cut else "stop",
    }
    return {"gen_ai.output.messages": _json([message])}


def _json(value: object) -> str:
    """A value as JSON; parts that JSON does not have are written as strings, or left out."""
    return json.dumps(value, default=str, ensure_ascii=False, skipkeys=True)
