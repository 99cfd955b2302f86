"""The result of a ranking: as a sequence, as plain values, as a DataFrame and in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, overload

from secondpass.attributes import unchangeable, unknown_attribute
from secondpass.errors import MissingExtraError, SecondPassError
from secondpass.markup import Markup, block, excerpt, paragraph, table
from secondpass.ranking.candidates import retrieval_score
from secondpass.ranking.packed import Packed, PackOrder, TokenCounter
from secondpass.settings import counted
from secondpass.settings.arguments import explained
from secondpass.types import Issue, Ranked, Report, findings, record_id

if TYPE_CHECKING:
    from secondpass.ranking.explanations import Explanation
    from secondpass.ranking.trace import Trace

TEXT_LENGTH = 200
"""Characters of a query or a text in a notebook."""

_ROWS = 50
_IDS = 3
_ISSUES = 5
_COLUMNS = ["rank", "id", "position", "status", "score", "rerank_score", "final_score"]
_COLUMNS += ["stage_scores", "span", "probability"]


_PARTS = {"use ranking.report.%s": Report, "use item.%s, for item in ranking": Ranked}
"""What to write for an attribute of the items, or of the report."""


@unchangeable
@dataclass(frozen=True, slots=True)
class Ranking(Sequence[Ranked]):
    """The ranked candidates, best first, and a report.

    Attributes:
        query, items: the query as passed by the caller, and the ranked candidates.
        report: what was done, what it cost, and what went wrong.
        trace: what :meth:`explain` reads; None in a ranking that no reranker made.

    Example:
        >>> from secondpass import Reranker
        >>> passages = [{"id": 1, "text": "Cats sleep."}, {"id": 2, "text": "Owls hunt."}]
        >>> ranking = Reranker("lexical").rerank("owls", passages)
        >>> for item in ranking:
        ...     print(item.rank, item.id, item.text, item.rerank_score > 0)
        1 2 Owls hunt. True
        2 1 Cats sleep. False
        >>> ranking[0].position, len(ranking), [item.id for item in ranking[:1]]
        (1, 2, [2])
        >>> ranking.report.status, ranking.report.method
        ('ok', 'lexical')
    """

    query: str
    items: tuple[Ranked, ...]
    report: Report
    trace: Trace | None = field(default=None, compare=False)

    @property
    def order(self) -> tuple[int, ...]:
        """The input positions of the items, best first."""
        return tuple(item.position for item in self.items)

    @overload
    def __getitem__(self, index: int) -> Ranked: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Ranked, ...]: ...
    def __getitem__(self, index: int | slice) -> Ranked | tuple[Ranked, ...]:
        if isinstance(index, str):
            raise TypeError("a Ranking is a sequence of items, not a mapping: ranking[0].text")
        try:
            return self.items[index]
        except IndexError:
            raise IndexError(f"the ranking has {counted(len(self.items), 'item')}") from None

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Ranked]:
        return iter(self.items)

    @explained()
    def index(self, value: object, start: int = 0, stop: int = sys.maxsize) -> int:
        """Return the index of an item, from 0; raises a ValueError if it is not there."""
        try:
            return self.items.index(value, start, stop)
        except ValueError:
            hint = "" if isinstance(value, Ranked) else "; of ids: [it.id for it in ranking].index"
            raise ValueError(f"the ranking has no such item{hint}") from None

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute(self, name, _PARTS)

    @explained()
    def explain(self, id: object = None, *, position: int | None = None) -> Explanation:
        """Explain the rank of a candidate, by id (the best of several) or by input position.

        Raises:
            InputError: there is no such candidate, or the ranking has no trace.
        """
        from secondpass.ranking.explanations import explain  # rarely used, and costs time

        return explain(self.items, self.report, self.trace, id, position)

    @explained()
    def pack(
        self,
        tokens: int,
        *,
        count: TokenCounter | object = None,
        order: PackOrder = "best",
        neighbours: tuple[str, str] | None = None,
        numbered: bool = True,
    ) -> Packed:
        """Pack the best items into a text that fits a budget of tokens, with their sources.

        The best items come first, whole where they fit. Of one that does not, the sentences that
        match best are packed in the order of the text, with ``[…]`` where text was left out, if its
        method scores sentences (``embedded``); else its span, if it has one that fits. What does
        not fit is left out, and items below it are tried. An exact copy is packed once, and so is
        the text that passages of one document share: the worse one is packed without it.

        Args:
            tokens: the budget, 1 or more, for the whole text.
            count: counts the tokens of a text: a tokenizer (of tiktoken, tokenizers, transformers),
                or a function that returns their number, a list of them, or a mapping with its
                ``input_ids``. Without, one token is assumed for every 3 lower-case ASCII letters
                and spaces, for each other ASCII character, and for every 2 bytes of the rest: for
                English text about 1.5 times the number, and too few for some scripts, such as
                Amharic.
            order: of the passages in the text. ``best``: as ranked. ``document``: passages of one
                document together, in its order; the document of the best passage first.
                ``lost_in_the_middle``: the best at both ends.
            neighbours: the names of two metadata fields, which say of which document a text is a
                part, and with which of its characters, from 0, it begins, such as ``("source_id",
                "split_idx_start")``. Texts without them share what one ends with and another begins
                with if it is 20 characters or more and both have the same name.
            numbered: whether each passage stands below a line with its number and its name.

        Raises:
            InputError: an argument is wrong, or ``count`` returns neither a number nor tokens.
        """
        from secondpass.ranking.packing import pack  # of no use to a ranking alone

        # If an ordering has placed the best items at both ends, the last item is not the worst.
        before = self.trace.before if self.trace is not None and self.trace.arranged else None
        return pack(
            self.items,
            tokens,
            best=before or (),
            count=count,
            order=order,
            neighbours=neighbours,
            numbered=numbered,
        )

    @explained()
    def to_dict(self, *, text: bool = False) -> dict[str, Any]:
        """Return plain values; with ``text`` also the query, texts and metadata."""
        record: dict[str, Any] = {"query": self.query} if text else {}
        record["ranking"] = [item_record(item, text=text) for item in self]
        record["report"] = self.report.to_dict()
        return record

    @explained()
    def to_pandas(self, *, text: bool = False) -> Any:
        """Return a pandas DataFrame of the items, one a row; with ``text`` also their texts."""
        columns = [*_COLUMNS, "text"] if text else _COLUMNS
        return data_frame([item_record(item, text=text) for item in self], columns)

    def __repr__(self) -> str:
        # Status, size, method and first ids or positions. Records are logged, so there is no text.
        report = self.report
        noun = "item" if len(self) == 1 else "items"
        parts = [f"{len(self):,} {noun}"]
        if not report.final:
            parts.insert(0, "interim")
        if report.method is not None:
            parts.append(f"method {report.method!r}")
        if report.skipped is not None:
            parts.append(f"skipped {report.skipped.pairs:,}")
        # The text of another object could be a passage.
        ids = [repr(item.id) for item in self[:_IDS] if isinstance(item.id, str | int)]
        positions = [f"{item.position:,}" for item in self[:_IDS]]
        if positions:
            more = ["…"] if len(self) > _IDS else []
            first = ids or ["positions " + ", ".join(positions)]
            parts.append(f"first {', '.join(first + more)}")
        parts += findings(report)
        return f"<Ranking {report.status_text}: {'; '.join(parts)}>"

    def _repr_html_(self) -> str:
        """A table: rank, rank before, final score, id and the first characters of the text."""
        issues = self.report.issues
        query = self.query[:TEXT_LENGTH] + ("…" if len(self.query) > TEXT_LENGTH else "")
        return block(
            "ranking",
            paragraph(Markup(f"<strong>{excerpt(query, None, len(query))}</strong>"), repr(self)),
            paragraph(*_issues(issues)) if issues else Markup(""),
            table(
                ["#", "was", "final", "id", "text"],
                [
                    (item.rank, item.position + 1, _score(item), _id(item), _text(item))
                    for item in self[:_ROWS]
                ],
                texts=2,
            ),
            paragraph(f"and {len(self) - _ROWS:,} more") if len(self) > _ROWS else Markup(""),
        )


class RerankError(SecondPassError, RuntimeError):
    """Under ``strict``: not every candidate was scored, or the ordering was not followed.

    Attributes:
        ranking: what would have been returned without ``strict``.
    """

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        report = ranking.report
        issues = "; ".join(f"{issue.code}: {issue.message}" for issue in report.issues)
        # The ranking is not in `args`: tools that log arguments would log passages.
        super().__init__(f"reranking is {report.status_text}, and strict is set: {issues}")

    def __reduce__(self) -> tuple[type[RerankError], tuple[Ranking]]:
        return RerankError, (self.ranking,)


def item_record(item: Ranked, *, text: bool) -> dict[str, Any]:
    """An item as plain values; with ``text`` also its text and metadata."""
    record: dict[str, Any] = {
        "rank": item.rank,
        "id": record_id(item.id),
        "position": item.position,
        "status": item.status,
        "score": retrieval_score(item.candidate),
        "rerank_score": item.rerank_score,
        "final_score": item.final_score,
        "stage_scores": list(item.stage_scores),
        "span": None if item.span is None else list(item.span),
        "probability": item.probability,
    }
    if item.terms is not None:
        record["terms"] = {**item.terms}
    if text:
        record |= {"text": item.text, "metadata": dict(item.candidate.metadata or {})}
    return record


def data_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """A pandas DataFrame of these columns of the rows."""
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("pandas", "to_pandas") from None
    return pandas.DataFrame([[row[name] for name in columns] for row in rows], columns=[*columns])


def _issues(issues: Sequence[Issue]) -> Iterator[str]:
    for issue in issues[:_ISSUES]:
        yield f"{issue.code}: {issue.message}"
    if len(issues) > _ISSUES:
        yield f"and {counted(len(issues) - _ISSUES, 'more issue')}"


def _score(item: Ranked) -> str:
    score = "" if item.final_score is None else f"{item.final_score:.4f}"
    return score if item.status == "scored" else f"{score} ({item.status})".strip()


def _text(item: Ranked) -> Markup:
    return excerpt(item.text, item.span, TEXT_LENGTH) if isinstance(item.text, str) else Markup("")


def _id(item: Ranked) -> str:
    return "" if item.id is None else str(record_id(item.id))
