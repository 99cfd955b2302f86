"""Wrong models, by every way in: no ranking is ``ok``, and one sentence says why."""

import json

import pytest

import checkpoint_folders as folders
import family_models as families
from command_fixtures import *  # noqa: F403
from secondpass import Reranker, RerankError
from tiny_models import write_classifier

WRONG = {
    "encoder": folders.bare,
    "without a head": folders.without_head,
    "entailment": lambda folder: write_classifier(folder, labels=3),
    "plain language model": lambda folder: families.write_causal_family(folder, "Qwen3"),
    "code of its own": folders.flash,
    "untemplated": folders.untemplated,
}


def haystack(config):
    pytest.importorskip("haystack_integrations.components.rankers.secondpass")
    from haystack import Document

    from haystack_integrations.components.rankers.secondpass import SecondPassRanker

    return SecondPassRanker(config).run("q", [Document(content="a"), Document(content="b")])


def llama_index(config):
    pytest.importorskip("llama_index.postprocessor.secondpass")
    from llama_index.core.schema import NodeWithScore, TextNode

    from llama_index.postprocessor.secondpass import SecondPassRerank

    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in "ab"]
    return {"report": SecondPassRerank(config).rerank_nodes(nodes, "q")[1].to_dict()}


QUICK = {"encoder", "untemplated"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, id=one, marks=() if one in QUICK else pytest.mark.long) for one in WRONG],
)
def test_no_way_in_gives_a_ranking(name, tmp_path, secondpass):
    folder = str(WRONG[name](tmp_path / "model"))
    method = {"type": "cross_encoder", "model": folder}
    report = Reranker(method).rerank("q", ["a", "b"]).report
    assert report.status == "unchanged"
    [issue] = report.issues
    assert issue.code == "model_not_loaded"
    assert "\n" not in issue.message
    with pytest.raises(RerankError):
        Reranker(method, strict=True).rerank("q", ["a", "b"])
    told = secondpass("doctor", folder, "--json")
    assert told.code == 1
    assert json.loads(told.out)["model"]["refused"]
    told = secondpass("doctor", "--set", f"method={json.dumps(method)}", "--json")
    assert told.code == 1


@pytest.mark.long  # imports both frameworks
@pytest.mark.parametrize("adapter", [haystack, llama_index])
def test_no_adapter_gives_a_ranking(adapter, tmp_path):
    method = {"type": "cross_encoder", "model": str(folders.bare(tmp_path / "model"))}
    assert adapter({"method": method})["report"]["status"] == "unchanged"
