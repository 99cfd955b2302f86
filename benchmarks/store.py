"""Measures a ranking of passages that a passage store has, beside one that encodes them.

    python benchmarks/store.py [--stored 100000] [--rounds 20]

Passages of 74 tokens, cut from Python's language reference. The file has a thousand of them among
others whose records are made up, so that it is as large as that of a real collection. All runs use
one thread. Times are CPU times, the median of the rounds, unless they say that they are wall times;
each round has a new query. Cold: a new process, after the file has left the page cache.
"""

from __future__ import annotations

import argparse
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from secondpass import Reranker
from secondpass.scorers.embedding.encoder import DIMENSIONS, MAX_TOKENS
from secondpass.scorers.embedding.minilm import load_tokenizer
from secondpass.scorers.embedding.passage_store import LAYOUT
from secondpass.storage.store import Store

KNOWN = 1_000
TOKENS = 74
SENTENCES = 3
AT_ONCE = 2_000
QUERY = "how are names of a module bound and resolved"


def passages(count: int, tokens: int) -> list[str]:
    """Distinct passages with that number of tokens, special ones included, or one less."""
    from pydoc_data.topics import topics

    tokenizer = load_tokenizer(MAX_TOKENS)
    words = [word for name in sorted(topics) for word in topics[name].split() if word.isalpha()]
    sizes = {word: len(tokenizer.encode(word).ids) - 2 for word in set(words)}
    words = [word for word in words if sizes[word] <= 2]
    found: list[str] = []
    place = 0
    while len(found) < count:
        taken: list[str] = []
        left = tokens - 2
        while left >= sizes[words[place % len(words)]]:
            taken.append(words[place % len(words)])
            left -= sizes[taken[-1]]
            place += 1
        found.append(" ".join(taken))
    return found


def made_up() -> Iterator[tuple[bytes, bytes]]:
    """Keys and records of passages that nobody asks for."""
    while True:
        ids = TOKENS - 20
        header = struct.pack("<HHHHf", 0, TOKENS, ids, SENTENCES, 0.01)
        size = DIMENSIONS + 2 * TOKENS + DIMENSIONS // 4 * TOKENS + 4 * ids + 10 * SENTENCES
        yield os.urandom(32), header + os.urandom(size)


def resident() -> float:
    """Resident memory of this process in MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6


def milliseconds(
    call: Callable[[int], object], rounds: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Median milliseconds of a call with the number of its round."""
    taken = []
    for number in range(rounds):
        began = clock()
        call(number)
        taken.append(1e3 * (clock() - began))
    return statistics.median(taken)


def query(number: int) -> str:
    """A new query for each round."""
    return f"{QUERY} {number}"


def reranker(path: Path | None, size: int = 4096) -> Reranker:
    method: dict[str, object] = {"type": "embedded", "threads": 1}
    if path is not None:
        method["store"] = {"path": str(path), "max_mb": size}
    return Reranker.from_config({"method": method, "depth": None})


def fill(path: Path, count: int, texts: Sequence[str], size: int) -> None:
    """A file of that many records, with those of the texts among them."""
    store = Store(path, LAYOUT, size * 1_000_000)
    records = made_up()
    for start in range(0, count // 2, AT_ONCE):
        store.put_many(dict(islice(records, min(AT_ONCE, count // 2 - start))))
    with_store = reranker(path, size)
    began = time.process_time()
    with_store.store(texts)
    filling = time.process_time() - began
    with_store.close()
    without = reranker(None)
    without.warm_up()
    began = time.process_time()
    for begin in range(0, len(texts), 64):
        without.rerank(QUERY, texts[begin : begin + 64])
    encoding = time.process_time() - began
    without.close()
    print(f"filling {len(texts):,}: {filling / encoding:.2f} times the CPU of encoding")
    rest = count - count // 2 - len(texts)
    for start in range(0, rest, AT_ONCE):
        store.put_many(dict(islice(records, min(AT_ONCE, rest - start))))
    store.close()


def forget_pages(path: Path) -> None:
    """Ask the system to drop a file from its page cache (Linux)."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


COLD = """
import sys, time
sys.path.insert(0, {folder!r})
import store
texts = store.passages({known}, store.TOKENS)[:100]
ranker = store.reranker(store.Path({path!r}), {size})
ranker.warm_up()
ranker.rerank("a query", ["a passage"])
began = time.perf_counter()
ranking = ranker.rerank(store.QUERY, texts)
assert ranking.report.usage.known == 100
print(1e3 * (time.perf_counter() - began))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--stored", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    count, rounds = options.stored, options.rounds
    size = max(64, count // 50)
    texts = passages(KNOWN, TOKENS)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "passages.store"
        fill(path, count, texts, size)
        print(f"{count:,} passages: {path.stat().st_size / count / 1e3:.2f} KB each")
        stored, encoding = reranker(path, size), reranker(None)
        engine = encoding.rerank(QUERY, texts[:100]).report.engines[0]
        print(f"runtime: {engine.backend}, {engine.precision}")

        def rank(ranker: Reranker, number: int, length: int) -> None:
            report = ranker.rerank(query(number), texts[:length]).report
            assert report.status == "ok", report
            assert report.usage.known == (length if ranker is stored else 0)

        rank(stored, -1, 100)
        alone = milliseconds(lambda number: rank(stored, number, 1), rounds)
        hundred = milliseconds(lambda number: rank(stored, 1000 + number, 100), rounds)
        thousand = milliseconds(
            lambda number: rank(stored, 2000 + number, KNOWN), max(3, rounds // 4)
        )
        encoded = milliseconds(lambda number: rank(encoding, number, 100), 3)
        print(f"1 known passage, so about the query alone: {alone:.1f} ms")
        print(f"100 known: {hundred:.1f} ms, the query and {hundred - alone:.1f} ms")
        print(f"1,000 known: {thousand:.1f} ms, the query and {thousand - alone:.1f} ms")
        print(f"100 encoded: {encoded:,.0f} ms, {encoded / hundred:.0f} times as much")
        before = resident()
        for number in range(rounds * 10):
            rank(stored, 3000 + number, 100)
        print(f"memory after {rounds * 10:,} more rankings: {resident() - before:+.1f} MB")
        stored.close()
        cold = []
        for _ in range(3):
            forget_pages(path)
            code = COLD.format(
                folder=str(Path(__file__).parent), path=str(path), size=size, known=KNOWN
            )
            run = subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, text=True
            )
            cold.append(float(run.stdout))
        print(f"100 known, cold: {statistics.median(cold):.0f} ms of wall time")


if __name__ == "__main__":
    main()
