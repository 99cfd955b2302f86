"""The rerank API of Text Embeddings Inference (TEI)."""

from __future__ import annotations

from typing import Any

from secondpass_server.http.errors import RequestError, TooManyTextsError
from secondpass_server.http.fields import Fields, RerankRequest
from secondpass_server.http.shapes.base import Answer, Shape, result_rows

_ERROR_TYPES = {429: "Overloaded", 503: "Unhealthy", 504: "Backend", 500: "Backend"}


class Tei(Shape):
    """``POST /rerank``. The response is a list of rows, without a place for a report.

    Scores are within 0 to 1 unless ``raw_scores`` is set.
    """

    name = "tei"
    paths = ("/rerank",)
    invalid = 422

    def parse(self, fields: Fields) -> RerankRequest:
        """See :meth:`Shape.parse`."""
        texts, documents = fields.documents("texts")
        request = RerankRequest(
            query=fields.query(),
            texts=texts,
            documents=documents,
            model=fields.model(),
            top_n=fields.count("top_n"),  # litellm sends it
            return_documents=fields.flag("return_text"),
            raw_scores=fields.flag("raw_scores"),
        )
        fields.expect("truncate", True)  # models cut texts that are too long
        fields.flag("return_documents")  # litellm sends it beside return_text
        return request

    def unit_scores(self, request: RerankRequest) -> bool:
        """TEI applies a sigmoid unless raw scores are requested."""
        return not request.raw_scores

    def response(self, answer: Answer) -> Any:
        """See :meth:`Shape.response`."""
        return result_rows(answer, score="score", document="text", as_object=False)

    def error(self, error: RequestError) -> Any:
        """See :meth:`Shape.error`."""
        message = error.message
        if isinstance(error, TooManyTextsError):  # clients read the number and send smaller batches
            message = f"batch size {error.count} > maximum allowed batch size {error.most}"
        return {
            "error": message,
            "error_type": _ERROR_TYPES.get(self.status(error), "Validation"),
        }
