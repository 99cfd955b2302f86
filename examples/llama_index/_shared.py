"""Shared by the examples of this folder: a table, and a stub language model without a key."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # missing_package.py

import missing_package  # noqa: F401 - says what to install
from llama_index.core.base.llms.types import CompletionResponse, LLMMetadata
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.schema import NodeWithScore


def show(nodes: Sequence[NodeWithScore], report: Mapping[str, Any]) -> None:
    """Print a row for each node, then a summary of the report.

    Args:
        nodes: the nodes returned by the reranker.
        report: its report, from ``report.to_dict()``.
    """
    print("rank   score  retrieved  status      text")
    for one in nodes:
        meta = one.metadata
        retrieved = "-" if meta["retrieval_score"] is None else f"{meta['retrieval_score']:.3f}"
        print(
            f"{meta['rerank_rank']:4} {one.score:7.3f}  {retrieved:>9}  "
            f"{meta['rerank_status']:10}  {one.node.get_content()[:70]}"
        )
    print(f"status: {report['status']}, by {report['method'] or 'the retriever'}")
    for issue in report["issues"]:
        print(f"  {issue['code']}: {issue['message']}")
    for reason, positions in report["left_out"].items():
        print(f"  left out: {len(positions)}, {reason}")


class ScriptedLLM(CustomLLM):
    """A stub language model that grades passages from a table.

    It finds the passages and their labels in the prompt, and replies in the requested format: the
    labels in order, or a grade for each.
    """

    grade_of: dict[str, float]
    """Grades by passage."""
    replies_with_grades: bool = True
    """Whether replies have grades, or only an order."""

    @property
    def metadata(self) -> LLMMetadata:
        """The name of the model."""
        return LLMMetadata(model_name="scripted")

    def complete(self, prompt: str, *_: Any, **__: Any) -> CompletionResponse:
        """The reply."""
        documents = re.findall(r'<doc id="([^"]*)">(.*?)</doc>', prompt, re.DOTALL)
        grades = {label: self._grade(text) for label, text in documents}
        if self.replies_with_grades:
            return CompletionResponse(text=json.dumps(grades))
        order = sorted(grades, key=lambda label: -grades[label])
        return CompletionResponse(text=json.dumps({"ranking": order}))

    def stream_complete(self, prompt: str, *_: Any, **__: Any) -> Iterator[CompletionResponse]:
        """The reply in one chunk."""
        yield self.complete(prompt)

    def _grade(self, document: str) -> float:
        # Long passages are truncated in the prompt.
        return next((grade for text, grade in self.grade_of.items() if text[:40] in document), 0.0)


def model(scripted: LLM, note: str = "its grades are a table in the example") -> LLM:
    """OpenAI's model if its package is installed and a key is set, else ``scripted``.

    Args:
        scripted: the model to use without a key.
        note: what to print about it.
    """
    if os.environ.get("OPENAI_API_KEY"):
        try:
            from llama_index.llms.openai import OpenAI
        except ImportError:
            print("To use OPENAI_API_KEY: pip install llama-index-llms-openai", file=sys.stderr)
        else:
            return OpenAI("gpt-4.1-mini")
    print(f"Scripted model: {note}.", file=sys.stderr)
    return scripted
