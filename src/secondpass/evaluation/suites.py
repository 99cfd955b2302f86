"""Suites: queries, judgements, and what the candidates come from.

A suite is found in one of these forms:

- a BEIR folder: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv`` (or ``qrels.tsv``), and
  perhaps ``candidates.jsonl`` with a first stage's results;
- files: queries, judgements, and a corpus with or without a TREC run, each named;
- one file of JSON lines: a query and the ids that answer it, ``{"query": …, "relevant": [id, …]}``,
  beside a corpus;
- a name of ir_datasets, such as ``beir/scifact/test``, where that package and its data are at hand.

A passage of a corpus is its title and its text, as BEIR has it, for first stages and rerankers
alike. Else a reranker that is shown the text alone would be compared with a search that reads more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from secondpass.candidates import to_candidates
from secondpass.errors import InputError
from secondpass.formats.errors import FormatError, check_numbers
from secondpass.formats.lines import AnyPath, Line, read_json_lines
from secondpass.formats.reading import read_corpus, read_qrels, read_queries, read_run
from secondpass.formats.runs import Qrels, whole_relevance
from secondpass.search.documents import read_source
from secondpass.search.index_files import is_index
from secondpass.settings import describe
from secondpass.types import Candidate, CandidateLike

_PARTS = {
    "corpus": ("corpus.jsonl",),
    "queries": ("queries.jsonl", "queries.tsv"),
    "qrels": ("qrels/test.tsv", "qrels.tsv", "qrels.txt", "qrels"),
}
"""Where a folder has its parts; the first that is there counts."""

_QUERY_KEYS = ("query", "question", "text")


@dataclass(frozen=True)
class Suite:
    """What rerankers are compared on; made by :func:`make_suite` and :func:`load_suite`.

    Attributes:
        name: for reports.
        queries: texts by query id; those that have a judgement, in the order of the file.
        qrels: query id -> document id -> relevance, for the same queries.
        corpus: what a first stage searches; None where there are only its results.
        candidates: a first stage's results by query id, best first; None where there are none.
        notes: what a reader of the figures should know.
    """

    name: str
    queries: Mapping[str, str] = field(repr=False)
    qrels: Qrels = field(repr=False)
    corpus: Sequence[Candidate] | None = field(default=None, repr=False)
    candidates: Mapping[str, Sequence[Candidate]] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    def first(self, count: int | None) -> Suite:
        """The same with no more than so many queries: the first ones. None takes all.

        Raises:
            InputError: the number is not 1 or more.
        """
        if count is None:
            return self
        check_numbers(count=(count, 1))
        if count >= len(self.queries):
            return self
        queries = dict(list(self.queries.items())[:count])
        qrels = {query: self.qrels[query] for query in queries}
        told = f"only the first {count} of {len(self.queries)} queries"
        return replace(self, queries=queries, qrels=qrels, notes=(*self.notes, told))


def make_suite(
    name: str,
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    *,
    corpus: Iterable[CandidateLike] | None = None,
    candidates: Mapping[str, Iterable[CandidateLike]] | None = None,
) -> Suite:
    """A suite of its parts, brought together.

    Queries without judgements are left out, as they cannot be measured, and judgements on queries
    that are not there, which would count as failures. Both are told in the notes.

    Args:
        name: for reports.
        queries: texts by query id.
        qrels: query id -> document id -> relevance; 1 or more is relevant.
        corpus: what a first stage searches; every candidate has an id of its own.
        candidates: a first stage's results by query id, best first; every candidate has an id.

    Raises:
        InputError: nothing is left, no document is judged relevant, the documents that are judged
            are not those of the corpus or the candidates, or a part is not of the right kind.
    """
    passages = None if corpus is None else _with_ids(corpus, f"{name}: corpus", unique=True)
    lists = None
    if candidates is not None:
        _check_mapping(f"{name}: candidates", candidates)
        lists = {
            query: _with_ids(found, f"{name}: candidates[{query!r}]")
            for query, found in candidates.items()
        }
    if not passages and not any((lists or {}).values()):
        told = "is empty" if passages is not None or lists is not None else "is not there"
        raise InputError(f"{name}: needs a corpus, or the candidates of a first stage; it {told}")
    kept, judged, notes = _measurable(name, queries, qrels)
    if lists is not None:
        if without := sum(not lists.get(query) for query in kept):
            if without == len(kept):
                told = f"{_some(kept)} are asked; {_some(lists)} have some"
                raise InputError(f"{name}: no query has candidates; their ids do not meet: {told}")
            notes.append(
                f"without candidates, so counted as finding nothing: {without} of the queries"
            )
        lists = {query: lists[query] for query in kept if query in lists}
    known = {one.id for one in passages or ()}
    known.update(one.id for each in (lists or {}).values() for one in each)
    documents = {document for each in judged.values() for document in each}
    absent = documents - known
    if len(absent) == len(documents):
        told = f"{_some(sorted(documents))} are judged; there are {_some(sorted(map(str, known)))}"
        raise InputError(f"{name}: no judged document is among the candidates: {told}")
    if passages is not None and absent:
        notes.append(f"{len(absent)} of {len(documents)} judged documents are not in the corpus")
    return Suite(name, kept, judged, passages, lists, tuple(notes))


def _check_mapping(what: str, given: object) -> None:
    if not isinstance(given, Mapping):
        raise InputError(f"{what}: must be a mapping, not {describe(given)}")


def _with_ids(given: Iterable[CandidateLike], what: str, unique: bool = False) -> list[Candidate]:
    try:
        listed = to_candidates(given, text_needed=False)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
    seen: dict[str, int] = {}
    for position, one in enumerate(listed):
        if not isinstance(one.id, str) or not one.id:
            raise InputError(f"{what}[{position}].id: must be a string, not {describe(one.id)}")
        if seen.setdefault(one.id, position) != position and unique:
            raise InputError(f"{what}[{position}].id: {one.id!r} is that of [{seen[one.id]}]")
    return listed


def _measurable(
    name: str, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]
) -> tuple[dict[str, str], Qrels, list[str]]:
    """Queries that have judgements, with these, and notes on what is left out."""
    _check_mapping(f"{name}: queries", queries)
    _check_mapping(f"{name}: qrels", qrels)
    if not queries:
        raise InputError(f"{name}: there are no queries")
    if not any(qrels.values()):
        raise InputError(f"{name}: there are no judgements")
    kept = {query: text for query, text in queries.items() if qrels.get(query)}
    if not kept:
        told = f"{_some(queries)} are asked; {_some(qrels)} are judged"
        raise InputError(f"{name}: no query has a judgement; their ids do not meet: {told}")
    for query, text in kept.items():
        if not isinstance(text, str):
            raise InputError(f"{name}: queries[{query!r}]: must be text, not {describe(text)}")
        if not isinstance(query, str):
            raise InputError(f"{name}: queries: an id must be a string, not {describe(query)}")
    judged = {query: _relevance(f"{name}: qrels[{query!r}]", qrels[query]) for query in kept}
    if not any(relevance > 0 for each in judged.values() for relevance in each.values()):
        raise InputError(f"{name}: no document is judged relevant")
    notes = []
    if unjudged := len(queries) - len(kept):
        notes.append(f"without judgement, so left out: {unjudged} of {len(queries)} queries")
    if foreign := sum(query not in queries for query in qrels):
        notes.append(f"judged but not asked, so left out: {foreign} of the judgements' queries")
    if hopeless := sum(max(each.values()) < 1 for each in judged.values()):
        notes.append(
            f"without a relevant document, so counted as finding nothing: {hopeless} of the queries"
        )
    return kept, judged, notes


def _relevance(what: str, judged: Mapping[str, int]) -> dict[str, int]:
    _check_mapping(what, judged)
    found = {}
    for document, relevance in judged.items():
        try:
            found[document] = whole_relevance(relevance)
        except ValueError as error:
            raise InputError(f"{what}[{document!r}]: {error}") from None
    return found


def load_suite(
    source: AnyPath | None = None,
    *,
    queries: AnyPath | None = None,
    qrels: AnyPath | None = None,
    corpus: AnyPath | Iterable[Candidate] | None = None,
    run: AnyPath | None = None,
) -> Suite:
    """The suite in a folder, in files, or of a name.

    Args:
        source: a BEIR folder; a file of JSON lines with ``relevant`` ids, whose corpus is
            ``corpus.jsonl`` beside it unless one is named; or an ir_datasets name.
        queries: a file in the place of the folder's.
        qrels: likewise.
        corpus: a file in the place of the folder's, a folder of documents, an index, or passages,
            such as the ``corpus`` of an :class:`~secondpass.search.index.Index`. Judgements of
            documents name their passages: ``path#number``.
        run: a TREC run, whose documents are the candidates.

    Raises:
        FormatError: a file is malformed.
        InputError: something is missing, or the parts do not belong together.
        IndexFaultError: the corpus is an index that is stale or not whole.
        OSError: a file cannot be read.
    """
    passages: Path | Iterable[Candidate] | None = None
    if isinstance(corpus, str | PathLike):
        passages = Path(corpus)
    elif corpus is not None:
        passages = corpus
    named = {"queries": queries, "qrels": qrels}
    given = {part: Path(path) for part, path in named.items() if path is not None}
    if source is None:
        return _of_files("suite", given, corpus=passages, run=run)
    place = Path(source)
    if place.is_dir():
        found = {**_in_folder(place), **given}
        ready = place / "candidates.jsonl"
        name = place.resolve().name or "suite"
        return _of_files(name, found, corpus=passages, run=run, ready=ready)
    if place.exists():
        if unfit := given.keys():
            told = f"is a file of queries with their answers; leave out {', '.join(sorted(unfit))}"
            raise InputError(f"{source}: {told}")
        beside = place.with_name("corpus.jsonl")
        if passages is None and beside.is_file():
            passages = beside
        texts, judged = _with_relevant(place)
        return _brought_together(place.stem, texts, judged, corpus=passages, run=run)
    if given or passages is not None or run is not None or not _may_be_a_name(str(source)):
        raise InputError(f"{source}: there is no such file or folder")
    return _of_ir_datasets(str(source))


def _in_folder(place: Path) -> dict[str, Path]:
    found = {}
    for part, names in _PARTS.items():
        path = next((place / name for name in names if (place / name).is_file()), None)
        if path is not None:
            found[part] = path
    return found


def _of_files(
    name: str,
    paths: Mapping[str, Path],
    *,
    corpus: Path | Iterable[Candidate] | None,
    run: AnyPath | None,
    ready: Path | None = None,
) -> Suite:
    if missing := [part for part in ("queries", "qrels") if part not in paths]:
        if ready is not None:  # of a folder
            missing = [f"{part} ({', '.join(_PARTS[part])})" for part in missing]
        raise InputError(f"{name}: has no {' and no '.join(missing)}")
    texts, judged = read_queries(paths["queries"]), read_qrels(paths["qrels"])
    corpus = paths.get("corpus") if corpus is None else corpus
    return _brought_together(name, texts, judged, corpus=corpus, run=run, ready=ready)


def _brought_together(
    name: str,
    queries: Mapping[str, str],
    qrels: Qrels,
    *,
    corpus: Path | Iterable[Candidate] | None,
    run: AnyPath | None,
    ready: Path | None = None,
) -> Suite:
    passages = None if corpus is None else [with_title(one) for one in _read(corpus)]
    candidates = None
    if run is not None:
        candidates = _of_run(run, passages)
    elif ready is not None and ready.is_file():
        candidates = _read_candidates(ready, passages)
    return make_suite(name, queries, qrels, corpus=passages, candidates=candidates)


def _read(corpus: Path | Iterable[Candidate]) -> Iterable[Candidate]:
    """The passages of a file in BEIR's form, a folder of documents, an index; or those given."""
    if not isinstance(corpus, Path):
        return corpus
    if is_index(corpus):
        from secondpass.search.index import open_index

        return open_index(corpus).corpus
    return read_source(corpus).corpus if corpus.is_dir() else read_corpus(corpus)


