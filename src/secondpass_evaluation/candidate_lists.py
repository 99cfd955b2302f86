"""Reads the candidates of queries, as a first stage lists them: JSON lines, or a TREC run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from secondpass import Candidate, InputError
from secondpass.formats.shared import AnyPath, FormatError, Line, read_json_lines, read_run
from secondpass.ranking.shared import stated_score
from secondpass.settings import describe
from secondpass_evaluation.suites import with_title


def checked_id(line: Line, value: Any, what: str) -> str:
    """The id as a string; ``what`` names it in messages.

    Raises:
        FormatError: it is neither a string with characters nor an integer.
    """
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise line.error(f"{what} must be a string or an integer, not {describe(value)}")
    return str(value)


def read_candidates(
    path: AnyPath, corpus: Sequence[Candidate] | None
) -> dict[str, list[Candidate]]:
    """Read lines of ``query_id`` and ``candidates``: ``id``, ``text``, ``score``, best first.

    Raises:
        FormatError: a line is malformed.
        OSError: the file cannot be read.
    """
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
    """The documents of a TREC run as candidates.

    Raises:
        FormatError: a line is malformed, or a document is not in the corpus.
        InputError: there is no corpus.
        OSError: the file cannot be read.
    """
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
