"""Corrects the figures of a comparison on a model's judgements by those of a person.

Corrected figures stand beside those by the model, never in their place. A corrected interval that
would be wider than that of the person's judgements alone is replaced by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from secondpass.errors import InputError
from secondpass_evaluation.judging.inference import (
    Corrected,
    CorrectedResult,
    corrected_difference,
    corrected_mean,
    fewest_people,
)
from secondpass_evaluation.measures import evaluate
from secondpass_evaluation.results import ComparisonData


def corrected_results(comparison: ComparisonData) -> tuple[CorrectedResult, ...]:
    """Corrected means of every measured system, and differences from its base, for every measure.

    Empty if people made the judgements, or a person has judged too few queries. A measure with the
    same value on all of the person's queries is left out.
    """
    judged = comparison.judged_by
    people = {} if judged is None else judged.people
    people = {query: grades for query, grades in people.items() if query in comparison.queries}
    if len(people) < fewest_people():
        return ()
    by_model: dict[str, Mapping[str, Mapping[str, float]]] = {}
    by_people: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for result in comparison.ran:
        if result.evaluation is not None:
            run = {query: result.run.get(query, {}) for query in people}
            by_model[result.name] = result.evaluation.per_query
            by_people[result.name] = evaluate(run, people, comparison.measures).per_query
    corrected = []
    for result in comparison.ran:
        base = comparison.base_of(result)
        base = base if base in by_model and base != result.name else None
        for measure in comparison.measures:
            model, person = by_model[result.name][measure], by_people[result.name][measure]
            difference: Corrected | None = None
            with suppress(InputError):  # the values are equal, so there is no variance
                mean = corrected_mean(measure, model, person)
                if base is not None:
                    pairs = (model, by_model[base][measure]), (person, by_people[base][measure])
                    with suppress(InputError):
                        difference = corrected_difference(measure, *pairs)
                corrected.append(CorrectedResult(result.name, mean, base, difference))
    return tuple(corrected)
