"""Measures startup time and memory of new processes, and what a ranking by `embedded` costs.

Runs each case in several processes, and prints the median and the minimum. The ranking is the
second one of a process on one core, by onnxruntime, which the extra installs. Its time is that of
the processor, its memory the peak of the whole process; with 100 passages, also with eight threads.
Its passages have 80 tokens, or are those that ``secondpass index`` makes of Python's language
reference, at most 1,000 characters each. It takes two to four minutes.

    python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from store import passages as passages_of

RUNS = 7
COUNTS = (20, 50, 100)
THREADS = 8
"""Of the cases that show what a core adds to the memory."""

IMPORT = """
import sys, time
started = time.perf_counter()
import secondpass
seconds = time.perf_counter() - started
heavy = [name for name in ("torch", "onnxruntime", "numpy", "pydantic", "yaml", "asyncio",
         "transformers", "sentence_transformers", "haystack", "llama_index") if name in sys.modules]
"""

FIRST = """
import random, sys
from secondpass import Reranker
random.seed(0)
words = ("the of and a to in is it on for search engine query ranks passage model index "
         "language text word memory system data value result paper method test").split()
passages = [" ".join(random.choices(words, k=30)) for _ in range(100)]
ranking = Reranker.from_preset({preset!r}).rerank("how does a search engine rank text", passages)
assert ranking.report.status == "ok", ranking.report
seconds = ranking.report.seconds
heavy = [name for name in ("torch", "transformers", "sentence_transformers") if name in sys.modules]
"""

WARM = """
import json, os, sys, time
from pathlib import Path
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{threads}])
from secondpass import Reranker
passages = json.loads(Path({file!r}).read_text(encoding="utf-8"))
method = {"backend": "onnx", "memory_mb": 0, "threads": {threads}}
reranker = Reranker.from_preset("embedded", depth=len(passages), method=method)
reranker.rerank("warm up", passages[:2])
started = time.process_time()
ranking = reranker.rerank("how does a search engine rank text", passages)
seconds = time.process_time() - started
assert ranking.report.status == "ok", ranking.report
heavy = [name for name in ("torch", "transformers", "sentence_transformers") if name in sys.modules]
"""

PRINT = """
import json, resource
print(json.dumps([seconds, heavy, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def passages_of_index(folder: Path) -> list[str]:
    """Passages that ``secondpass index`` makes, from all parts of Python's language reference."""
    from pydoc_data.topics import topics

    from secondpass_evaluation.search.documents import read_source

    folder.mkdir()
    for name, text in topics.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    corpus = [passage.text for passage in read_source(folder).corpus]
    return random.Random(0).sample(corpus, max(COUNTS))


def mean_tokens(passages: Sequence[str]) -> float:
    from secondpass.scorers.embedding.minilm import load_tokenizer

    tokenizer = load_tokenizer()
    tokenizer.no_truncation()
    return statistics.fmean(len(tokenizer.encode(passage).ids) for passage in passages)


def measure(name: str, code: str, target: str, *, whole: bool, runs: int) -> None:
    seconds, memory, heavy = [], [], []
    for _ in range(runs):
        started = time.perf_counter()
        result = subprocess.run(
            [sys.executable, "-c", code + PRINT], capture_output=True, text=True, check=False
        )
        process = time.perf_counter() - started
        if result.returncode:
            raise SystemExit(f"{result.stderr}{name}: the process ended with {result.returncode}")
        inside, heavy, peak = json.loads(result.stdout)
        seconds.append(process if whole else inside)
        memory.append(peak)
    print(
        f"| {name} | {statistics.median(seconds):.3f} | {min(seconds):.3f} | "
        f"{max(memory):.0f} | {', '.join(heavy) or 'none'} | {target} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="processes of each case")
    runs = parser.parse_args().runs
    print("| case | median s | minimum s | peak MB | heavy modules | target |")
    print("| --- | ---: | ---: | ---: | --- | --- |")
    measure("import secondpass", IMPORT, "≤ 0.1 s", whole=False, runs=runs)
    for preset, target in (("lexical", ""), ("embedded", "≤ 2.5 s, ≤ 350 MB")):
        name = f"process start to 100 short passages reranked, {preset}"
        measure(name, FIRST.replace("{preset!r}", repr(preset)), target, whole=True, runs=runs)
    with tempfile.TemporaryDirectory() as scratch:
        short = passages_of(max(COUNTS), 80)
        for passages in (short, passages_of_index(Path(scratch) / "reference")):
            tokens = mean_tokens(passages)
            for count in COUNTS:
                file = Path(scratch) / "passages.json"
                file.write_text(json.dumps(passages[:count]), encoding="utf-8")
                code = WARM.replace("{file!r}", repr(str(file)))
                case = f"{count} passages of {tokens:.0f} tokens, embedded"
                measure(
                    f"{case}, one core: CPU time",
                    code.replace("{threads}", "1"), "", whole=False, runs=runs,
                )  # fmt: skip
            measure(
                f"{case}, {THREADS} threads: CPU time",
                code.replace("{threads}", str(THREADS)), "", whole=False, runs=runs,
            )  # fmt: skip


if __name__ == "__main__":
    main()
