"""An assistant's memory search: grades blended with the retriever's scores, and a threshold.

    pip install -e . -e ./integrations/llama_index
    python examples/llama_index/memory_search.py

The preset ``blended_scores`` grades short memories from 0 to 1 in one question. The final score is
0.4 times the retriever's score plus 0.6 times the grade; memories below 0.05 are dropped. ``llm=``
replaces the preset's model on Groq. If the model fails, the retriever's scores are kept.
"""

from __future__ import annotations

from _shared import ScriptedLLM, model, show
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank

QUESTION = "What should I cook for Ana?"
MEMORIES = [
    ("Ana cooks for the choir every May", 0.71, 0.2),
    ("Ana is allergic to nuts", 0.42, 1.0),
    ("Bought a new pan in March", 0.40, 0.1),
    ("Ana liked the lentil soup", 0.35, 0.9),
    ("The car is due for inspection", 0.08, 0.0),
]
"""Memories, their retrieval scores and their grades."""


def retrieved() -> list[NodeWithScore]:
    """The memories, as the application's search returns them."""
    return [
        NodeWithScore(node=TextNode(text=text, metadata={"day": at}), score=score)
        for at, (text, score, _) in enumerate(MEMORIES)
    ]


def search(llm: LLM) -> None:
    """Rerank with this model and print the result."""
    rerank = SecondPassRerank("blended_scores", llm=llm)
    nodes, report = rerank.rerank_nodes(retrieved(), QUESTION)
    show(nodes, report.to_dict())


def main() -> None:
    """Search once."""
    print(QUESTION)
    search(model(ScriptedLLM(grade_of={text: grade for text, _, grade in MEMORIES})))


if __name__ == "__main__":
    main()
