"""Cohere's rerank API, versions 1 and 2."""

from __future__ import annotations

from typing import Any

from secondpass_server.http.errors import RequestError
from secondpass_server.http.fields import Fields, RerankRequest
from secondpass_server.http.shapes.base import Answer, Shape, result_rows


class Cohere(Shape):
    """``POST /v2/rerank`` and ``/v1/rerank``. Scores are within 0 to 1."""

    name = "cohere"
    paths = ("/v2/rerank", "/v1/rerank", "/rerank")

    def parse(self, fields: Fields) -> RerankRequest:
        """See :meth:`Shape.parse`."""
        return read_request(fields)

    def unit_scores(self, request: RerankRequest) -> bool:  # noqa: ARG002
        """Cohere documents scores as within 0 to 1."""
        return True

    def response(self, answer: Answer) -> Any:
        """See :meth:`Shape.response`."""
        return {"id": answer.id, "results": rows_with_spans(answer), **cohere_meta(answer)}

    def error(self, error: RequestError) -> Any:
        """See :meth:`Shape.error`."""
        return {"message": error.message}


def read_request(fields: Fields) -> RerankRequest:
    """The request that fields in Cohere's format describe."""
    rank_fields = fields.names("rank_fields")
    texts, documents = fields.documents("documents", objects=True, fields=rank_fields)
    return RerankRequest(
        query=fields.query(),
        texts=texts,
        documents=documents,
        model=fields.model(),
        top_n=fields.count("top_n"),
        return_documents=fields.flag("return_documents"),
        # Texts made of other fields have other offsets than the client's document.
        span_threshold=_span_threshold(fields) if rank_fields in (None, ["text"]) else None,
    )


def _span_threshold(fields: Fields) -> float | None:
    """The threshold of ``relevant_spans``, by default 0; None if no spans are requested."""
    spans = fields.mapping("relevant_spans")
    if spans is None:
        return None
    mode, most = spans.get("mode"), spans.get("max_spans")
    if mode not in ("enabled", "disabled"):
        raise RequestError(None, "relevant_spans.mode: must be 'enabled' or 'disabled'")
    if most is not None and (type(most) is not int or most < 1):
        raise RequestError(None, "relevant_spans.max_spans: must be a whole number, 1 or more")
    threshold = spans.get("threshold")
    if threshold is not None and not (type(threshold) in (int, float) and 0 <= threshold <= 1):
        raise RequestError(None, "relevant_spans.threshold: must be a number from 0 to 1")
    return None if mode == "disabled" else threshold or 0.0


def rows_with_spans(answer: Answer) -> list[dict[str, Any]]:
    """Rows with the span of each document that has one, if spans were requested.

    A ranking has only the best span of a document. Its score is that of the document.
    """
    rows = result_rows(answer)
    threshold = answer.request.span_threshold
    if threshold is not None:
        for row, item in zip(rows, answer.ranking.items, strict=True):
            score = row["relevance_score"]
            if item.span is not None and score >= threshold:
                start, end = item.span
                row["relevant_spans"] = [{"start": start, "end": end, "score": score}]
    return rows


def cohere_meta(answer: Answer) -> dict[str, Any]:
    """The fields ``meta``, with issues as warnings, and ``secondpass``."""
    meta: dict[str, Any] = {"api_version": {"version": "2"}}
    if answer.tokens is not None:
        meta["tokens"] = {"input_tokens": answer.tokens}
    if issues := answer.report["issues"]:
        meta["warnings"] = [f"{issue['code']}: {issue['message']}" for issue in issues]
    return {"meta": meta, "secondpass": answer.report}
