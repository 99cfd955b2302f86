"""Compares strategies of language models with a simulated judge: quality, calls, rounds, tokens.

    python benchmarks/strategies.py --data FOLDER

The judge knows the relevance judgements of the collection. In every question it perceives the value
of a document as its grade, 0 to 3, plus normal noise drawn for each question, plus a bias for
documents early in the prompt. It orders, grades or says yes by these values. The table
shows what strategies achieve with the same judge, not how well a model judges. Seeds are fixed, so
a run can be repeated.

Prints a Markdown table: mean nDCG@10 over queries and seeds; and calls, rounds and estimated
thousands of input tokens per query.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from checked import check
from quality import MEASURE, FirstStage, add_data, first_stages, present

from secondpass import Candidate, Reranker
from secondpass.questions import Completion, Prompt, estimate_tokens
from secondpass_evaluation import evaluate, ranking_to_run

DEPTH = 100
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "listwise, one question": {"type": "listwise", "window": None},
    "listwise": {"type": "listwise"},
    "blocks": {"type": "blocks"},
    "blocks, 3 copies": {"type": "blocks", "copies": 3},
    "blocks without the last question": {"type": "blocks", "final": 0},
    "graded": {"type": "graded"},
    "pointwise": {"type": "pointwise"},
    "listwise, 3 shuffles": {"type": "listwise", "shuffles": 3},
    "blocks, 2 shuffles": {"type": "blocks", "shuffles": 2},
    "blocks, 3 shuffles": {"type": "blocks", "shuffles": 3},
    "graded, 2 shuffles": {"type": "graded", "shuffles": 2},
    "graded, 3 shuffles": {"type": "graded", "shuffles": 3},
}
JUDGES = {"exact": (0.0, 0.0), "noisy": (0.7, 0.0), "noisy, prefers the first": (0.7, 0.7)}
"""Standard deviation of the noise, and bias of the first position in a prompt."""

_DOCUMENT = re.compile(r'<doc id="([^"]*)"[^>]*>\s*(\d+)')


class Judge:
    """A language model that knows the grades; a text is the number of its document.

    Args:
        grades: of the documents.
        sizes: of their passages, in tokens.
        noise: standard deviation.
        bias: of the first position in a prompt.
        seed: of the noise.

    Attributes:
        tokens: of all prompts, if they contained the passages.
    """

    name = "simulated judge"
    own_code = True
    has_logprobs = True

    def __init__(
        self,
        grades: Sequence[int],
        sizes: Sequence[float],
        noise: float,
        bias: float,
        seed: str,
    ) -> None:
        self.grades = grades
        self.sizes = sizes
        self.noise = noise
        self.bias = bias
        self.seed = seed
        self.tokens = 0.0

    async def complete(self, request: Prompt) -> Completion:
        text = request.turns[0].text
        shown = _DOCUMENT.findall(text)
        self.tokens += estimate_tokens(request.system + text)
        self.tokens += sum(self.sizes[int(number)] for _, number in shown)
        # Seeded by the documents, so that the order of concurrent calls has no effect.
        draw = random.Random(f"{self.seed} {[number for _, number in shown]}")
        seen = {
            label: self.grades[int(number)]
            + draw.gauss(0, self.noise)
            + self.bias * (1 - place / len(shown))
            for place, (label, number) in enumerate(shown)
        }
        if request.needs_logprobs:
            (value,) = seen.values()
            return _single_token({"Yes": _logistic(value - 1.5), "No": _logistic(1.5 - value)})
        if "ranking" in json.dumps(request.schema):
            return Completion(json.dumps({"ranking": sorted(seen, key=lambda label: -seen[label])}))
        graded = {label: min(10.0, max(0.0, 2 + value * 2)) for label, value in seen.items()}
        return Completion(json.dumps(graded))


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def _single_token(probabilities: Mapping[str, float]) -> Completion:
    """A reply of the most probable token, with the probabilities of all."""
    likely = sorted(probabilities, key=lambda token: -probabilities[token])
    logprobs = {token: math.log(probabilities[token]) for token in likely}
    return Completion(likely[0], logprobs=[logprobs])


def measure(
    stage: FirstStage,
    strategy: Mapping[str, Any],
    judge: str,
    seeds: int,
) -> list[float]:
    """Mean nDCG@10, calls, rounds and input tokens."""
    noise, bias = JUDGES[judge]
    values, calls, rounds, tokens = [], [], [], []
    for seed in range(seeds):
        rankings = {}
        for query, candidates in stage.candidates.items():
            head = candidates[:DEPTH]
            grades = [stage.qrels[query].get(str(each.id), 0) for each in head]
            sizes = [estimate_tokens(each.text) for each in head]
            model = Judge(grades, sizes, noise, bias, f"{seed} {query}")
            numbered = [Candidate(str(at), each.id) for at, each in enumerate(head)]
            settings = {"depth": DEPTH, "log_level": "debug"}
            reranker = Reranker({**strategy, "llm": model}, **settings)
            ranking = reranker.rerank(stage.queries[query], numbered)
            check(ranking.report)
            rankings[query] = ranking
            calls.append(ranking.report.usage.calls)
            rounds.append(ranking.report.usage.rounds)
            tokens.append(model.tokens)
        run = ranking_to_run(rankings)
        values.append(evaluate(run, stage.qrels, [MEASURE]).mean[MEASURE])
    return [statistics.mean(each) for each in (values, calls, rounds, tokens)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_data(parser)
    parser.add_argument("--seeds", type=int, default=3, help="number of runs")
    parsed = parser.parse_args()
    [folder] = present(parsed.data, ["trec-dl19"])
    stage = next(first_stages(folder, stemmed=False))
    columns = [*JUDGES, "calls", "rounds", "tokens"]
    print(f"| strategy | {' | '.join(columns)} |")
    print("| --- |" + " ---: |" * len(columns))
    for name, strategy in STRATEGIES.items():
        found = [measure(stage, strategy, judge, parsed.seeds) for judge in JUDGES]
        cells = [f"{each[0]:.3f}" for each in found]
        cells += [f"{statistics.mean(each[at] for each in found):.1f}" for at in (1, 2)]
        cells.append(f"{statistics.mean(each[3] for each in found) / 1000:.1f}k")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
