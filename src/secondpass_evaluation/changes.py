"""The queries that a reranker improves or worsens, and the moves of relevant documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from secondpass.formats.runs import Run, by_judged_id, judged_id
from secondpass.types import Candidate
from secondpass_evaluation.measures import Evaluation
from secondpass_evaluation.results import TEXT_LENGTH, Change, Result, Shown
from secondpass_evaluation.significance import TIE
from secondpass_evaluation.suites import Suite

_QUERIES = 5
_DOCUMENTS = 5


def largest_changes(
    suite: Suite,
    candidates: Mapping[str, Sequence[Candidate]],
    before: Result,
    run: Run,
    after: Evaluation,
    *,
    measure: str,
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """The five queries that gain most and the five that lose most, largest change first."""
    new = after.per_query[measure]
    old = before.evaluation.per_query[measure] if before.evaluation else new
    deltas = {query: new[query] - old[query] for query in suite.queries}

    def change(query: str) -> Change:
        texts = {str(item.id): item.text for item in reversed(candidates[query])}
        lists = list(before.run.get(query, {})), list(run.get(query, {}))
        relevance = suite.qrels[query]
        return Change(
            query,
            suite.queries[query],
            old[query],
            new[query],
            _top(lists[1], lists[0], texts, relevance),
            _top(lists[0], lists[1], texts, relevance),
        )

    gained = sorted((query for query in deltas if deltas[query] > TIE), key=lambda q: -deltas[q])
    lost = sorted((query for query in deltas if deltas[query] < -TIE), key=deltas.__getitem__)
    return tuple(map(change, gained[:_QUERIES])), tuple(map(change, lost[:_QUERIES]))


def _top(
    documents: Sequence[str],
    other: Sequence[str],
    texts: Mapping[str, object],
    relevance: Mapping[str, int],
) -> tuple[Shown, ...]:
    ranks = {document: rank for rank, document in enumerate(other, 1)}
    return tuple(
        Shown(
            rank,
            document,
            _beginning(texts.get(document)),
            relevance.get(judged_id(document, relevance)),
            ranks.get(document),
        )
        for rank, document in enumerate(documents[:_DOCUMENTS], 1)
    )


def _beginning(text: object) -> str:
    return " ".join(text.split())[:TEXT_LENGTH] if isinstance(text, str) else ""


def rank_moves(suite: Suite, before: Run, after: Run) -> tuple[tuple[int | None, int | None], ...]:
    """Rank of each relevant document in both runs; documents that are in neither are left out."""
    moves = []
    for query, judged in suite.qrels.items():
        old = {
            document: rank
            for rank, document in enumerate(by_judged_id(before.get(query, {}), judged), 1)
        }
        new = {
            document: rank
            for rank, document in enumerate(by_judged_id(after.get(query, {}), judged), 1)
        }
        for document, relevance in judged.items():
            if relevance > 0 and (document in old or document in new):
                moves.append((old.get(document), new.get(document)))
    return tuple(moves)
