"""Queries with the same text count once: in means, differences, tests, folds and thresholds.

They are ranked alike, so that the second is no evidence beyond the first. Texts are the same if
they differ only in case and white space.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from secondpass.ranking.candidates import query_key
from secondpass_evaluation.measures import Evaluation, evaluate
from secondpass_evaluation.reading import Qrels
from secondpass_evaluation.suites import Suite

T = TypeVar("T")


def grouped(values: Mapping[str, T], queries: Mapping[str, str]) -> dict[str, list[T]]:
    """The values of queries with the same text together, under the id of the first of them."""
    first: dict[str, str] = {}
    groups: dict[str, list[T]] = {}
    for query, value in values.items():
        name = first.setdefault(query_key(queries[query]), query)
        groups.setdefault(name, []).append(value)
    return groups


def merged_qrels(qrels: Qrels, queries: Mapping[str, str]) -> Qrels:
    """Query id -> the judgements of all queries with its text; of several, the highest."""
    merged: dict[str, dict[str, int]] = {}
    for members in grouped({query: query for query in qrels}, queries).values():
        together: dict[str, int] = {}
        for query in members:
            for document, relevance in qrels[query].items():
                together[document] = max(relevance, together.get(document, relevance))
            merged[query] = together
    return merged


def averaged(values: Mapping[str, float], queries: Mapping[str, str]) -> dict[str, float]:
    """Id of the first query of each text -> mean of the values of its queries."""
    return {name: math.fsum(each) / len(each) for name, each in grouped(values, queries).items()}


def distinct_count(queries: Mapping[str, str]) -> int:
    """Number of different texts."""
    return len(grouped(queries, queries))


def repetition_notes(queries: Mapping[str, str]) -> list[str]:
    """A note with the number of queries that repeat another; empty if none does."""
    count = len(queries) - distinct_count(queries)
    if not count:
        return []
    what = "1 query has" if count == 1 else f"{count:,} queries have"
    return [
        f"{what} the same text as another of the {len(queries):,}, except for case and white "
        "space; each text counts once"
    ]


def measured(
    run: Mapping[str, Mapping[str, float]], suite: Suite, measures: Sequence[str]
) -> Evaluation:
    """As :func:`~secondpass_evaluation.measures.evaluate`; means are over the different texts."""
    evaluation = evaluate(run, suite.qrels, measures)
    mean = {}
    for name, values in evaluation.per_query.items():
        each = averaged(values, suite.queries)
        mean[name] = math.fsum(each.values()) / len(each)
    return Evaluation(evaluation.per_query, mean)
