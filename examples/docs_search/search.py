"""A documentation assistant's search: keywords, then a language model with guidelines."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any

from scripted_model import Prompt, language_model, word_overlap, words

from secondpass import Ranking, Reranker

DOCS = Path(__file__).parent / "docs"


def keyword_search(query: str, count: int, folder: Path = DOCS) -> list[dict[str, Any]]:
    """The pages that share most words with the query: ``path``, ``text`` and ``score``, best first.

    A word in the name of a file counts twice.
    """
    pages: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        wanted = words(query)
        score = len(wanted & words(text)) + 2 * len(wanted & words(path.stem))
        if score:
            pages.append({"path": path.name, "text": text, "score": score})
    return sorted(pages, key=lambda page: -page["score"])[:count]


def search(query: str, k: int = 3) -> tuple[int, Ranking]:
    """The number of pages that the model has seen, and the best pages for a query.

    With the preset ``listwise_guided``, the keyword search retrieves three times as many pages.
    """
    with (
        language_model("ANTHROPIC_API_KEY", type="openai", score=by_guidelines) as llm,
        closing(Reranker.from_preset("listwise_guided", method={"llm": llm}, top_k=k)) as reranker,
    ):
        pages = keyword_search(query, reranker.candidates_needed() or k)
        return len(pages), reranker.rerank(query, pages)


def by_guidelines(prompt: Prompt, page: str) -> float:
    """Score a page for the scripted model, which only compares words with the guidelines.

    Adds 1 if a guideline that shares a word with the query prefers the page, and 0.5 for tools, the
    canonical references.
    """
    found = re.search(r"^path: (.*)$", page, re.MULTILINE)
    name = found[1] if found else ""
    guidelines = [line for line in prompt.system.splitlines() if line.startswith("- ")]
    preferred = [
        line.partition(" over ")[0] for line in guidelines if words(prompt.query) & words(line)
    ]
    score = word_overlap(prompt, page) + any(name in line for line in preferred)
    return score + name.startswith("tool-") / 2
