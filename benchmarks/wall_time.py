"""Measures the time of strategies, and of other packages, with a model that takes 300 ms.

    pip install --no-deps --target build/rank_llm rank_llm python-dotenv ftfy dacite wcwidth
    python benchmarks/wall_time.py --rank-llm build/rank_llm

The model is a server on the loopback interface. It knows the right order of the 100 candidates, and
answers every prompt in the requested format after 300 ms, so the table shows how well a strategy
uses concurrency. The other packages have their default settings: LlamaIndex's LLMRerank and
RankGPTRerank, and rank_llm's SafeOpenai, which is omitted without ``--rank-llm``.

rank_llm requires vllm, and parts of it cannot be imported with current versions of transformers. So
it is installed without its dependencies, and modules that SafeOpenai does not use are stubs.

Prints a Markdown table: calls, the maximum number of concurrent calls, and the wall-clock time in
seconds and relative to secondpass's sliding windows (medians over rounds in which all alternate).
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import statistics
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import openai
from checked import check
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.postprocessor import LLMRerank
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from fake_provider import FakeProvider, Pause, Request, by_number, envelope, good, http
from secondpass import Reranker

SECONDS = 0.3
COUNT = 100
TOP = 10
QUERY = "What is a passage?"
# The right order is neither that of the input nor its reverse.
TEXTS = [f"{37 * place % 101} passage about something {'word ' * 40}" for place in range(COUNT)]
BEST = sorted(TEXTS, key=by_number, reverse=True)[:TOP]
STRATEGIES: dict[str, dict[str, Any]] = {
    "listwise (sliding windows)": {"type": "listwise"},
    "blocks": {"type": "blocks"},
    "pointwise": {"type": "pointwise"},
    "graded": {"type": "graded"},
    "graded, 2 shuffles": {"type": "graded", "shuffles": 2},
}

_NUMBERED = re.compile(r"\[(\d+)\]:? *(\d+) passage")
_LISTED = re.compile(r"Document (\d+):\s*(\d+) passage")

Run = Callable[[], Sequence[str]]


def answer(request: Request) -> Iterator[Any]:
    """The right answer in the requested format."""
    text = "\n".join(request.messages)
    if request.documents:
        yield from good(lambda text: by_number(text) / 10, after=SECONDS)(request)
        return
    yield Pause(SECONDS)
    if listed := _LISTED.findall(text):
        lines = [f"Doc: {number}, Relevance: {int(grade) // 10}" for number, grade in listed]
        yield http(200, envelope(request, "\n".join(lines)))
        return
    grades = dict(_NUMBERED.findall(text))
    best_first = sorted(grades, key=lambda number: -int(grades[number]))
    yield http(200, envelope(request, " > ".join(f"[{number}]" for number in best_first)))


class Model(CustomLLM):
    """The server as LlamaIndex's language model."""

    base_url: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=100_000, model_name="fake")

    def complete(self, prompt: str, formatted: bool = False, **_: Any) -> CompletionResponse:  # noqa: ARG002
        with openai.OpenAI(base_url=self.base_url, api_key="k") as client:
            reply = client.chat.completions.create(
                model="fake", messages=[{"role": "user", "content": prompt}]
            )
        return CompletionResponse(text=reply.choices[0].message.content or "")

    def stream_complete(self, prompt: str, formatted: bool = False, **_: Any) -> Any:
        raise NotImplementedError


def ours(base_url: str, strategy: dict[str, Any]) -> Run:
    llm = {"type": "openai", "model": "fake", "base_url": base_url, "api_key": "k"}
    config = {"method": {**strategy, "llm": llm}, "limits": {"concurrency": 12}, "top_k": TOP}
    reranker = Reranker.from_config(config)

    def run() -> Sequence[str]:
        ranking = reranker.rerank(QUERY, TEXTS)
        check(ranking.report)
        return [item.text for item in ranking]

    return run


def llama_index(make: Callable[..., Any], base_url: str) -> Run:
    reranker = make(top_n=TOP, llm=Model(base_url=base_url))
    nodes = [NodeWithScore(node=TextNode(text=text), score=0.5) for text in TEXTS]

    def run() -> Sequence[str]:
        found = reranker.postprocess_nodes(list(nodes), QueryBundle(QUERY))
        return [each.node.get_content() for each in found]

    return run


def rank_llm(folder: Path, base_url: str) -> Run:
    """rank_llm's sliding windows, over OpenAI's API."""
    import llama_index.core

    class Stub(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return object

    unused = ("vllm", "vllm.outputs")
    unused += tuple(
        f"rank_llm.rerank.{name}"
        for name in ("listwise.lit5.model", "listwise.rank_fid", "pointwise.monot5")
    )
    sys.modules.update({name: Stub(name) for name in unused})
    sys.path.append(str(folder))
    # Its tokenizer's file would be downloaded; llama-index-core ships it.
    cache = Path(llama_index.core.__file__).parent / "_static" / "tiktoken_cache"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(cache)
    from rank_llm.data import Candidate, Query
    from rank_llm.data import Request as RankRequest
    from rank_llm.rerank.listwise.rank_gpt import SafeOpenai
    from rank_llm.rerank.rankllm import PromptMode

    logging.disable(logging.CRITICAL)
    model = SafeOpenai(
        "gpt-4",
        context_size=100_000,
        prompt_mode=PromptMode.RANK_GPT,
        keys="k",
        base_url=base_url + "/",
    )

    def run() -> Sequence[str]:
        candidates = [
            Candidate(docid=str(place), score=0.5, doc={"text": text})
            for place, text in enumerate(TEXTS)
        ]
        request = RankRequest(query=Query(text=QUERY, qid="1"), candidates=candidates)
        (result,) = model.rerank_batch([request])
        return [each.doc["text"] for each in result.candidates[:TOP]]

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rank-llm", type=Path, help="folder in which rank_llm is installed")
    parser.add_argument("--rounds", type=int, default=3, help="the table has medians over them")
    parsed = parser.parse_args()
    with FakeProvider(answer) as provider:
        url = provider.base_url("openai")
        runs = {name: ours(url, strategy) for name, strategy in STRATEGIES.items()}
        runs["LlamaIndex, RankGPTRerank"] = llama_index(RankGPTRerank, url)
        runs["LlamaIndex, LLMRerank"] = llama_index(LLMRerank, url)
        if parsed.rank_llm:
            runs["rank_llm, SafeOpenai"] = rank_llm(parsed.rank_llm, url)
        times: dict[str, list[float]] = {name: [] for name in runs}
        calls: dict[str, int] = {}
        most: dict[str, int] = {}
        right: dict[str, int] = {}
        for _ in range(parsed.rounds):
            for name, run in runs.items():
                provider.play(answer)
                before, provider.most_at_once = len(provider.requests), 0
                started = time.perf_counter()
                found = run()
                times[name].append(time.perf_counter() - started)
                calls[name] = len(provider.requests) - before
                most[name] = provider.most_at_once
                right[name] = len(set(found[:TOP]) & set(BEST))
    first = next(iter(times))
    print(f"| {COUNT} candidates | calls | most at a time | seconds | ratio | best {TOP} found |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, each in times.items():
        ratio = statistics.median(a / b for a, b in zip(each, times[first], strict=True))
        print(
            f"| {name} | {calls[name]} | {most[name]} | {statistics.median(each):.2f} | "
            f"{ratio:.2f} | {right[name]} |"
        )


if __name__ == "__main__":
    main()
