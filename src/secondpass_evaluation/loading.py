"""Reads suites from files.

- a BEIR folder: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv`` (or ``qrels.tsv``),
  optionally ``candidates.jsonl`` with a first stage's results;
- separate files: queries, judgements, and a corpus with or without a TREC run;
- one file of JSON lines: a query and the ids of its relevant documents,
  ``{"query": …, "relevant": [id, …]}``, beside a corpus;
- a name of ir_datasets, such as ``beir/scifact/test``, if that package is installed.

``NAME.judged-by.json`` beside a file of judgements says that a language model made them
(:mod:`secondpass_evaluation.judging.labels`). ``NAME.texts.json`` has hashes of judged passages of
documents: it is written when they are first read, and the suite's notes name those that have
changed since (:mod:`secondpass_evaluation.judging.judged_texts`).

Any of these files may be compressed, with ``.gz`` added to its name.

The text of a passage is its title and its text, as in BEIR, for first stages and rerankers alike.
Otherwise the first stage would read titles that the reranker does not see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from secondpass import Candidate, InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.files import find_file, open_input, uncompressed_name
from secondpass.formats.lines import AnyPath, Line, read_json_lines
from secondpass.formats.reading import read_queries
from secondpass.ranking.candidates import query_key, stated_score
from secondpass.ranking.rendering import well_formed
from secondpass.settings import describe
from secondpass.settings.arguments import explained
from secondpass_evaluation.judging.judged_texts import keep_hashes, read_hashes, text_hashes
from secondpass_evaluation.judging.labels import JudgedBy, read_judged_by
from secondpass_evaluation.reading import Qrels, read_corpus, read_qrels, read_run, whole_relevance
from secondpass_evaluation.search.documents import read_source
from secondpass_evaluation.search.selection import is_index
from secondpass_evaluation.suites import Suite, make_suite, with_title

_FILES = {
    "corpus": ("corpus.jsonl",),
    "queries": ("queries.jsonl", "queries.tsv"),
    "qrels": ("qrels/test.tsv", "qrels.tsv", "qrels.txt", "qrels"),
}
"""Names of the files in a folder; the first that exists is read, as it is or with ``.gz``."""

QUERY_KEYS = ("query", "question", "text")
"""Keys of a query's text in JSON lines; the first that a line has is used."""


@explained()
def load_suite(
    source: AnyPath | None = None,
    *,
    queries: AnyPath | None = None,
    qrels: AnyPath | None = None,
    corpus: AnyPath | Iterable[Candidate] | None = None,
    run: AnyPath | None = None,
) -> Suite:
    """Read a suite from a folder, from files, or from ir_datasets.

    Args:
        source: a BEIR folder; a file of JSON lines with ``relevant`` ids, whose corpus is the
            ``corpus.jsonl`` beside it unless ``corpus`` is set; or a name of ir_datasets.
        queries: a file that replaces the folder's.
        qrels: a file that replaces the folder's.
        corpus: replaces the folder's: a file, a folder of documents, an index, or passages, such as
            the ``corpus`` of an :class:`~secondpass_evaluation.Index`. Passages of documents have
            the ids ``path#number``; judgements may also name a file by its ``path``, which then
            counts once, at the first of its passages. Judgements of such passages get a file
            ``NAME.texts.json`` beside them, with hashes of the texts, if the folder can be written.
        run: a TREC run, whose documents become the candidates.

    Raises:
        FormatError: a file is malformed.
        InputError: a part is missing, or the parts do not belong together.
        IndexFaultError: the corpus is an index that is stale or incomplete.
        OSError: a file cannot be read.
    """
    passages = Path(corpus) if isinstance(corpus, str | PathLike) else corpus
    own = {"queries": queries, "qrels": qrels}
    paths = {part: Path(path) for part, path in own.items() if path is not None}
    if source is None:
        return _from_files("suite", paths, passages, run)
    path = Path(source)
    if path.is_dir():
        found = {part: find_file(path, names) for part, names in _FILES.items()}
        paths = {**{part: file for part, file in found.items() if file is not None}, **paths}
        return _from_files(path.resolve().name or "suite", paths, passages, run, folder=path)
    if path.exists():
        if paths:
            message = f"is a file of queries and judgements; leave out {', '.join(sorted(paths))}"
            raise InputError(f"{source}: {message}")
        if passages is None:
            passages = find_file(path.parent, _FILES["corpus"])
        asked = _read_queries_with_relevant(path)
        return _assemble(uncompressed_name(path).stem, path, *asked, passages, run=run)
    if paths or passages is not None or run is not None or not _may_be_a_name(str(source)):
        raise InputError(f"{source}: there is no such file or folder")
    return _from_ir_datasets(str(source))


