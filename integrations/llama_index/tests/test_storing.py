import pytest
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document, MetadataMode, NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank, SecondPassStore
from secondpass import ConfigurationError, StoreError

TEXTS = ["Pensioners travel at half price.", "The ferry leaves every morning."]


def rerank(path, **arguments):
    return SecondPassRerank({"method": {"type": "embedded", "store": str(path)}}, **arguments)


@pytest.mark.parametrize("mode", [MetadataMode.NONE, MetadataMode.EMBED])
def test_nodes_of_an_ingestion_pipeline_are_known_when_they_are_ranked(tmp_path, mode):
    path = tmp_path / "passages.store"
    storing = SecondPassStore(rerank=rerank(path, metadata_mode=mode))
    pipeline = IngestionPipeline(transformations=[SentenceSplitter(), storing])
    documents = [Document(text=text, metadata={"title": "Travel"}) for text in TEXTS]
    nodes = pipeline.run(documents=documents)
    assert [node.get_content() for node in nodes] == TEXTS
    scored = [NodeWithScore(node=node, score=0.5) for node in nodes]
    _, report = rerank(path, metadata_mode=mode).rerank_nodes(scored, "fares")
    assert (report.usage.known, report.usage.encoded) == (2, 0)


def test_it_is_saved_and_loaded(tmp_path):
    path = tmp_path / "passages.store"
    loaded = SecondPassStore.from_dict(SecondPassStore(rerank=rerank(path, top_n=3)).to_dict())
    nodes = [TextNode(text=text) for text in TEXTS]
    assert loaded(nodes) is nodes
    assert loaded.rerank.top_n == 3
    assert loaded.rerank.store([NodeWithScore(node=node) for node in nodes]) == (2, 0)


def test_what_is_no_postprocessor():
    message = (
        "SecondPassStore: rerank: must be a mapping or instance of SecondPassRerank, not 'lexical'"
    )
    with pytest.raises(ConfigurationError, match=message):
        SecondPassStore("lexical")


def test_a_postprocessor_without_a_store():
    with pytest.raises(StoreError, match="store"):
        SecondPassStore(SecondPassRerank("lexical"))([TextNode(text="a")])
