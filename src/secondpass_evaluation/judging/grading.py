"""The prompt by which a language model grades passages, and the reranker that uses it.

Upadhyay, Pradeep, Thakur, Craswell and Lin, "UMBRELA: UMbrela is the (open-source reproduction of
the) Bing RELevance Assessor", arXiv 2406.06519, 2024; after Thomas, Spielman, Craswell and Mitra,
"Large language models can accurately predict searcher preferences", SIGIR 2024. The scale and the
criteria are theirs, which are those of TREC's Deep Learning track; the wording, the delimiters
around passages and the format of the reply are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from secondpass import ConfigurationError, Reranker
from secondpass.config import resolve
from secondpass.questions import LLM
from secondpass.settings.registry import names
from secondpass_evaluation.rerankers import Spec

Grader: TypeAlias = Spec | LLM | Callable[..., Any]
"""A language model, as a mapping with a ``type``, an object or a function; or a reranker that asks
one, a configuration of it, the path of one, or the name of a preset."""

TEMPLATE = "umbrela-1"
"""Name and version of the prompt."""

GRADES = {
    0: "has nothing to do with the query",
    1: "is related to the query, but does not answer it",
    2: "holds an answer, but an unclear one, or hidden among other content",
    3: "is dedicated to the query and holds the exact answer",
}
"""What each grade says about a passage."""

INSTRUCTION = (
    "Give each document a whole grade from {lowest} to {highest}:\n"
    + "\n".join(f"{grade}: it {meaning}." for grade, meaning in sorted(GRADES.items()))
    + "\n\nConsider first what somebody who writes this query wants to know; then how well the "
    "document matches that, and how far it can be trusted; then decide. Grade each document by "
    "itself."
)


_NO_BOUNDS: Mapping[str, Any] = dict.fromkeys(("deadline", "calls", "tokens", "cost"))
"""Limits of one ranking: with them, documents would have no grade."""


def grading_reranker(grader: Grader, *, batch_size: int = 1) -> tuple[Reranker, LLM, bool]:
    """The reranker that asks a language model for grades of 0 to 3.

    Of a reranker only its last language model is used, and how it is asked: ``render``, ``cache``
    and the limits of concurrency and retries. Settings that limit or reorder a ranking are ignored.
    """
    from secondpass.prompts.template import Prompting
    from secondpass.strategies.graded import Graded

    settings: dict[str, Any] = {}
    owned = not isinstance(grader, Reranker)
    if _is_language_model(grader):
        owned = isinstance(grader, Mapping)
        llm: Any = grader
    else:
        reranker = resolve(grader)  # type: ignore[arg-type]
        llm = _language_model(reranker)
        settings = {
            "limits": replace(reranker.limits, **_NO_BOUNDS),
            "render": reranker.render,
            "cache": reranker.cache,
        }
    method = Graded(
        llm,
        scale=(min(GRADES), max(GRADES)),
        whole=True,
        batch_size=batch_size,
        prompt=Prompting(instruction=INSTRUCTION),
    )
    return Reranker(method, depth=None, log_level="debug", **settings), method.llm, owned


def _is_language_model(grader: object) -> bool:
    if isinstance(grader, Mapping):
        return "method" not in grader and grader.get("type") in names("llms")
    return callable(getattr(grader, "complete", None)) or (
        callable(grader) and not isinstance(grader, Reranker)
    )


def _language_model(reranker: Reranker) -> Any:
    """The last language model that the method asks: in a cascade, that of the last stage."""
    services = getattr(reranker.method, "language_models", ())
    # Rerank APIs are methods themselves.
    models = [service for service in services if not hasattr(service, "judge")]
    if not models:
        raise ConfigurationError(
            f"judge: {reranker.method.name} asks no language model; give a configuration whose "
            "method does, such as {method: {type: graded, llm: {type: openai, model: …}}}"
        )
    return models[-1]