def _no_suite_hint(folder: Path) -> str:
    """``; …`` what to name instead of a folder that is no suite."""
    for child in sorted(path for path in folder.iterdir() if path.is_dir()):
        if all(find_file(child, _FILES[part]) for part in ("queries", "qrels")):
            return f"; did you mean {child}?"
    return (
        "; a suite has questions with their relevant documents: a folder with these files, or a "
        'file of {"query": "…", "relevant": ["id", …]} lines. Documents to search are the corpus. '
        "`secondpass example FOLDER` writes an example, and `secondpass judge` lets a language "
        "model judge"
    )


def _from_files(
    name: str,
    paths: Mapping[str, Path],
    corpus: Path | Iterable[Candidate] | None,
    run: AnyPath | None,
    folder: Path | None = None,
) -> Suite:
    if missing := [part for part in ("queries", "qrels") if part not in paths]:
        if folder is None:
            message = "missing; a suite is a folder or file, or both queries and qrels"
            raise InputError(f"{' and '.join(missing)}: {message}")
        named = [f"{part} ({', '.join(_FILES[part])})" for part in missing]
        hint = _no_suite_hint(folder) if len(missing) > 1 else ""
        raise InputError(f"{folder}: has no {' and no '.join(named)}{hint}")
    judgements = paths["qrels"]
    queries, qrels = read_queries(paths["queries"]), read_qrels(judgements)
    judged_by = read_judged_by(judgements, qrels)
    corpus = paths.get("corpus") if corpus is None else corpus
    lists = None if folder is None else find_file(folder, ["candidates.jsonl"])
    parts = judgements, queries, qrels, corpus
    return _assemble(name, *parts, run=run, lists=lists, judged_by=judged_by)


def _assemble(
    name: str,
    judgements: Path,
    queries: Mapping[str, str],
    qrels: Qrels,
    corpus: Path | Iterable[Candidate] | None,
    *,
    run: AnyPath | None,
    lists: Path | None = None,
    judged_by: JudgedBy | None = None,
) -> Suite:
    passages = None if corpus is None else passages_of(corpus)
    candidates = None
    if run is not None:
        candidates = candidates_of_run(run, passages)
    elif lists is not None:
        candidates = read_candidates(lists, passages)
    texts = read_hashes(judgements)
    parts = {"corpus": passages, "candidates": candidates, "judged_by": judged_by}
    suite = make_suite(name, queries, qrels, texts=texts, **parts)  # type: ignore[arg-type]
    keep_hashes(judgements, texts, text_hashes(suite.qrels, passages or (), candidates or {}))
    return suite


def passages_of(corpus: Path | Iterable[Candidate]) -> list[Candidate]:
    """The passages of a file, a folder of documents or an index, with titles in their texts."""
    passages: Iterable[Candidate]
    if not isinstance(corpus, Path):
        passages = corpus
    elif is_index(corpus):
        from secondpass_evaluation.search.index import open_index

        passages = open_index(corpus).corpus
    else:
        passages = read_source(corpus).corpus if corpus.is_dir() else read_corpus(corpus)
    return [with_title(item) for item in passages]


def _query_lines(path: AnyPath) -> Iterator[tuple[Line, dict[str, Any], str]]:
    """The lines of a file, their records, and the texts of the queries."""
    for line, record in read_json_lines(path):
        text = next((record[key] for key in QUERY_KEYS if key in record), None)
        if not isinstance(text, str):
            what = "a 'query' (or 'question', or 'text'): a string"
            raise line.error(f"needs {what}, not {describe(text)}")
        yield line, record, text


def _read_queries_with_relevant(path: Path) -> tuple[dict[str, str], Qrels]:
    queries: dict[str, str] = {}
    qrels: Qrels = {}
    for line, record, text in _query_lines(path):
        own = record.get("_id", record.get("id", f"q{line.number}"))
        identifier = checked_id(line, own, "the id")
        if identifier in queries:
            raise line.error(f"the id {identifier!r} is a duplicate")
        queries[identifier] = text
        qrels[identifier] = dict(_relevances(line, record.get("relevant")))
    if not queries:
        line_form = '{"query": "…", "relevant": ["id", …]}'
        raise FormatError(path, None, f"has no queries: lines such as {line_form}")
    return queries, qrels


def _relevances(line: Line, relevant: Any) -> Iterator[tuple[str, int]]:
    if isinstance(relevant, dict):
        pairs = list(relevant.items())
    elif isinstance(relevant, list):
        pairs = [(document, 1) for document in relevant]
    else:
        what = "a list of ids, or a mapping of ids to grades"
        raise line.error(f"needs 'relevant': {what}, not {describe(relevant)}")
    for document, grade in pairs:
        identifier = checked_id(line, document, "an id in 'relevant'")
        try:
            yield identifier, whole_relevance(grade)
        except ValueError as error:
            raise line.error(f"the grade of {document!r} {error}") from None


def _may_be_a_name(source: str) -> bool:
    """Whether this may be a name of ir_datasets, such as ``argsme/1.0/…``, rather than a file."""
    last = source.rpartition("/")[2]
    return not source.startswith(("/", ".")) and "\\" not in source and "." not in last


