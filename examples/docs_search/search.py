"""A documentation assistant's search: keywords, then Claude by the guidelines of the domain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from scripted_model import Prompt, language_model, word_overlap, words

from secondpass import Ranking, Reranker

DOCS = Path(__file__).parent / "docs"


def keyword_search(query: str, count: int, folder: Path = DOCS) -> list[dict[str, Any]]:
    """The pages with most words of the query, with ``path``, ``text`` and ``score``, best first.

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
    """The best pages for a query, and the number of pages that the model has seen.

    The preset ``attune`` asks the keyword search for three times as many pages as are returned.
    """
    with language_model("ANTHROPIC_API_KEY", type="openai", score=by_guidelines) as llm:
        reranker = Reranker.from_preset("attune", method={"llm": llm}, top_k=k)
        try:
            pages = keyword_search(query, reranker.candidates_needed() or k)
            return len(pages), reranker.rerank(query, pages)
        finally:
            reranker.close()


def by_guidelines(prompt: Prompt, page: str) -> float:
    """What the scripted model does with the guidelines in its prompt instead of understanding them.

    A page gains 1 if a guideline that shares a word with the query names it as the one to prefer,
    and 0.5 if it is a tool: the canonical reference of a workflow.
    """
    found = re.search(r"^path: (.*)$", page, re.MULTILINE)
    name = found[1] if found else ""
    guidelines = [line for line in prompt.system.splitlines() if line.startswith("- ")]
    preferred = [
        line.partition(" over ")[0] for line in guidelines if words(prompt.query) & words(line)
    ]
    score = word_overlap(prompt, page) + any(name in line for line in preferred)
    return score + name.startswith("tool-") / 2
