"""The documents to judge, their files in a folder of judgements, and a person's review of them.

Documents are the first results of several systems on a random sample of queries: pools as in TREC
(Spärck Jones and van Rijsbergen, "Report on the need for and provision of an 'ideal' information
retrieval test collection", 1975). Their order is random, so that it does not show a judge which
system found a document, or at what rank.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from secondpass import Candidate, ConfigurationError, InputError
from secondpass.formats.lines import AnyPath, check_field, read_json_lines
from secondpass.ranking.rendering import well_formed
from secondpass_evaluation.judging.grading import GRADES
from secondpass_evaluation.judging.inference import kappa
from secondpass_evaluation.judging.labels import (
    JudgedBy,
    complete_queries,
    judged_by_path,
    people_path,
    read_judged_by,
    read_people,
)
from secondpass_evaluation.observations import Observations
from secondpass_evaluation.reading import Qrels, read_qrels
from secondpass_evaluation.rerankers import Spec, close_created, create_rerankers
from secondpass_evaluation.reranking import warm_up_if_timed
from secondpass_evaluation.writing import write_qrels

Pools: TypeAlias = dict[str, tuple[Candidate, ...]]
"""query id -> documents to judge, in random order."""


def sampled(queries: Mapping[str, str], count: int | None, seed: int) -> dict[str, str]:
    """A random sample of queries, in random order.

    The order is that of hashes, so a smaller sample with the same seed is the beginning of a larger
    one, and queries that are added later do not change the order of the others.
    """
    order = sorted(queries, key=lambda query: _hash(seed, query, queries[query]))
    return {query: queries[query] for query in order[:count]}


def pooled(
    observed: Observations,
    rerankers: Mapping[str, Spec] | Sequence[Spec] | Spec,
    *,
    depth: int,
    seed: int,
) -> tuple[Pools, tuple[str, ...]]:
    """The first ``depth`` results of every system, and the names of the systems."""
    results: dict[str, Mapping[str, Sequence[Candidate]]] = {}
    reasons = {}
    for stage in observed.stages:
        found = observed.retrieved(stage)
        if found.reason:
            reasons[stage] = found.reason
        else:
            results[stage] = found.candidates
    # A default first stage may lack a package; a requested one must run.
    if not results or not reasons.keys().isdisjoint(observed.requested):
        raise InputError("; ".join(f"{stage}: {reason}" for stage, reason in reasons.items()))
    candidates = observed.candidates
    created, missing = create_rerankers(rerankers)
    for name, reason in missing.items():
        raise ConfigurationError(f"{name}: {reason}")
    try:
        for name, (reranker, _) in created.items():
            warm_up_if_timed(reranker)
            results[f"{observed.stage}+{name}"] = {
                query: [candidates[query][item.position] for item in ranking[:depth]]
                for query, ranking in observed.rankings(name, reranker).items()
            }
    finally:
        close_created(created)
    pools: Pools = {}
    for query, text in observed.suite.queries.items():
        documents = {
            str(item.id): item for lists in results.values() for item in lists[query][:depth]
        }
        order = sorted(documents, key=lambda document: _hash(seed, text, document))
        pools[query] = tuple(documents[document] for document in order)
    return pools, tuple(results)


def _hash(seed: int, *parts: str) -> bytes:
    text = "\0".join((str(seed), *parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


QRELS, QUERIES, POOL = "qrels.txt", "queries.jsonl", "pool.jsonl"

_OTHERS = ("qrels/test.tsv", "qrels/test.tsv.gz", "qrels.tsv", "qrels.tsv.gz", "qrels.txt.gz")
"""Judgements that would be read instead of ``qrels.txt``, or share its mark."""


def check_folder(folder: AnyPath) -> None:
    """Check that judgements can be written into a folder, which need not exist."""
    path = Path(folder)
    names = [*_OTHERS, "qrels", "qrels.gz"]
    if not judged_by_path(path / QRELS).is_file():
        names += QRELS, QUERIES, POOL
    if unmarked := [name for name in names if (path / name).is_file()]:
        raise InputError(
            f"{folder}: has {', '.join(unmarked)}, which is not marked as a model's and is not "
            "overwritten; name another folder"
        )


def check_ids(pools: Pools) -> None:
    """Check that judgements of these documents can be written."""
    for query, items in pools.items():
        check_field(QRELS, "query id", query)
        for item in items:
            check_field(QRELS, "document id", item.id)


def pool_lines(queries: Mapping[str, str], pools: Pools) -> Iterator[str]:
    """A line for each query: ``query_id``, ``query`` and ``documents`` with ``id`` and ``text``."""
    for query, items in pools.items():
        documents = [{"id": item.id, "text": item.text} for item in items]
        record = {"query_id": query, "query": queries[query], "documents": documents}
        yield well_formed(json.dumps(record, ensure_ascii=False)) + "\n"


def read_pool(path: AnyPath) -> tuple[dict[str, str], Pools]:
    """The queries and their documents."""
    queries: dict[str, str] = {}
    pools: Pools = {}
    for line, record in read_json_lines(Path(path)):
        try:
            query, documents = record["query_id"], record["documents"]
            queries[query] = record["query"]
            pools[query] = tuple(Candidate(item["text"], item["id"]) for item in documents)
        except (LookupError, TypeError):
            problem = "needs 'query_id', 'query' and 'documents' with 'id' and 'text'"
            raise line.error(problem) from None
    return queries, pools


class Review:
    """The documents of a folder of judgements for a person to judge, and the answers so far.

    Queries are in the random order of the folder, so the complete ones are a random sample wherever
    the person stops, if that does not depend on the grades. Documents are in random order, without
    the model's grades.

    Attributes:
        judged_by: how the model's judgements were made.
        queries: query id -> text.
        people: query id -> document id -> grade, all answers so far.
    """

    def __init__(self, folder: AnyPath) -> None:
        self._path = Path(folder) / QRELS
        if not self._path.is_file():
            raise InputError(f"{folder}: has no {QRELS}; let a model judge first")
        self.qrels: Qrels = read_qrels(self._path)
        judged = read_judged_by(self._path, self.qrels)
        if judged is None:
            raise InputError(f"{folder}: {QRELS} is not marked as a model's")
        self.judged_by: JudgedBy = judged
        self.queries, pools = read_pool(self._path.with_name(POOL))
        self._texts = {
            query: {str(item.id): item.text or "" for item in items}
            for query, items in pools.items()
        }
        self.order = [query for query in judged.order if query in self.qrels]
        for query in self.order:
            if self.qrels[query].keys() - self._texts.get(query, {}).keys():
                raise InputError(f"{folder}: {POOL} lacks documents of query {query!r}")
        self.people: Qrels = read_people(self._path)

    def documents(self, query: str) -> dict[str, str]:
        """The documents of a query that the model has judged: id -> text."""
        texts = self._texts[query]
        return {document: texts[document] for document in texts if document in self.qrels[query]}

    def open_documents(self, query: str) -> list[str]:
        """The documents of a query that the person has not judged yet."""
        answered = self.people.get(query, {})
        return [document for document in self.documents(query) if document not in answered]

    def complete(self) -> list[str]:
        """The complete queries before the first incomplete one; only these are used."""
        return complete_queries(self.order, self.qrels, self.people)

    def answer(self, query: str, document: str, grade: int) -> None:
        """Record a grade and write the file."""
        if document not in self.qrels.get(query, {}):
            raise InputError(f"query {query!r} has no document {document!r} to judge")
        if grade not in GRADES:
            raise InputError(f"grade: must be {min(GRADES)} to {max(GRADES)}, not {grade!r}")
        self.people.setdefault(query, {})[document] = grade
        write_qrels(people_path(self._path), self.people)

    def agreement(self) -> tuple[int, float | None]:
        """Number of documents that both have judged, and Cohen's kappa on their grades."""
        model, people = _flat(self.qrels), _flat(self.people)
        common = {pair: grade for pair, grade in people.items() if pair in model}
        return len(common), kappa(model, common)


def _flat(qrels: Qrels) -> dict[tuple[str, str], int]:
    return {(query, each): judged[each] for query, judged in qrels.items() for each in judged}
