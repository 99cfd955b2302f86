"""Measures the overhead of ``secondpass serve``: latency of one client, throughput of 64, memory.

    python -m benchmarks.serving
    python -m benchmarks.serving --collection FOLDER

Server and clients run in processes of their own. Requests have the format of Cohere's and Jina's
APIs, with 50 passages of about 80 tokens each. With one client, in-process calls, requests on new
connections (without the time to connect) and requests on one kept connection alternate: Nagle's
algorithm with delayed acknowledgements slows down only the latter. With 64 clients, each on a kept
connection, all requests are sent concurrently and compared with one
``rerank_many``; the clients' CPU time, divided by the number of cores, is subtracted from the wall
time of the server. Every order is compared with the in-process one, and every request must be
answered once. On a busy machine, compare the ratio of CPU times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import checked
from benchmarks.jobs import cpu_seconds
from benchmarks.speed import workloads
from benchmarks.speed.worker import peak_memory

from secondpass import Ranking, Reranker
from secondpass.scorers.embedding import minilm

PASSAGES = 50
CLIENTS = 64
SINGLE = {"embedded": 9, "lexical": 200}
MANY = {"embedded": 64, "lexical": 2000}
Requests = list[tuple[str, list[str]]]


class Server:
    """A server in another process, until the end of the block."""

    def __init__(self, preset: str) -> None:
        command = [sys.executable, "-m", "secondpass", "serve", "-p", preset, "--port", "0"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if match := re.search(r"http://[\w.]+:(\d+)", line):
                self.port = int(match[1])
                return
        raise SystemExit("the server did not start")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def megabytes(self) -> float:
        """Its peak memory."""
        return peak_memory(self._process.pid)

    def cpu_seconds(self) -> float:
        """Its CPU time so far."""
        return cpu_seconds(self._process.pid)


# ---------------------------------------------------------------------- clients


class Connection:
    """A connection of a minimal HTTP client."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    def close(self) -> None:
        self._writer.close()

    async def post(self, body: bytes) -> bytes:
        head = (
            "POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        response_head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", response_head.lower())[1])
        content = await self._reader.readexactly(length)
        if not response_head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{response_head!r} {content!r}")
        return content


async def send(
    connections: Sequence[Connection], bodies: Sequence[bytes]
) -> tuple[list[bytes], list[float]]:
    """Send all over these connections; return the responses in order, and the seconds of each."""
    responses: list[Any] = [None] * len(bodies)
    seconds = [0.0] * len(bodies)
    waiting = iter(range(len(bodies)))

    async def client(connection: Connection) -> None:
        for number in waiting:
            began = time.perf_counter()
            responses[number] = await connection.post(bodies[number])
            seconds[number] = time.perf_counter() - began

    await asyncio.gather(*map(client, connections))
    return responses, seconds


async def serve_commands() -> None:
    """The client process: reads ports and numbers of bodies, sends these, writes the results."""
    bodies: list[bytes] = []
    kept: dict[int, Connection] = {}
    for line in sys.stdin:  # blocks the loop, which has nothing else to do
        command = json.loads(line)
        if "bodies" in command:
            bodies = [body.encode() for body in command["bodies"]]
            continue
        port = command["port"]
        chosen = [bodies[number] for number in command["numbers"]]
        if command["keep"] and port not in kept:
            kept[port] = await Connection(port).open()
        before, cpu = time.perf_counter(), _cpu()
        if command["keep"]:
            responses, seconds = await send([kept[port]], chosen)
        else:
            connections = [await Connection(port).open() for _ in range(command["clients"])]
            responses, seconds = await send(connections, chosen)
            for connection in connections:
                connection.close()
        took, used = time.perf_counter() - before, _cpu() - cpu
        contents = [json.loads(response) for response in responses]
        results = {
            "orders": [[row["index"] for row in content["results"]] for content in contents],
            "ids": [content["id"] for content in contents],
            "seconds": seconds,
            "took": took,
            "cpu": used,
        }
        print(json.dumps(results), flush=True)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Clients:
    """The client process."""

    def __init__(self, requests: Requests) -> None:
        command = [sys.executable, "-m", "benchmarks.serving", "--client"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        bodies = [
            json.dumps({"query": query, "documents": documents}) for query, documents in requests
        ]
        self._write({"bodies": bodies})

    def send(
        self, port: int, numbers: Sequence[int], clients: int = 1, *, keep: bool = False
    ) -> dict[str, Any]:
        """Send requests by their numbers, and return their results.

        Args:
            port: of the server.
            numbers: of the requests.
            clients: number of connections, which are opened for this call.
            keep: use the one connection that stays open between calls instead.
        """
        command = {"port": port, "numbers": list(numbers), "clients": clients, "keep": keep}
        self._write(command)
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())  # type: ignore[no-any-return]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _write(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()


# ---------------------------------------------------------------------- measurements