def with_title(passage: Candidate) -> Candidate:
    """The passage with its title in the text, and nowhere else, or a search would read it twice."""
    title = passage.metadata.get("title")
    if not isinstance(title, str) or not title:
        return passage
    metadata = {key: value for key, value in passage.metadata.items() if key != "title"}
    return replace(passage, text=f"{title}\n{passage.text}", metadata=metadata)


def _with_relevant(path: Path) -> tuple[dict[str, str], Qrels]:
    """Queries and judgements of a file of JSON lines that hold both."""
    queries: dict[str, str] = {}
    qrels: Qrels = {}
    for line, record in read_json_lines(path):
        key = next((key for key in _QUERY_KEYS if isinstance(record.get(key), str)), None)
        if key is None:
            raise line.error("needs a 'query' (or 'question', or 'text'): a string")
        own = record.get("_id", record.get("id", f"q{line.number}"))
        identifier = _id(line, own, "the id")
        if identifier in queries:
            raise line.error(f"the id {identifier!r} was given before")
        queries[identifier] = record[key]
        qrels[identifier] = dict(_relevances(line, record.get("relevant")))
    return queries, qrels


def _relevances(line: Line, relevant: Any) -> Iterator[tuple[str, int]]:
    if isinstance(relevant, dict):
        pairs = list(relevant.items())
    elif isinstance(relevant, list):
        pairs = [(document, 1) for document in relevant]
    else:
        told = f"needs 'relevant': a list of ids, or ids with grades, not {describe(relevant)}"
        raise line.error(told)
    for document, grade in pairs:
        identifier = _id(line, document, "an id in 'relevant'")
        try:
            yield identifier, whole_relevance(grade)
        except ValueError as error:
            raise line.error(f"the grade of {document!r} {error}") from None


