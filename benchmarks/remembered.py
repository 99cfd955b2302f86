"""Measures what remembered passages of `embedded` take and save, and what the rule for lists adds.

    python benchmarks/remembered.py

Passages of 100 tokens, cut from Python's language reference. The memory is what the process grows
by while a second thousand of them is encoded, after a first one, so that neither the model nor the
allocator's reserves count. Times are CPU times of a list of 100 passages, the best of several: new
passages, the same again, and again with ``feedback: 0`` and ``idf: false``, in turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from secondpass.scorers.embedded import EmbeddedScorer
from secondpass.scorers.minilm import MAX_TOKENS, load_tokenizer

COUNT = 1_000
LIST = 100
TOKENS = 100
ROUNDS = 20
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


def resident() -> float:
    """Resident memory of this process in MB (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6


def seconds(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def score(scorer: EmbeddedScorer, texts: Sequence[str]) -> float:
    """CPU seconds for a list."""
    return seconds(lambda: scorer.score_pairs(QUERY, [*texts]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--passages", type=int, default=COUNT, help=f"a multiple of {LIST}, whose memory counts"
    )
    count = parser.parse_args().passages
    texts = passages(2 * count, TOKENS)
    lists = [texts[start : start + LIST] for start in range(0, len(texts), LIST)]
    half = len(lists) // 2
    kept = EmbeddedScorer(remember=2 * count)
    new = [score(kept, each) for each in lists[:half]]
    before = resident()
    new += [score(kept, each) for each in lists[half:]]
    grown = resident() - before
    pairs = EmbeddedScorer(remember=2 * count, feedback=0, idf=False)
    score(pairs, lists[0])
    rounds = [(score(kept, lists[0]), score(pairs, lists[0])) for _ in range(ROUNDS)]
    again, alone = (min(each) for each in zip(*rounds, strict=True))
    print(f"{count:,} remembered passages of {TOKENS} tokens: {grown:.0f} MB")
    print(f"a list of {LIST} new passages: {1e3 * min(new):,.0f} ms of CPU")
    print(f"the same, remembered: {1e3 * again:.1f} ms, {again / min(new):.2%}")
    print(f"of these, feedback and IDF: {1e3 * (again - alone):.2f} ms")


if __name__ == "__main__":
    main()
