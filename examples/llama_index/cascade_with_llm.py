"""A cascade: BM25 selects four nodes, and a language model orders these.

    pip install -e . -e ./integrations/llama_index
    python examples/llama_index/cascade_with_llm.py

The language model is any LlamaIndex LLM, passed as ``llm=``. Here it is OpenAI's if
``llama-index-llms-openai`` is installed and a key is set, else a scripted one. A second run uses a
model that fails: the cascade keeps the order of its first stage, and the report has the reason.
"""

from __future__ import annotations

from typing import Any, NoReturn

from _shared import ScriptedLLM, model, show
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank

QUESTION = "Which bread keeps for a week?"
PASSAGES = {
    "Bread rolls are best on the day they are baked, for a week of breakfasts bake daily.": 1.0,
    "Which flour to use for which bread: rye, wheat, spelt.": 2.0,
    "A sourdough rye loaf stays moist; as bread that keeps for a week it is hard to beat.": 9.0,
    "Trains keep to the timetable of the week.": 0.0,
    "Wheat bread keeps two days in a bag of linen.": 6.0,
    "The oven must be hot before the dough goes in.": 0.0,
}
"""Passages and their grades."""

CASCADE = {
    "method": {
        "type": "cascade",
        "stages": [{"type": "lexical", "depth": 100}, {"type": "listwise", "depth": 4}],
    },
    "limits": {"deadline": 20, "calls": 2, "retries": 0},
    "log_level": "debug",  # the reports are printed
}


class Unavailable(ScriptedLLM):
    """A model that is unavailable."""

    def complete(self, *_: Any, **__: Any) -> NoReturn:
        """Fails."""
        raise ConnectionError("no route to host")


def retrieved() -> list[NodeWithScore]:
    """The passages, in a poor order."""
    return [
        NodeWithScore(node=TextNode(text=text), score=1 - at / 10)
        for at, text in enumerate(PASSAGES)
    ]


def search(llm: LLM) -> None:
    """Rerank with this model and print the result."""
    rerank = SecondPassRerank(CASCADE, llm=llm)
    nodes, report = rerank.rerank_nodes(retrieved(), QUESTION)
    show(nodes, report.to_dict())


def main() -> None:
    """Search with a working model, then with one that fails."""
    print(QUESTION)
    search(model(ScriptedLLM(grade_of=PASSAGES, replies_with_grades=False)))
    print("\nThe same with a model that is unavailable:")
    search(Unavailable(grade_of=PASSAGES))


if __name__ == "__main__":
    main()