def _id(line: Line, given: Any, what: str) -> str:
    if isinstance(given, bool) or not isinstance(given, str | int) or given == "":
        raise line.error(f"{what} must be a string or an integer, not {describe(given)}")
    return str(given)


def _read_candidates(path: Path, corpus: Sequence[Candidate] | None) -> dict[str, list[Candidate]]:
    """Lines of ``query_id`` and ``candidates``: ``id``, ``text``, ``score``, best first."""
    known = {one.id: one for one in corpus or ()}
    found: dict[str, list[Candidate]] = {}
    for line, record in read_json_lines(path):
        query = _id(line, record.get("query_id"), "the 'query_id'")
        listed = record.get("candidates")
        if not isinstance(listed, list):
            raise line.error(f"needs 'candidates': a list, not {describe(listed)}")
        if query in found:
            raise line.error(f"the candidates of {query!r} were given before")
        found[query] = [_candidate(line, one, known) for one in listed]
    return found


def _candidate(line: Line, one: Any, known: Mapping[str | None, Candidate]) -> Candidate:
    if not isinstance(one, dict):
        raise line.error(f"a candidate must be an object, not {describe(one)}")
    identifier = _id(line, one.get("id", one.get("_id")), "the id of a candidate")
    score = one.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float | None):
        raise line.error(f"the score of {identifier!r} must be a number, not {describe(score)}")
    full, text, title = known.get(identifier), one.get("text"), one.get("title")
    if text is None and full is not None:
        return replace(full, score=score)
    if not isinstance(text, str):
        told = f"the candidate {identifier!r} has no text, and the corpus does not hold it"
        raise line.error(told)
    metadata = {**(full.metadata if full else {}), **({"title": title} if title else {})}
    return with_title(Candidate(text, identifier, score, metadata))


