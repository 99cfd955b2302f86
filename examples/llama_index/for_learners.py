"""A library's search for researchers and for learners: one reranker, an ordering for each call.

    pip install -e . -e ./integrations/llama_index
    python examples/llama_index/for_learners.py

The preset ``graded_passages`` grades passages from 0 to 10 by three criteria in one question.
``order="research"`` orders by grade. ``order="learn"`` arranges the first twenty from introductory
to advanced, and by grade within each level. Grades then no longer decrease with rank, so the nodes'
scores follow from their rank; ``rerank_score`` in the metadata is the grade. ``llm=`` replaces the
preset's Gemini model.
"""

from __future__ import annotations

from _shared import ScriptedLLM, model, show
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank

QUESTION = "Why is induction a problem?"
PASSAGES = [
    ("Induction cookers heat the pan and not the plate.", "introductory", 0.0),
    ("That bread fed us yesterday proves nothing of today; only habit joins the two.",
     "intermediate", 9.0),
    ("No measure of confirmation survives a change of predicates such as grue.", "advanced", 10.0),
    ("Every swan so far was white. Is the next one? To say so is to reason by induction.",
     "introductory", 8.0),
    ("Hume was born in Edinburgh.", "introductory", 1.0),
    ("To justify induction by its success is to use it.", None, 7.0),
]  # fmt: skip
"""Passages, their difficulty (if known) and their grades."""


def retrieved() -> list[NodeWithScore]:
    """The passages, as a vector search might return them."""
    return [
        NodeWithScore(
            node=TextNode(text=text, metadata={} if level is None else {"difficulty": level}),
            score=0.9 - at / 10,
        )
        for at, (text, level, _) in enumerate(PASSAGES)
    ]


def main() -> None:
    """Search twice, with a different ordering for each call."""
    llm = model(ScriptedLLM(grade_of={text: grade for text, _, grade in PASSAGES}))
    rerank = SecondPassRerank("graded_passages", llm=llm)
    print(QUESTION)
    for order in ("research", "learn"):
        nodes, report = rerank.rerank_nodes(retrieved(), QUESTION, order=order)
        print(f"\n{order}")
        show(nodes, report.to_dict())


if __name__ == "__main__":
    main()
