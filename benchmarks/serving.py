"""Measures the overhead of ``secondpass serve``: latency of one client, throughput of 64, memory.

    python -m benchmarks.serving
    python -m benchmarks.serving --data FOLDER

The server and the clients are processes of their own; requests are the common shape of Cohere's and
Jina's API with 50 passages of about 80 tokens each. At one client, in-process calls and requests
alternate. At 64, all requests are sent at once and compared with one ``rerank_many``; the share of
the machine that the clients took is subtracted from the time of the server. Every order is compared
with the in-process one, and every request must be answered once. The ratio of CPU times says more
on a machine that does other things as well.
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

from benchmarks.speed import workloads

from secondpass import Ranking, Reranker
from secondpass.scorers import minilm

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
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    def cpu_seconds(self) -> float:
        """Its CPU time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---------------------------------------------------------------------- clients


class Connection:
    """One connection of a client that does no more than HTTP needs."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def post(self, body: bytes) -> bytes:
        head = (
            "POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", answer.lower())[1])
        content = await self._reader.readexactly(length)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{answer!r} {content!r}")
        return content


async def send(port: int, bodies: Sequence[bytes], clients: int) -> tuple[list[bytes], list[float]]:
    """Send all, ``clients`` at a time; the answers in order, and the seconds of each."""
    answers: list[Any] = [None] * len(bodies)
    seconds = [0.0] * len(bodies)
    waiting = iter(range(len(bodies)))

    async def client() -> None:
        async with Connection(port) as connection:
            for number in waiting:
                began = time.perf_counter()
                answers[number] = await connection.post(bodies[number])
                seconds[number] = time.perf_counter() - began

    await asyncio.gather(*(client() for _ in range(clients)))
    return answers, seconds


def serve_commands() -> None:
    """The client process: reads ports and numbers of bodies, sends these, writes what happened."""
    bodies: list[bytes] = []
    for line in sys.stdin:
        command = json.loads(line)
        if "bodies" in command:
            bodies = [body.encode() for body in command["bodies"]]
            continue
        before, cpu = time.perf_counter(), _cpu()
        chosen = [bodies[number] for number in command["numbers"]]
        answers, seconds = asyncio.run(send(command["port"], chosen, command["clients"]))
        took, used = time.perf_counter() - before, _cpu() - cpu
        orders = [[row["index"] for row in json.loads(one)["results"]] for one in answers]
        ids = [json.loads(one)["id"] for one in answers]
        found = {"orders": orders, "ids": ids, "seconds": seconds, "took": took, "cpu": used}
        print(json.dumps(found), flush=True)


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

    def send(self, port: int, numbers: Sequence[int], clients: int = 1) -> dict[str, Any]:
        """Send requests by their numbers, and return what happened."""
        self._write({"port": port, "numbers": list(numbers), "clients": clients})
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
        clients.send(server.port, range(min(4, len(requests))))  # loads the model
        here, there = [], []
        for number in [number % len(requests) for number in range(SINGLE[preset])]:
            query, documents = requests[number]
            began = time.perf_counter()
            reranker.rerank(query, documents)
            here.append(time.perf_counter() - began)
            found = clients.send(server.port, [number])
            check(found, expected, [number])
            there += found["seconds"]
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
            "here": statistics.median(here),
            "there": statistics.median(there),
            "fastest_here": min(here),
            "fastest_there": min(there),
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
    """Each request has one answer, and its order is that of the process.

    Scores may differ by three hundredths of their standard deviation between batches
    (docs/architecture.md), so candidates whose scores are as close as that may change places.
    """
    if len(set(found["ids"])) != len(numbers):
        raise SystemExit("a request was lost or answered twice")
    for order, number in zip(found["orders"], numbers, strict=True):
        ranking = expected[number]
        scores = {item.position: item.final_score or 0.0 for item in ranking}
        if sorted(order) != sorted(scores):
            raise SystemExit("an answer lacks candidates")
        tolerance = 0.06 * statistics.pstdev(scores.values())
        lowest = float("inf")
        for position in order:
            if scores[position] > lowest + tolerance:
                raise SystemExit("an order differs from that of the process")
            lowest = min(lowest, scores[position])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help="a collection with queries.jsonl")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--preset", action="append", choices=[*SINGLE])
    options = parser.parse_args()
    if options.client:
        serve_commands()
        return
    requests = make_requests(options.data)
    print(
        "| preset | in-process | served | ratio | added | fastest | 64 clients / rerank_many "
        "| in CPU time | memory |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for preset in options.preset or SINGLE:
        rounds = [measure(preset, requests) for _ in range(options.rounds)]
        middle = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        print(
            f"| `{preset}` | {middle['here'] * 1000:.1f} ms | {middle['there'] * 1000:.1f} ms "
            f"| {statistics.median(one['there'] / one['here'] for one in rounds):.3f} "
            f"| {(middle['there'] - middle['here']) * 1000:.1f} ms "
            f"| {middle['fastest_here'] * 1000:.1f} → {middle['fastest_there'] * 1000:.1f} ms "
            f"| {statistics.median(one['batch'] / one['corrected'] for one in rounds):.2f} "
            f"(with the clients {statistics.median(o['batch'] / o['served'] for o in rounds):.2f}) "
            f"| {statistics.median(o['batch_cpu'] / o['server_cpu'] for o in rounds):.2f} "
            f"| {middle['memory_before']:.0f} → {middle['memory']:.0f} MB |",
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
