"""Both frameworks take terms from a configuration and carry what they added."""

from haystack.dataclasses import Document
from llama_index.core.schema import NodeWithScore, TextNode

from haystack_integrations.components.rankers.secondpass import SecondPassRanker
from llama_index.postprocessor.secondpass import SecondPassRerank

CONFIG = {
    "method": "lexical",
    "terms": [{"type": "number", "field": "clicks", "high": 10, "weight": 2.0}],
}
ROWS = {"cats sleep": 0, "a cat that purrs": 10}


def test_haystack():
    documents = [Document(content=text, meta={"clicks": clicks}) for text, clicks in ROWS.items()]
    ranker = SecondPassRanker.from_dict(SecondPassRanker(CONFIG).to_dict())
    found = ranker.run(query="cats", documents=documents)["documents"]
    assert [document.meta["rerank_terms"] for document in found] == [{"clicks": 1}, {"clicks": 0}]
    assert found[0].score == found[0].meta["rerank_final_score"] == 2 / 3
    assert found[1].meta["rerank_score"] > found[0].meta["rerank_score"]


def test_llama_index():
    nodes = [
        NodeWithScore(node=TextNode(text=text, metadata={"clicks": clicks}), score=0.5)
        for text, clicks in ROWS.items()
    ]
    rerank = SecondPassRerank.from_dict(SecondPassRerank(CONFIG).to_dict())
    found = rerank.postprocess_nodes(nodes, query_str="cats")
    assert [one.node.metadata["rerank_terms"] for one in found] == [{"clicks": 1}, {"clicks": 0}]
    assert "rerank_terms" in found[0].node.excluded_llm_metadata_keys
