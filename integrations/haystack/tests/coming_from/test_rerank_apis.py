"""Compared with rankers of other packages, which call rerank APIs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from haystack.utils import Secret


def cohere(peers: Any, key: Secret, url: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    fields = {"meta_fields_to_embed": ["title"]}
    named = {"api_key": key, "api_base_url": url, "meta_data_separator": " - ", **fields}
    theirs = peers.CohereRanker("rerank-v3.5", **named)
    method = {"api": "cohere", "options": {"max_tokens_per_doc": 4096}}
    ours = {"model": "rerank-v3.5", "top_k": 10, "embedding_separator": " - ", **fields}
    return theirs, method, ours


def jina(peers: Any, key: Secret, url: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    theirs = peers.JinaRanker("m", api_key=key, base_url=f"{url}/rerank", score_threshold=0.2)
    return theirs, {"api": "jina"}, {"model": "m", "score_threshold": 0.2}


def vllm(peers: Any, key: Secret, url: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    fields = {"meta_fields_to_embed": ["title"]}
    extra = {"truncate_prompt_tokens": 256}
    named = {"api_key": key, "api_base_url": url, "extra_parameters": extra, **fields}
    theirs = peers.VLLMRanker(model="m", **named)
    return theirs, {"api": "vllm", "options": extra}, {"model": "m", **fields}


def huggingface_api(
    peers: Any, key: Secret, url: str
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    theirs = peers.HuggingFaceTEIRanker(url=url, token=key, raw_scores=True)
    return theirs, {"api": "tei", "raw_scores": True}, {"top_k": 10, "dedupe": None}


PAGE = Path(__file__).resolve().parents[4] / "docs/coming-from-haystack.md"
PEERS = [
    ("haystack.components.rankers", "LLMRanker"),
    ("haystack.components.rankers", "LostInTheMiddleRanker"),
    ("haystack.components.rankers", "MetaFieldRanker"),
    *(
        pytest.param(
            f"haystack_integrations.components.rankers.{module}", name, marks=pytest.mark.long
        )
        for module, name in [
            ("cohere", "CohereRanker"),
            ("fastembed", "FastembedRanker"),
            ("huggingface_api", "HuggingFaceTEIRanker"),
            ("jina", "JinaRanker"),
            ("nvidia", "NvidiaRanker"),
            ("sentence_transformers", "SentenceTransformersSimilarityRanker"),
            ("vllm", "VLLMRanker"),
            ("voyage", "VoyageRanker"),
        ]
    ),
]


@pytest.mark.parametrize(("module", "name"), PEERS)
def test_the_page_names_every_parameter_of_the_peer(module: str, name: str) -> None:
    peer = getattr(pytest.importorskip(module), name)
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {name}\n")[1].split("\n## ")[0]
    for parameter in inspect.signature(peer.__init__).parameters:
        assert parameter == "self" or re.search(rf"`{parameter}[`=]", section), parameter
