"""How good rankings are, by the measures of ir_measures.

MacAvaney, Macdonald and Ounis, "Streamlining evaluation with ir-measures", ECIR 2022. Names and
code of the measures are theirs (``nDCG@10``, ``RR``, ``AP(rel=2)``); nothing is computed anew here.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from secondpass.errors import InputError, MissingExtraError
from secondpass.formats.errors import MeasureError
from secondpass.formats.runs import Run, strictly_falling, whole_relevance
from secondpass.settings import describe, suggestion

DEFAULT_MEASURES = ("nDCG@10", "RR", "R@100")
"""Gain near the top, place of the first relevant document, and what a first stage found at all."""

_PLAIN = re.compile(r"(\w+)(?:@([0-9]+))?")
_DEEPEST = 2**31 - 1
_NO_DOCUMENT = "none"
"""An id that no document has: those are numbers."""


class Identified(Protocol):
    """A ranked item or a candidate: anything with an id."""

    @property
    def id(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A run's measures.

    Attributes:
        per_query: measure -> query id -> value, for every query of the qrels, in their order.
        mean: measure -> mean over the queries of the qrels.

    Measures have the names that they were asked for by.
    """

    per_query: dict[str, dict[str, float]]
    mean: dict[str, float]


def evaluate(
    run: Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]],
    measures: Sequence[str] = DEFAULT_MEASURES,
) -> Evaluation:
    """Measure a run against judgments.

    Args:
        run: query id -> document id -> score. Documents with equal scores rank in the order of the
            mapping, so the values are those of the file that
            :func:`~secondpass.formats.reading.write_run` makes of it.
        qrels: query id -> document id -> relevance, a whole number; below 1 nothing is gained.
        measures: names, as ir_measures writes them.

    Returns:
        Values for every query of the qrels. One that the run lacks, or finds nothing for, has the
        measure's default (0), as with ``trec_eval -c``. Queries without judgments do not count.

    Raises:
        MeasureError: a measure is unknown, or cannot be computed.
        InputError: there is no query to measure, an id is no string, a score is not a finite
            number, or a relevance is not a whole number within
            :data:`~secondpass.formats.runs.RELEVANCE`.
        MissingExtraError: ir_measures is not installed.
    """
    try:
        import ir_measures
    except ImportError:
        raise MissingExtraError("evaluation", "evaluate") from None

    if isinstance(measures, str):
        raise InputError(f"measures: give a sequence of names, such as [{measures!r}]")
    if not qrels:
        raise InputError("qrels: hold no query, so there is nothing to take a mean of")
    # Queries and documents go by numbers: other ids crash trec_eval's code (lone surrogates), are
    # cut (NUL), break the files of gdeval.pl (white space) or lose all up to a hyphen there.
    queries = {str(number): query for number, query in enumerate(qrels)}
    judged: dict[str, dict[str, int]] = {}
    ranked: dict[str, dict[str, float]] = {}
    for number, query in queries.items():
        relevance, scores = _relevance(qrels[query], query), _ranked(run.get(query, {}), query)
        names = _numbered({**relevance, **scores}, query)
        judged[number] = {names[document]: grade for document, grade in relevance.items()}
        if judged[number] and max(judged[number].values()) < 0:
            # Without a grade of 0 or more trec_eval has no counters, and writes before them.
            judged[number][_NO_DOCUMENT] = 0
        # Some providers divide by the number of results; a query without any gets the default.
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


def ranking_to_run(rankings: Mapping[str, Sequence[Identified]]) -> Run:
    """A run of rankings (or of a retriever's lists), in their order.

    Args:
        rankings: query id -> Ranking, or list of candidates, best first.

    Returns:
        Scores ``n - i`` for the i-th of n. The final scores would not do: they are absent behind
        the head, and the tail's are on another scale. Of an id that repeats only the best place
        counts, as trec_eval takes each document once.

    Raises:
        InputError: an item has no id.
    """
    run: Run = {}
    for query, ranking in rankings.items():
        scores = run[query] = {}
        for index, item in enumerate(ranking):
            if item.id is None:
                raise InputError(f"rankings[{query!r}][{index}].id: a run needs ids")
            scores.setdefault(item.id, float(len(ranking) - index))
    return run


def _relevance(judged: Mapping[str, int], query: str) -> dict[str, int]:
    found = {}
    for document, relevance in judged.items():
        try:
            found[document] = whole_relevance(relevance)
        except ValueError as error:
            told = f"qrels[{query!r}][{document!r}]: the relevance {error}"
            raise InputError(told) from None
    return found


def _numbered(documents: Mapping[str, object], query: str) -> dict[str, str]:
    """A number for each document id; as strings they are in the order of the ids.

    trec_eval breaks ties by comparing ids, byte by byte. Code points have the same order.
    """
    for document in documents:
        if not isinstance(document, str):
            told = f"the id of a document must be a string, not {describe(document)}"
            raise InputError(f"query {query!r}: {told}")
    width = len(str(len(documents)))
    return {document: f"{at:0{width}}" for at, document in enumerate(sorted(documents))}


def _safe(judged: dict[str, dict[str, int]], measure: Any) -> dict[str, dict[str, int]]:
    """The judgements that a measure can be computed of; the other queries have its default.

    trec_eval's Bpref reads a counter for every grade below ``rel``, though there be fewer.
    """
    if measure.NAME != "Bpref":
        return judged
    level = measure["rel"]
    return {
        query: grades
        for query, grades in judged.items()
        if max(grades.values(), default=0) >= level
    }


def _ranked(scores: Mapping[str, float], query: str) -> dict[str, float]:
    # Strictly falling scores leave no ties, which ir_measures' providers break each in its own way.
    try:
        return strictly_falling(scores)
    except InputError as error:
        raise InputError(f"run[{query!r}]: {error}") from None


def _parse(name: str) -> Any:
    import ir_measures
    from ir_measures.measures import registry

    if not isinstance(name, str):
        raise MeasureError(str(name), "give the name as a string")
    plain = _PLAIN.fullmatch(name.strip())
    if plain and plain[1] not in registry:
        raise MeasureError(name, "is unknown" + suggestion(plain[1], list(registry)))
    try:
        if plain:
            # Not by parse_measure: it needs ast.Num, which Python 3.14 no longer has.
            measure = registry[plain[1]]
            if plain[2]:
                measure = measure @ int(plain[2])
        else:
            measure = ir_measures.parse_measure(name.strip())
        measure.validate_params()
    except (AssertionError, AttributeError, LookupError, NameError, TypeError, ValueError) as error:
        raise MeasureError(name, f"cannot be read: {_told(error)}") from None
    cutoff = measure.params.get("cutoff", 1)
    if isinstance(cutoff, bool) or not 1 <= cutoff <= _DEEPEST:
        # trec_eval's code ends the whole process on these.
        raise MeasureError(name, f"the cutoff must be 1 to {_DEEPEST}, not {cutoff}")
    for gain in dict(measure.params.get("gains") or {}).values():
        try:
            whole_relevance(gain)
        except ValueError as error:
            raise MeasureError(name, f"a gain {error}") from None
    return measure


def _told(error: Exception) -> str:
    told = str(error)
    if "<object object" in told:  # how ir_measures prints a parameter that was not given
        return f"{told.removeprefix('invalid param ').partition('=')[0]!r} is required"
    return told or type(error).__name__
