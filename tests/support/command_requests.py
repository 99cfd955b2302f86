"""Requests to ``secondpass rerank``."""

import json
import random
from contextlib import contextmanager

LEXICAL = ("rerank", "--preset", "lexical")


def json_lines(values):
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def requests(count, candidates=4, seed=0, words=30):
    """Requests whose queries and candidates share words."""
    rng = random.Random(seed)
    vocabulary = [f"w{number}" for number in range(40)]
    return [
        {
            "query_id": f"q{number}",
            "query": " ".join(rng.choices(vocabulary, k=4)),
            "candidates": [
                {"id": f"d{number}-{index}", "text": " ".join(rng.choices(vocabulary, k=words))}
                for index in range(candidates)
            ],
        }
        for number in range(count)
    ]


@contextmanager
def small_files():
    """Limit the size of files to 4 kB in this context."""
    import resource

    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))
