"""The files beside a language model's judgements: its mark, and a person's judgements.

Beside ``qrels.txt`` there are ``qrels.judged-by.json``, which names the model, and, after a person
has judged some documents, ``qrels.people.txt`` with these judgements. Both files of judgements have
TREC's format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from secondpass import InputError
from secondpass.formats.errors import FormatError
from secondpass.formats.files import open_locked, uncompressed_name
from secondpass.formats.lines import AnyPath, write_lines
from secondpass.settings import counted
from secondpass_evaluation.reading import Qrels, read_qrels
from secondpass_evaluation.significance import fewest_queries

_FORMAT = 1
_NUMBERS = ("sampled_from", "queries", "documents", "ungraded", "depth", "seed")


@dataclass(frozen=True)
class JudgedBy:
    """The origin of a language model's judgements; None in a suite judged by people.

    Attributes:
        model: name of the language model.
        template: name and version of the prompt.
        date: when it was finished, in UTC, by ISO 8601.
        sampled_from: number of queries of which the judged ones are a random sample.
        queries: number of queries that were judged: at least one pooled document has a grade.
        documents: number of judgements.
        grades: number of judgements by grade.
        ungraded: number of documents without a usable grade, which have no judgement.
        pools: names of the systems whose results were judged.
        depth: how many results of each system were judged.
        seed: of the samples.
        order: the queries in the random order in which a person is asked about them.
        people: query id -> document id -> a person's grade, for the queries at the beginning of
            ``order`` whose documents a person has all judged.
    """

    model: str
    template: str
    date: str
    sampled_from: int
    queries: int
    documents: int
    grades: Mapping[int, int]
    ungraded: int
    pools: tuple[str, ...]
    depth: int
    seed: int
    order: tuple[str, ...] = field(repr=False)
    people: Qrels = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        judged = f"{self.queries:,} of {counted(self.sampled_from, 'query', 'queries')}"
        documents = counted(self.documents, "document")
        return f"<JudgedBy {self.model!r}: {judged}, {documents}, {len(self.people):,} by people>"

    @property
    def gaps(self) -> str:
        """How much of the pools has no grade, in words; empty if all of it has one."""
        if not self.ungraded:
            return ""
        total = self.documents + self.ungraded
        have, count = ("has", "counts") if self.ungraded == 1 else ("have", "count")
        return (
            f"{self.ungraded:,} of {counted(total, 'document')} of the pools, "
            f"{self.ungraded / total:.1%}, {have} no grade and {count} as not relevant"
        )

    @property
    def note(self) -> str:
        """A sentence for reports: who made these judgements, and whether figures are corrected."""
        by = f"judged by the model {self.model} ({self.template}, {self.date[:10]}), not by people"
        if self.gaps:
            by += f" ({self.gaps})"
        count = len(self.people)
        if not count:
            return f"{by}: the figures stand on its grades alone"
        also = (
            f"{count} of {self.queries} queries {'is' if count == 1 else 'are'} judged by a person"
        )
        if count < fewest_queries():
            return f"{by}: {also}, too few to correct its grades ({fewest_queries()} are needed)"
        return f"{by}: {also}, too; figures that are called corrected stand on both"


def judged_by_path(qrels: AnyPath) -> Path:
    return beside(qrels, ".judged-by.json")


def people_path(qrels: AnyPath) -> Path:
    return beside(qrels, ".people.txt")


def read_judged_by(path: AnyPath, qrels: Qrels) -> JudgedBy | None:
    """The mark beside judgements, with the person's judgements; None if there is none."""
    mark = judged_by_path(path)
    if not mark.is_file():
        return None
    try:
        record = json.loads(mark.read_text(encoding="utf-8"))
        version = record.pop("format")
        judged = None if version != _FORMAT else _judged_by(record)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        message = f"is not in the format of `secondpass judge` ({type(error).__name__})"
        raise FormatError(mark, None, message) from None
    if judged is None:
        raise FormatError(mark, None, "has the format of another version of secondpass")
    return with_people(judged, qrels, read_people(path))


def _judged_by(record: dict[str, Any]) -> JudgedBy:
    """The mark in a JSON record; raises any of the errors above if that is malformed."""
    grades = {int(grade): count for grade, count in record.pop("grades").items()}
    pools, order = record.pop("pools"), record.pop("order")
    numbers = {name: record[name] for name in _NUMBERS}
    texts = [value for name, value in record.items() if name not in numbers]
    _check_types(list, [pools, order])
    _check_types(str, [*texts, *pools, *order])
    _check_types(int, [*numbers.values(), *grades.values()])
    return JudgedBy(**record, grades=grades, pools=tuple(pools), order=tuple(order), people={})


def _check_types(kind: type, values: Iterable[object]) -> None:
    if not all(type(value) is kind for value in values):
        raise TypeError


def read_people(path: AnyPath) -> Qrels:
    """A person's judgements beside a model's, including those of incomplete queries."""
    people = people_path(path)
    return read_qrels(people) if people.is_file() else {}


def with_people(judged: JudgedBy, qrels: Qrels, people: Qrels) -> JudgedBy:
    """The mark with the person's judgements of complete queries."""
    counted: Qrels = {}
    for query in complete_queries(judged.order, qrels, people):
        counted[query] = {document: people[query][document] for document in qrels[query]}
    return replace(judged, people=counted)


def complete_queries(order: Sequence[str], qrels: Qrels, people: Qrels) -> list[str]:
    """The queries at the beginning of ``order`` whose documents a person has all judged.

    Only these are a random sample of the queries, wherever the person stops: whether a later query
    is complete depends on how long its documents take.
    """
    complete = []
    for query in order:
        if query not in qrels:
            continue
        if qrels[query].keys() - people.get(query, {}).keys():
            break
        complete.append(query)
    return complete


def write_judged_by(path: AnyPath, judged: JudgedBy) -> None:
    """Write the mark beside judgements, atomically."""
    record = {"format": _FORMAT, **asdict(judged)}
    del record["people"]
    text = json.dumps(record, ensure_ascii=False, indent=1)
    write_lines(judged_by_path(path), [text + "\n"])


@contextmanager
def locked(folder: AnyPath) -> Iterator[None]:
    """Keep other processes from writing a person's judgements into a folder."""
    mark = judged_by_path(Path(folder) / "qrels.txt")
    if not mark.is_file():
        raise InputError(f"{folder}: has no judgements of a model; let one judge first")
    with open_locked(mark, "r+b"):
        yield


def beside(path: AnyPath, suffix: str) -> Path:
    """The path of a file beside judgements, named like them but for its end."""
    name = uncompressed_name(path)
    return Path(path).with_name(f"{Path(name).stem}{suffix}")
