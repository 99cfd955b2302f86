"""Suites: queries, judgements, and a corpus or candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from secondpass import Candidate, CandidateLike, InputError
from secondpass.formats.errors import check_numbers
from secondpass.markup import block, clean, excerpt, paragraph, table
from secondpass.ranking.candidates import comparable_id, to_candidates
from secondpass.ranking.result import TEXT_LENGTH
from secondpass.settings import counted, describe
from secondpass.settings.arguments import explained
from secondpass_evaluation.errors import check_mapping
from secondpass_evaluation.judging.judged_texts import Hashes, changed_documents, text_hashes
from secondpass_evaluation.judging.labels import JudgedBy
from secondpass_evaluation.reading import Qrels, file_of, whole_relevance
from secondpass_evaluation.texts import below_headings

_ROWS = 20
"""Queries of a suite in a notebook."""


@dataclass(frozen=True)
class Suite:
    """Data to compare rerankers on; created by :func:`make_suite` and :func:`load_suite`.

    Attributes:
        name: for reports.
        queries: query id -> text, of the queries with judgements, in their original order.
        qrels: query id -> document id -> relevance, for the same queries.
        corpus: the passages that first stages search; None if there are only candidates.
        candidates: a first stage's results by query id, best first; None if there are none.
        notes: remarks on the data that affect the figures.
        judged_by: how a language model made the judgements; None: people did.
    """

    name: str
    queries: Mapping[str, str] = field(repr=False)
    qrels: Qrels = field(repr=False)
    corpus: Sequence[Candidate] | None = field(default=None, repr=False)
    candidates: Mapping[str, Sequence[Candidate]] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    judged_by: JudgedBy | None = field(default=None, repr=False)

    def first(self, count: int | None) -> Suite:
        """The suite limited to its first ``count`` queries. None: all.

        Raises:
            InputError: ``count`` is not a whole number of 1 or more.
        """
        if count is None:
            return self
        check_numbers(count=(count, 1))
        if count >= len(self.queries):
            return self
        queries = dict(list(self.queries.items())[:count])
        qrels = {query: self.qrels[query] for query in queries}
        note = f"only the first {count} of {counted(len(self.queries), 'query', 'queries')}"
        return replace(self, queries=queries, qrels=qrels, notes=(*self.notes, note))

    def __repr__(self) -> str:
        parts = [counted(len(self.queries), "query", "queries")]
        if self.corpus is not None:
            parts.append(counted(len(self.corpus), "passage"))
        if self.candidates is not None:
            count = sum(map(len, self.candidates.values()))
            parts.append(counted(count, "candidate"))
        return f"<Suite {self.name!r}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        shown = list(self.queries)[:_ROWS]
        more = len(self.queries) - len(shown)
        rows = []
        for query in shown:
            grades = self.qrels[query].values()
            count = "" if self.candidates is None else len(self.candidates.get(query, ()))
            text = excerpt(self.queries[query], None, TEXT_LENGTH)
            relevant = sum(grade > 0 for grade in grades)
            rows.append((len(grades), relevant, count, clean(query), text))
        parts = [
            paragraph(repr(self), *(f"Note: {note}" for note in self.notes)),
            table(["judged", "relevant", "candidates", "id", "query"], rows, texts=2),
        ]
        if more:
            parts.append(paragraph(f"and {more:,} more"))
        return block("suite", *parts)


@explained()
def make_suite(
    name: str,
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    corpus: Iterable[CandidateLike] | None = None,
    candidates: Mapping[str, Iterable[CandidateLike]] | None = None,
    judged_by: JudgedBy | None = None,
    texts: Hashes | None = None,
) -> Suite:
    """Create a suite from its parts, and check that they belong together.

    Queries without judgements, which cannot be measured, and judgements and candidates of unknown
    queries are left out. The suite's notes say how many, and name some.

    Args:
        name: for reports.
        queries: query id -> text.
        qrels: query id -> document id -> relevance; 1 or more is relevant. A ``path`` judges a
            file, which counts once, at the first of its passages ``path#number``.
        corpus: the passages that first stages search, each with a unique id.
        candidates: a first stage's results by query id, best first, each with an id.
        judged_by: how a language model made the judgements; None: people did.
        texts: query id -> document id -> hash of the text that was judged, as
            :func:`~secondpass_evaluation.judging.judged_texts.text_hashes` computes it. Notes name
            the documents whose texts have changed since.

    Raises:
        InputError: a part has the wrong type, no query with judgements is left, no document is
            judged relevant, or no judged document is in the corpus or the candidates.
    """
    passages = None
    if corpus is not None:
        passages = candidates_with_ids(corpus, f"{name}: corpus", unique=True)
    lists = None
    if candidates is not None:
        check_mapping(f"{name}: candidates", candidates)
        lists = {
            query: candidates_with_ids(items, f"{name}: candidates[{query!r}]")
            for query, items in candidates.items()
        }
    check_mapping(f"{name}: queries", queries)
    if not queries:
        raise InputError(f"{name}: there are no queries")
    if not passages and not any((lists or {}).values()):
        reason = "is empty" if passages is not None or lists is not None else "is missing"
        raise InputError(
            f"{name}: needs a corpus, or the candidates of a first stage; it {reason}"
            " (on the command line: --corpus or --run)"
        )
    measurable, judged, notes = _measurable(name, queries, qrels)
    if lists is not None:
        without = [query for query in measurable if not lists.get(query)]
        if len(without) == len(measurable):
            raise InputError(
                f"{name}: no query has candidates; the ids do not match: the queries are "
                f"{_some(measurable)}, those of the candidates {_some(lists)}"
            )
        if without:
            what = "without candidates, counted with no results"
            notes.append(f"{what}: {len(without)} of the queries ({_some(without)})")
        if unknown := [query for query in lists if query not in queries]:
            what = "candidates of unknown queries, left out"
            notes.append(f"{what}: {len(unknown)} ({_some(unknown)})")
        lists = {query: lists[query] for query in measurable if query in lists}
    known = {item.id for item in passages or ()}
    known.update(item.id for items in (lists or {}).values() for item in items)
    documents = {document for relevance in judged.values() for document in relevance}
    missing = documents - known - {file_of(str(item)) for item in known}
    if len(missing) == len(documents):
        raise InputError(
            f"{name}: no judged document is among the candidates: judged are "
            f"{_some(sorted(documents))}, the candidates are {_some(sorted(map(str, known)))}"
        )
    if passages is not None and missing:
        notes.append(_missing_documents(missing, judged))
    now = text_hashes(judged, passages or ()), text_hashes(judged, candidates=lists or {})
    if changed := changed_documents(texts or {}, *now):
        notes.insert(
            0,
            f"{len(changed)} of {counted(len(documents), 'judged document')} "
            f"{'has' if len(changed) == 1 else 'have'} another text than the one that was judged "
            f"({_some(changed)}); judge {'it' if len(changed) == 1 else 'them'} again, or the file "
            "instead",
        )
    if judged_by is not None:
        notes.insert(0, judged_by.note)
    return Suite(name, measurable, judged, passages, lists, tuple(notes), judged_by)


def _missing_documents(missing: Set[str], judged: Qrels) -> str:
    """A note on judged documents that are not in the corpus, and what follows from it."""
    documents = {document for relevance in judged.values() for document in relevance}
    are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
    note = (
        f"{len(missing)} of {counted(len(documents), 'judged document')} {are} not in the corpus "
        f"({_some(sorted(missing))}): no search can find {them}"
    )
    lost = 0
    for relevance in judged.values():
        relevant = {document for document, grade in relevance.items() if grade >= 1}
        lost += bool(relevant) and relevant <= missing
    if lost:
        scores = "scores" if lost == 1 else "score"
        note += f", so {counted(lost, 'query', 'queries')} {scores} 0 everywhere"
    return note


def with_title(passage: Candidate) -> Candidate:
    """The passage with its title before the text, as in BEIR; a heading is not repeated."""
    title = passage.metadata.get("title")
    if not isinstance(title, str) or not title:
        return passage
    # Removed from the metadata, or a search would read it twice.
    metadata = {key: value for key, value in passage.metadata.items() if key != "title"}
    text = below_headings(passage.text or "", title.split(" > "))
    return replace(passage, text=f"{title}\n{text}", metadata=metadata)


def candidates_with_ids(
    items: Iterable[CandidateLike], what: str, unique: bool = False
) -> list[Candidate]:
    """Convert candidates, and check that all have ids; with ``unique``, different ones.

    Integers become strings, as judgements have them.
    """
    candidates = [
        replace(item, id=comparable_id(item.id))
        for item in to_candidates(items, text_needed=False, name=what)
    ]
    seen: dict[str, int] = {}
    for index, item in enumerate(candidates):
        if not isinstance(item.id, str) or not item.id:
            message = f"must be a string or an integer, not {describe(item.id)}"
            raise InputError(f"{what}[{index}].id: {message}")
        if seen.setdefault(item.id, index) != index and unique:
            raise InputError(f"{what}[{index}].id: {item.id!r} is the id of [{seen[item.id]}]")
    return candidates


def _measurable(
    name: str, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]
) -> tuple[dict[str, str], Qrels, list[str]]:
    """The queries with judgements, these judgements, and notes on the rest."""
    check_mapping(f"{name}: qrels", qrels)
    if not any(qrels.values()):
        raise InputError(f"{name}: there are no judgements")
    kept = {query: text for query, text in queries.items() if qrels.get(query)}
    if not kept:
        raise InputError(
            f"{name}: no query has a judgement; the ids do not match: the queries are "
            f"{_some(queries)}, those of the judgements {_some(qrels)}"
        )
    for query, text in kept.items():
        if not isinstance(text, str):
            raise InputError(f"{name}: queries[{query!r}]: must be text, not {describe(text)}")
        if not isinstance(query, str):
            raise InputError(f"{name}: queries: an id must be a string, not {describe(query)}")
    judged = {query: _relevance(f"{name}: qrels[{query!r}]", qrels[query]) for query in kept}
    best = [max(relevance.values()) for relevance in judged.values()]
    if max(best) < 1:
        raise InputError(f"{name}: no document is judged relevant")
    notes = []
    if unjudged := [query for query in queries if query not in kept]:
        what = "without judgements, left out"
        total = counted(len(queries), "query", "queries")
        notes.append(f"{what}: {len(unjudged)} of {total} ({_some(unjudged)})")
    if unknown := [query for query in qrels if query not in queries]:
        what = "judgements of unknown queries, left out"
        total = counted(len(qrels), "judged query", "judged queries")
        notes.append(f"{what}: {len(unknown)} of {total} ({_some(unknown)})")
    if hopeless := [query for query, value in zip(kept, best, strict=True) if value < 1]:
        what = "without a relevant document, counted as 0"
        notes.append(f"{what}: {len(hopeless)} of the queries ({_some(hopeless)})")
    return kept, judged, notes


def _relevance(what: str, judged: Mapping[str, int]) -> dict[str, int]:
    check_mapping(what, judged)
    relevance = {}
    for document, value in judged.items():
        try:
            relevance[comparable_id(document)] = whole_relevance(value)
        except ValueError as error:
            raise InputError(f"{what}[{document!r}]: {error}") from None
    return relevance


def _some(ids: Iterable[str]) -> str:
    """The first three ids."""
    listed = list(ids)
    text = ", ".join(repr(item) for item in listed[:3])
    return f"{text}, …" if len(listed) > 3 else text or "none"