def _from_ir_datasets(name: str) -> Suite:
    no_file = f"{name}: there is no such file or folder"
    try:
        import ir_datasets
    except ImportError:
        hint = "for names of ir_datasets, run: pip install ir-datasets"
        raise InputError(f"{no_file}; {hint}") from None
    try:
        data = ir_datasets.load(name)
    except KeyError:
        raise InputError(f"{no_file}, and ir_datasets has no such collection") from None
    try:
        queries = {query.query_id: query.default_text() for query in data.queries_iter()}
        qrels: Qrels = {}
        for judgement in data.qrels_iter():
            grade = int(judgement.relevance)
            qrels.setdefault(judgement.query_id, {})[judgement.doc_id] = grade
        corpus = [Candidate(doc.default_text(), doc.doc_id) for doc in data.docs_iter()]
    except Exception as error:  # ir_datasets downloads, which can fail in any way
        message = f"{name}: ir_datasets cannot load it here ({type(error).__name__})"
        raise InputError(message) from error
    return make_suite(name, queries, qrels, corpus=corpus)


def read_query_log(path: AnyPath) -> dict[str, str]:
    """Queries by id, each text once.

    Reads JSON lines with ``query``, ``question`` or ``text``, and any other keys; and lines of
    ``id<TAB>text``. A line without an ``_id`` or ``id`` gets an id computed from its text, which
    stays the same while the log grows. Of texts that differ only in white space and case, the first
    is used; lines with an empty text are left out.
    """
    with open_input(Path(path)) as file:
        is_json = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    queries: dict[str, str] = {}
    seen: set[str] = set()
    if not is_json:
        for identifier, text in read_queries(path).items():
            if (plain := query_key(well_formed(text))) and plain not in seen:
                seen.add(plain)
                queries[identifier] = well_formed(text)
    for line, record, raw in _query_lines(path) if is_json else ():
        text = well_formed(raw)  # JSON can hold lone surrogates, files cannot
        plain = query_key(text)
        own = record.get("_id", record.get("id"))
        if own is None:
            own = "q" + hashlib.sha256(plain.encode()).hexdigest()[:12]
        identifier = checked_id(line, own, "the id")
        if not plain or plain in seen:
            continue
        if identifier in queries:
            raise line.error(f"the id {identifier!r} has another text in an earlier line")
        seen.add(plain)
        queries[identifier] = text
    if not queries:
        raise InputError(f"{path}: there are no queries")
    return queries


def checked_id(line: Line, value: Any, what: str) -> str:
    """The id as a string; ``what`` names it in messages."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise line.error(f"{what} must be a string or an integer, not {describe(value)}")
    return str(value)


def read_candidates(
    path: AnyPath, corpus: Sequence[Candidate] | None
) -> dict[str, list[Candidate]]:
    """Read lines of ``query_id`` and ``candidates``: ``id``, ``text``, ``score``, best first."""
    known = {str(item.id): item for item in corpus or ()}
    candidates: dict[str, list[Candidate]] = {}
    for line, record in read_json_lines(path):
        query = checked_id(line, record.get("query_id"), "the 'query_id'")
        items = record.get("candidates")
        if not isinstance(items, list):
            raise line.error(f"needs 'candidates': a list, not {describe(items)}")
        if query in candidates:
            raise line.error(f"the query_id {query!r} is a duplicate")
        candidates[query] = [_candidate(line, item, known) for item in items]
    return candidates


def _candidate(line: Line, item: Any, known: Mapping[str, Candidate]) -> Candidate:
    if not isinstance(item, dict):
        raise line.error(f"a candidate must be an object, not {describe(item)}")
    identifier = checked_id(line, item.get("id", item.get("_id")), "the id of a candidate")
    score = stated_score(item)
    if isinstance(score, bool) or not isinstance(score, int | float | None):
        raise line.error(f"the score of {identifier!r} must be a number, not {describe(score)}")
    passage, text, title = known.get(identifier), item.get("text"), item.get("title")
    if text is None and passage is not None:
        return replace(passage, score=score)
    if not isinstance(text, str):
        raise line.error(f"the candidate {identifier!r} has no text and is not in the corpus")
    metadata = {**(passage.metadata if passage else {}), **({"title": title} if title else {})}
    return with_title(Candidate(text, identifier, score, metadata))


def candidates_of_run(
    path: AnyPath, corpus: Sequence[Candidate] | None
) -> dict[str, list[Candidate]]:
    """The documents of a TREC run as candidates."""
    if corpus is None:
        raise InputError(f"{path}: a run has no texts; it needs a corpus")
    known = {str(item.id): item for item in corpus}
    candidates = {}
    for query, scores in read_run(path).items():
        if missing := [document for document in scores if document not in known]:
            what = f"query {query!r} has document {missing[0]!r}, which is not in the corpus"
            raise FormatError(path, None, what)
        candidates[query] = [replace(known[doc], score=score) for doc, score in scores.items()]
    return candidates
