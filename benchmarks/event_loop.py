"""Measures how long an event loop stalls while it reranks nodes, compared with an idle loop.

A ticker sleeps for a millisecond and measures how late it wakes up. Two kinds of run alternate: one
awaits the reranking of 100 nodes; the other is idle while plain threads make the same calls of the
scorer or blocking model. Where stated, a further thread computes during both. The longest stalls
are compared.

    python benchmarks/event_loop.py
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import NodeWithScore, TextNode

from llama_index.postprocessor.secondpass import SecondPassRerank
from secondpass import Reranker

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from benchmarks.checked import check
from benchmarks.speed.concurrency import longest_stall
from misbehaving_replies import (
    GRADED,
    LISTWISE,
    MARKER,
    QUERY,
    Asked,
    Chatting,
    Completing,
    Form,
    Said,
)

COUNT = 100
ROUNDS = 15
LATENCY = 0.02  # seconds that an answer takes
TARGET = 2.0

Work = Callable[[], Awaitable[Any]]


def nodes() -> list[NodeWithScore]:
    return [
        NodeWithScore(
            node=TextNode(
                text=f"grade {at % 10}: {MARKER}. " + f"the cat {at} sat on a mat and ran. " * 2,
                id_=str(at),
                metadata={"source": "a/b.md", "page": at},
            ),
            score=1 / (at + 1),
        )
        for at in range(COUNT)
    ]


class Waiting(Chatting):
    """A chat model that takes a while to answer, without blocking the loop."""

    async def achat(self, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(LATENCY)
        return await super().achat(*args, **kwargs)


class Blocking(Completing):
    """A completion model that blocks; it is called in a thread."""

    def complete(self, *args: Any, **kwargs: Any) -> Any:
        time.sleep(LATENCY)
        return super().complete(*args, **kwargs)


@contextmanager
def load(under: bool) -> Iterator[None]:
    """Run a computing thread, if ``under``."""
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute, daemon=True)
    if under:
        thread.start()
    yield
    over.set()
    if under:
        thread.join()


_replies: dict[str, Said] = {}


def script(asked: Asked) -> Said:
    """A cached reply: generating one would take more of the loop's time than reading it."""
    if asked.sent not in _replies:
        said = Said(asked.honest).text(asked.form)
        _replies[asked.sent] = Said(before=said)
    return _replies[asked.sent]


def scored(config: dict[str, Any]) -> tuple[Work, Work]:
    """Reranking with a scorer, and the scorer's call alone in a thread."""
    candidates = nodes()
    texts = [one.node.get_content() for one in candidates]
    reranker = Reranker.from_config({**config, "depth": None})
    postprocessor = SecondPassRerank(reranker)
    check(postprocessor.rerank_nodes(candidates, QUERY)[1])
    scorer: Any = reranker.method
    scorer = getattr(scorer, "scorer", scorer)

    def ours() -> Awaitable[Any]:
        return postprocessor.apostprocess_nodes(candidates, query_str=QUERY)

    def idle() -> Awaitable[Any]:
        return asyncio.to_thread(scorer.score_pairs, QUERY, texts)

    return ours, idle


def with_model(form: Form, make: type[Any], rounds: int, calls: int) -> tuple[Work, Work]:
    """Reranking with a language model, and its calls alone, in threads or as equal waits."""
    candidates = nodes()
    llm = make(script=script, form=form)
    postprocessor = SecondPassRerank({"method": {"type": form.name}}, llm=llm)
    check(postprocessor.rerank_nodes(candidates, QUERY)[1])
    # The model receives messages; turning them into a prompt is its own work.
    sent = [[ChatMessage(role="user", content=prompt)] for prompt in llm.sent]

    def ours() -> Awaitable[Any]:
        return postprocessor.apostprocess_nodes(candidates, query_str=QUERY)

    def wait(number: int) -> Awaitable[Any]:
        if make is Blocking:
            return asyncio.to_thread(llm.chat, sent[number])
        return asyncio.sleep(LATENCY)

    async def idle() -> None:
        for _ in range(rounds):
            await asyncio.gather(*map(wait, range(calls)))

    return ours, idle


def cases(folder: Path) -> Iterator[tuple[str, tuple[Work, Work], str]]:
    """Name, reranking with its comparison, and the load of both."""
    import tiny_models

    model = str(tiny_models.write_classifier(folder / "model"))
    cross_encoder = {"type": "cross_encoder", "model": model, "known_answers": False}
    yield "a tiny cross-encoder", scored({"method": cross_encoder}), "its own"
    embedded = {"type": "embedded", "memory_mb": 0}
    yield "the embedding model", scored({"method": embedded}), "its own"
    for load_name in ("none", "a busy thread"):
        yield "`graded`, asynchronous model", with_model(GRADED, Waiting, 1, 5), load_name
        yield "`graded`, blocking model", with_model(GRADED, Blocking, 1, 5), load_name
        yield "`listwise`, asynchronous model", with_model(LISTWISE, Waiting, 9, 1), load_name


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="the table has medians over them"
    )
    measured_rounds = parser.parse_args().rounds
    logging.disable(logging.CRITICAL)
    print("| longest stall, ms | load | reranking | idle | ratio of medians | worst of each |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, (ours, idle), load_name in cases(Path(folder)):
            worst: dict[Work, list[float]] = {ours: [], idle: []}
            with load(load_name == "a busy thread"), asyncio.Runner() as runner:
                for work in (ours, idle):
                    runner.run(longest_stall(work))
                gc.collect()
                for _ in range(measured_rounds):
                    for work, stalls in worst.items():
                        stalls.append(1000 * runner.run(longest_stall(work)))
            with_us, alone = (statistics.median(worst[work]) for work in (ours, idle))
            print(
                f"| {name} | {load_name} | {with_us:.1f} | {alone:.1f} | {with_us / alone:.2f} "
                f"| {max(worst[ours]):.1f} and {max(worst[idle]):.1f} |",
                flush=True,
            )
    print(f"\nTarget: a ratio of at most {TARGET:g} under load.")


if __name__ == "__main__":
    main()