def measure(preset: str, requests: Requests) -> dict[str, float]:
    """Latency, throughput and memory of one preset."""
    reranker = Reranker.from_preset(preset)
    clients = Clients(requests)
    with Server(preset) as server:
        expected = reranker.rerank_many(requests)
        for ranking in expected:
            checked.check(ranking.report)
        clients.send(server.port, range(min(4, len(requests))))  # loads the model
        for number in range(3):
            clients.send(server.port, [number % len(requests)], keep=True)  # leaves TCP's start
        seconds: dict[str, list[float]] = {"in_process": [], "new": [], "kept": []}
        for number in [number % len(requests) for number in range(SINGLE[preset])]:
            query, documents = requests[number]
            began = time.perf_counter()
            reranker.rerank(query, documents)
            seconds["in_process"].append(time.perf_counter() - began)
            for name in ("new", "kept"):
                found = clients.send(server.port, [number], keep=name == "kept")
                check(found, expected, [number])
                seconds[name] += found["seconds"]
        numbers = [number % len(requests) for number in range(MANY[preset])]
        began, cpu = time.perf_counter(), _cpu()
        reranker.rerank_many([requests[number] for number in numbers])
        batch, batch_cpu = time.perf_counter() - began, _cpu() - cpu
        memory = server.megabytes()
        cpu = server.cpu_seconds()
        found = clients.send(server.port, numbers, CLIENTS)
        check(found, expected, numbers)
        cores = len(os.sched_getaffinity(0))
        result = {
            **{name: statistics.median(values) for name, values in seconds.items()},
            **{f"fastest_{name}": min(values) for name, values in seconds.items()},
            "batch": batch,
            "batch_cpu": batch_cpu,
            "served": found["took"],
            "corrected": found["took"] - found["cpu"] / cores,
            "server_cpu": server.cpu_seconds() - cpu,
            "memory_before": memory,
            "memory": server.megabytes(),
        }
    clients.close()
    return result


def check(found: dict[str, Any], expected: list[Ranking], numbers: Sequence[int]) -> None:
    """Each request has one response, whose order is the in-process one.

    Scores may differ by three hundredths of their standard deviation between batches
    (docs/architecture.md), so candidates whose scores are as close as that may change places.
    """
    if len(set(found["ids"])) != len(numbers):
        raise SystemExit("a request was lost or answered twice")
    for order, number in zip(found["orders"], numbers, strict=True):
        ranking = expected[number]
        scores = {item.position: item.final_score or 0.0 for item in ranking}
        if sorted(order) != sorted(scores):
            raise SystemExit("a response lacks candidates")
        tolerance = 0.06 * statistics.pstdev(scores.values())
        lowest = float("inf")
        for position in order:
            if scores[position] > lowest + tolerance:
                raise SystemExit("an order differs from the in-process one")
            lowest = min(lowest, scores[position])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--collection", type=Path, help="folder of a collection with queries.jsonl")
    parser.add_argument("--rounds", type=int, default=3, help="the table has medians over them")
    parser.add_argument("--preset", action="append", choices=[*SINGLE], help="default: both")
    options = parser.parse_args()
    if options.client:
        asyncio.run(serve_commands())
        return
    requests = make_requests(options.collection)
    print(
        "| preset, connections of one client | in-process | served | ratio | added | fastest "
        "| 64 clients / rerank_many | in CPU time | memory |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for preset in options.preset or SINGLE:
        rounds = [measure(preset, requests) for _ in range(options.rounds)]
        median = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        throughput = (
            f"| {statistics.median(one['batch'] / one['corrected'] for one in rounds):.2f} "
            f"(with the clients {statistics.median(o['batch'] / o['served'] for o in rounds):.2f}) "
            f"| {statistics.median(o['batch_cpu'] / o['server_cpu'] for o in rounds):.2f} "
            f"| {median['memory_before']:.0f} → {median['memory']:.0f} MB |"
        )
        for name, rest in (("new", throughput), ("kept", "| | | |")):
            print(
                f"| `{preset}`, {name} | {median['in_process'] * 1000:.1f} ms "
                f"| {median[name] * 1000:.1f} ms "
                f"| {statistics.median(one[name] / one['in_process'] for one in rounds):.3f} "
                f"| {(median[name] - median['in_process']) * 1000:.1f} ms "
                f"| {median['fastest_in_process'] * 1000:.1f} → "
                f"{median[f'fastest_{name}'] * 1000:.1f} ms {rest}",
                flush=True,
            )


def make_requests(data: Path | None) -> Requests:
    """Queries with 50 passages of about 80 tokens each, or those of a collection."""
    if data is not None:
        found = workloads.from_collection(data, 40, PASSAGES)
    else:
        tokenizer = minilm.load_tokenizer()
        tokenizer.no_truncation()
        found = workloads.generated(tokenizer, "A", CLIENTS, PASSAGES)
    return [(request.query, request.passages) for request in found]


if __name__ == "__main__":
    main()