def _of_run(path: AnyPath, corpus: Sequence[Candidate] | None) -> dict[str, list[Candidate]]:
    if corpus is None:
        raise InputError(f"{path}: a run names documents; their texts need a corpus")
    known = {one.id: one for one in corpus}
    found = {}
    for query, scores in read_run(path).items():
        if absent := [document for document in scores if document not in known]:
            told = f"query {query!r} has document {absent[0]!r}, which the corpus does not hold"
            raise FormatError(path, None, told)
        found[query] = [replace(known[one], score=score) for one, score in scores.items()]
    return found


def _may_be_a_name(source: str) -> bool:
    last = source.rpartition("/")[2]  # no file's name, though versions are like `argsme/1.0/…`
    return not source.startswith(("/", ".")) and "\\" not in source and "." not in last


def _of_ir_datasets(name: str) -> Suite:
    absent = f"{name}: there is no such file or folder"
    try:
        import ir_datasets
    except ImportError:
        told = "to take it for a name of ir_datasets, run: pip install ir-datasets"
        raise InputError(f"{absent}; {told}") from None
    try:
        data = ir_datasets.load(name)
    except KeyError:
        raise InputError(f"{absent}, and ir_datasets knows no such collection") from None
    try:
        queries = {one.query_id: one.default_text() for one in data.queries_iter()}
        qrels: Qrels = {}
        for one in data.qrels_iter():
            qrels.setdefault(one.query_id, {})[one.doc_id] = int(one.relevance)
        corpus = [Candidate(one.default_text(), one.doc_id) for one in data.docs_iter()]
    except Exception as error:  # it downloads, and so fails in every way
        told = f"{name}: ir_datasets cannot load it here ({type(error).__name__})"
        raise InputError(told) from error
    return make_suite(name, queries, qrels, corpus=corpus)


def _some(ids: Iterable[str]) -> str:
    listed = list(ids)
    shown = ", ".join(repr(one) for one in listed[:2])
    return f"{shown}, …" if len(listed) > 2 else shown or "none"
