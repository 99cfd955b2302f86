"""Each preset through both adapters: the prompt and the order of the library."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

import fake_provider as fake
from reference_replies import says
from secondpass import Candidate, Reranker, config
from tactic_candidates import nodes, tactic

QUERY = "how do I publish?"
COUNT = 6


def permuted(request):
    """A step: an order of all labels that is neither the one that came in nor its reverse."""
    labels = [*request.labels]
    return says(json.dumps([*labels[1::2], *labels[::2]]))(request)


def permuted_indices(request):
    labels = [*range(len(request.labels))]
    return says(json.dumps([*labels[1::2], *labels[::2]]))(request)


def by_grade(highest):
    rows = [{"index": at, "score": (at * 5 % 7) / 6 * highest} for at in range(COUNT)]
    return says(json.dumps(rows if highest == 1 else {"grades": rows}))


SYSTEMS = {
    # API, variable of the key, step, metadata of a candidate, settings, options of a call
    "blended_scores": ("openai", "GROQ_API_KEY", by_grade(1), lambda at: {"day": at}, {}, {}),
    "graded_passages": (
        "google",
        "GOOGLE_API_KEY",
        by_grade(10),
        lambda at: {"difficulty": ["advanced", "introductory"][at % 2]},
        {"order": config.preset("graded_passages")["orders"]["learn"]},
        {},
    ),
    "listwise_guided": (
        "anthropic",
        "ANTHROPIC_API_KEY",
        permuted_indices,
        lambda at: {"path": f"task-{at}.md"},
        {"top_k": 2},
        {},
    ),
    "listwise_ids": (
        "openai",
        "OPENAI_API_KEY",
        permuted,
        lambda at: {key: value for key, value in tactic(f"t{at}").items() if key != "id"},
        {},
        {"context": nodes()},
    ),
}


def in_haystack(settings, given, options):
    haystack = pytest.importorskip("haystack")
    rankers = pytest.importorskip("haystack_integrations.components.rankers.secondpass")
    documents = [
        haystack.Document(id=one.id, content=one.text, score=one.score, meta={**one.metadata})
        for one in given
    ]
    ranker = rankers.SecondPassRanker(settings)
    outputs = [
        ranker.run(query=QUERY, documents=documents, **options),
        asyncio.run(ranker.run_async(query=QUERY, documents=documents, **options)),
    ]
    ranker.close()
    return [
        ([one.id for one in output["documents"]], output["report"]["status"]) for output in outputs
    ]


def in_llama_index(settings, given, options):
    schema = pytest.importorskip("llama_index.core.schema")
    postprocessor = pytest.importorskip("llama_index.postprocessor.secondpass")
    found = [
        schema.NodeWithScore(
            node=schema.TextNode(id_=one.id, text=one.text, metadata={**one.metadata}),
            score=one.score,
        )
        for one in given
    ]
    rerank = postprocessor.SecondPassRerank(settings)
    outputs = [
        rerank.rerank_nodes(found, QUERY, **options),
        asyncio.run(rerank.arerank_nodes(found, QUERY, **options)),
    ]
    rerank.close()
    return [([one.node.node_id for one in ranked], report.status) for ranked, report in outputs]


@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize("adapter", [in_haystack, in_llama_index])
@pytest.mark.parametrize("preset", SYSTEMS)
def test_the_library_and_the_adapters_agree(preset, adapter, fault, provider_with):
    api, variable, step, metadata, settings, options = SYSTEMS[preset]
    provider = provider_with({variable: "k"})
    provider.play(fake.status(404) if fault else step)
    method = {"llm": {"base_url": provider.base_url(api)}}
    configuration = config.preset(preset, method=method, **settings)
    given = [
        Candidate(f"Page {at}. " + "a passage " * 60, f"t{at}", 0.9 - at / 10, metadata(at))
        for at in range(COUNT)
    ]
    with contextlib.closing(Reranker.from_config(configuration)) as reranker:
        ranking = reranker.rerank(QUERY, given, **options)
    assert ranking.report.status == ("unchanged" if fault else "ok")
    expected = [item.id for item in ranking], ranking.report.status
    assert adapter(configuration, given, options) == [expected] * 2
    assert len({json.dumps(request.body) for request in provider.requests}) == 1
    assert provider.calls == 3
