"""Measures of rankings, computed by ir_measures.

MacAvaney, Macdonald and Ounis, "Streamlining evaluation with ir-measures", ECIR 2022. Measures have
the names that ir_measures gives them (``nDCG@10``, ``RR``, ``AP(rel=2)``).
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from secondpass import InputError
from secondpass.attributes import unchangeable
from secondpass.ranking.candidates import comparable_id
from secondpass.settings import counted, describe, suggestion
from secondpass.settings.arguments import explained
from secondpass.settings.messages import most_similar
from secondpass_evaluation.errors import MeasureError, check_mapping
from secondpass_evaluation.reading import Run, by_judged_id, judged_id, whole_relevance

DEFAULT_MEASURES = ("nDCG@10", "RR", "R@100")
"""Gain near the top, rank of the first relevant document, and recall of the first stage."""

_PLAIN = re.compile(r"(\w+)(?:@([0-9]+))?")
_MAX_CUTOFF = 2**31 - 1
_NO_DOCUMENT = "none"
"""An id that no document has: their ids here are numbers."""


class Identified(Protocol):
    """A ranked item or a candidate: anything with an id."""

    @property
    def id(self) -> str | int | None: ...


@unchangeable
@dataclass(frozen=True, slots=True)
class Evaluation:
    """The measures of a run, under the names they were requested by.

    Attributes:
        per_query: measure -> query id -> value, for every query of the qrels, in their order.
        mean: measure -> mean over the queries of the qrels.
    """

    per_query: dict[str, dict[str, float]]
    mean: dict[str, float]

    def __repr__(self) -> str:
        queries = max(map(len, self.per_query.values()), default=0)
        means = ", ".join(f"{measure} {mean:.4f}" for measure, mean in self.mean.items())
        return f"<Evaluation of {counted(queries, 'query', 'queries')}: {means}>"


@explained()
def evaluate(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = DEFAULT_MEASURES,
) -> Evaluation:
    """Measure a run against judgements.

    Args:
        run: query id -> document id -> score. Documents with equal scores rank in the order of the
            mapping, so the values are those of the file that
            :func:`~secondpass_evaluation.writing.write_run` writes.
        qrels: query id -> document id -> relevance, a whole number; below 1 is not relevant. A
            ``path`` is the judgement of a file: it counts once, at the first of its passages
            ``path#number`` without a judgement of their own.
        measures: names as in ir_measures.

    Returns:
        Values for every query of the qrels. A query without results in the run has the measure's
        default (0), as with ``trec_eval -c``. Queries without judgements do not count.

    Raises:
        MeasureError: a measure is unknown, or cannot be computed.
        InputError: there is no query to measure, an id is not a string, a score is not a finite
            number, or a relevance is not a whole number within
            :data:`~secondpass_evaluation.reading.RELEVANCE`.
    """
    import ir_measures

    if isinstance(measures, str):
        raise InputError(f"measures: give a sequence of names, such as [{measures!r}]")
    check_mapping("run", run)
    check_mapping("qrels", qrels)
    if not qrels:
        raise InputError("qrels: must hold at least one query")
    # Ids are replaced by numbers: lone surrogates crash trec_eval, NUL cuts ids short, white space
    # breaks the files of gdeval.pl, and gdeval.pl drops everything up to a hyphen.
    queries = {str(number): query for number, query in enumerate(qrels)}
    judged: dict[str, dict[str, int]] = {}
    ranked: dict[str, dict[str, float]] = {}
    for number, query in queries.items():
        relevance = _relevance(qrels[query], query)
        scores = run.get(query, {})
        check_mapping(f"run[{query!r}]", scores)
        scores = _ranked(scores, relevance, query)
        names = _numbered({**relevance, **scores})
        judged[number] = {names[document]: grade for document, grade in relevance.items()}
        if judged[number] and max(judged[number].values()) < 0:
            # Without a grade of 0 or more, trec_eval writes outside its array of counters.
            judged[number][_NO_DOCUMENT] = 0
        # Some providers divide by the number of results, so queries without results are left out.
        if scores:
            ranked[number] = {names[document]: score for document, score in scores.items()}
    per_query: dict[str, dict[str, float]] = {}
    for name in measures:
        measure = _parse(name)
        values = dict.fromkeys(qrels, float(measure.DEFAULT))
        try:
            for metric in ir_measures.iter_calc([measure], _safe(judged, measure), ranked):
                values[queries[metric.query_id]] = float(metric.value)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise MeasureError(name, f"cannot be computed: {error}") from error
        except (OSError, subprocess.SubprocessError) as error:  # providers that run a program
            raise MeasureError(name, f"its program failed: {error}") from error
        per_query[name] = values
    mean = {name: math.fsum(each.values()) / len(each) for name, each in per_query.items()}
    return Evaluation(per_query, mean)


def relevance_of(item: Identified, judged: Mapping[str, int]) -> int:
    """The relevance of a document, or of its file if that is judged; 0 if neither is."""
    return judged.get(judged_id(str(item.id), judged), 0)


def ranking_to_run(rankings: Mapping[str, Sequence[Identified]]) -> Run:
    """A run in the order of rankings, or of a retriever's lists.

    Args:
        rankings: query id -> Ranking, or list of candidates, best first.

    Returns:
        Scores ``n - i`` for the item at index i of n, as items after the head have no final score
        or one on another scale. A repeated id has its first rank.

    Raises:
        InputError: it is no mapping, or an item has no id.
    """
    check_mapping("rankings", rankings)
    run: Run = {}
    for query, ranking in rankings.items():
        scores = run[query] = {}
        for index, item in enumerate(ranking):
            if item.id is None:
                raise InputError(f"rankings[{query!r}][{index}].id: a run needs ids")
            scores.setdefault(str(item.id), float(len(ranking) - index))
    return run


def _relevance(judged: Mapping[str, int], query: str) -> dict[str, int]:
    check_mapping(f"qrels[{query!r}]", judged)
    checked = {}
    for document, relevance in judged.items():
        try:
            checked[comparable_id(document)] = whole_relevance(relevance)
        except ValueError as error:
            message = f"qrels[{query!r}][{document!r}]: the relevance {error}"
            raise InputError(message) from None
    return checked


def _numbered(documents: Mapping[str, object]) -> dict[str, str]:
    """A number for each document id, as strings that sort like the ids.

    trec_eval breaks ties by the bytes of ids, which sort like their code points.
    """
    width = len(str(len(documents)))
    return {document: f"{index:0{width}}" for index, document in enumerate(sorted(documents))}


def _safe(judged: dict[str, dict[str, int]], measure: Any) -> dict[str, dict[str, int]]:
    """The judgements that the measure can be computed on; other queries get its default.

    trec_eval's Bpref reads a counter for every grade below ``rel``, even if there are fewer.
    """
    if measure.NAME != "Bpref":
        return judged
    level = measure["rel"]
    return {
        query: grades
        for query, grades in judged.items()
        if max(grades.values(), default=0) >= level
    }


def _ranked(scores: Mapping[str, float], judged: Mapping[str, int], query: str) -> dict[str, float]:
    for document in (*judged, *scores):
        if not isinstance(document, str):
            message = f"the id of a document must be a string, not {describe(document)}"
            raise InputError(f"query {query!r}: {message}")
    # Without ties, as the providers of ir_measures break them differently.
    try:
        return by_judged_id(scores, judged)
    except InputError as error:
        raise InputError(f"run[{query!r}]: {error}") from None


def _similar(name: str, cutoff: str | None, known: Mapping[str, Any]) -> str:
    """A hint; ``nDCG10`` and ``ndcg 10`` lack the sign before the cutoff."""
    measure, at = name, cutoff
    if cutoff is None:
        measure, at = re.fullmatch(r"(.*?)[ _-]?(\d*)", name).groups()  # type: ignore[union-attr]
    if similar := most_similar(measure, [*known]):
        return f"; did you mean '{known[similar].NAME}{f'@{at}' if at else ''}'?"
    return suggestion(name, list(known))


def _parse(name: str) -> Any:
    import ir_measures
    from ir_measures.measures import registry

    if not isinstance(name, str):
        raise MeasureError(str(name), "the name must be a string")
    plain = _PLAIN.fullmatch(name.strip())
    if plain and plain[1] not in registry:
        raise MeasureError(name, "is unknown" + _similar(plain[1], plain[2], registry))
    try:
        if plain:
            # parse_measure needs ast.Num, which Python 3.14 removed.
            measure = registry[plain[1]]
            if plain[2]:
                measure = measure @ int(plain[2])
        else:
            measure = ir_measures.parse_measure(name.strip())
        measure.validate_params()
    except (AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError) as error:
        raise MeasureError(name, f"cannot be parsed: {_message(error)}") from None
    cutoff = measure.params.get("cutoff", 1)
    if isinstance(cutoff, bool) or not 1 <= cutoff <= _MAX_CUTOFF:
        # trec_eval would exit the process.
        raise MeasureError(name, f"the cutoff must be 1 to {_MAX_CUTOFF}, not {cutoff}")
    for gain in dict(measure.params.get("gains") or {}).values():
        try:
            whole_relevance(gain)
        except ValueError as error:
            raise MeasureError(name, f"a gain {error}") from None
    return measure


def _message(error: Exception) -> str:
    message = str(error)
    if "<object object" in message:  # the message of ir_measures for a missing parameter
        return f"{message.removeprefix('invalid param ').partition('=')[0]!r} is required"
    return message or type(error).__name__
