"""The MCP server with the tools rerank, explain and pack."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from secondpass import (
    Candidate,
    ConfigurationError,
    Problem,
    Ranking,
    Reranker,
    RerankError,
    SecondPassError,
    __version__,
)
from secondpass.adapters.redaction import without_messages
from secondpass.asking.life_cycle import aclose_all
from secondpass.ranking.diagnostics import log_exception, log_issues
from secondpass.ranking.options import CallOptions
from secondpass.settings import suggestion
from secondpass.settings.arguments import explained
from secondpass.settings.messages import reworded


class Document(BaseModel):
    """A document with more than its text."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    text: str
    id: str | int | None = Field(None, description="Your identifier of the document.")
    score: float | None = Field(None, description="Score of the search, higher is better.")
    metadata: dict[str, Any] = Field(
        default_factory=dict,
        description="Further fields; `title`, `source` and `url` name sources.",
    )


def _no_boolean(value: Any) -> Any:
    """The value, which pydantic would otherwise read as 0 or 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


Whole = Annotated[int, BeforeValidator(_no_boolean)]
"""A whole number, also as a string of digits, as some models write it."""

Query = Annotated[str, Field(description="The question or search query.")]
Documents = Annotated[
    list[str | Document],
    Field(description="What a search found, in its order: texts, or objects with `text`."),
]
Instruction = Annotated[
    str | None, Field(description="What counts as relevant, such as: prefer recent documents.")
]
Model = Annotated[str | None, Field(description="Which reranker; omit for the default.")]


class Outcome(BaseModel):
    """Whether the documents were really reranked, and why not."""

    reranked: bool = Field(description="Whether documents were scored, and `status` is `ok`.")
    status: str = Field(
        description="`ok`, `partial` (some are not scored), `degraded` (`degraded_by` says why) or "
        "`unchanged` (the order is that of the input)."
    )
    degraded_by: list[str] = Field(
        description="`fallback` (another method gave the order), `language` (query or texts are "
        "not English) or `original` (for another reason: the order of the input has a weight), "
        "`doubtful` (the model may be unfit), `stage` (a part of the method failed)."
    )
    method: str | None = Field(description="What gave the order; null if nothing did.")
    why_not: list[str] = Field(
        description="What went wrong, or was not scored on purpose; empty if nothing was."
    )


class Result(BaseModel):
    """A document in its new place."""

    index: int = Field(description="Index of the document in the request, from 0.")
    id: str | int | None
    rank: int = Field(description="From 1.")
    score: float | None = Field(description="What documents are sorted by; null if not scored.")
    rerank_score: float | None = Field(description="The reranker's own score.")
    status: str = Field(description="`scored`, or why not: `backfilled`, `unjudged`, `tail`.")
    stage_scores: list[float] = Field(
        description="Scores of the stages of a cascade that judged it, first stage first."
    )
    span: list[int] | None = Field(description="Start and stop of the best part, in characters.")
    probability: float | None = Field(description="Of relevance, if the reranker is calibrated.")
    terms: dict[str, float] | None = Field(
        None, description="What else was added to the score, such as recency, by field."
    )
    text: str | None = Field(None, description="The text, if `include_text` is true.")


class Reranked(Outcome):
    """The documents, best first."""

    results: list[Result]
    left_out: dict[str, list[int]] = Field(
        description="Indices of documents that are not among the results, by reason."
    )


class Explained(Outcome):
    """Why a document has its rank."""

    explanation: str
    details: dict[str, Any]


class PackedSource(BaseModel):
    """Where a part of the packed text comes from."""

    number: int = Field(description="Of the passage in the text, from 1.")
    start: int = Field(description="First character of the passage within the text.")
    stop: int
    index: int = Field(description="Index of the document in the request, from 0.")
    id: str | int | None
    rank: int
    score: float | None
    spans: list[list[int]] = Field(
        description="Parts of the document, as start and stop; `[…]` stands between them."
    )
    metadata: dict[str, str]


class PackedText(Outcome):
    """Passages within a budget of tokens, and their sources."""

    text: str
    tokens: int
    sources: list[PackedSource]
    left_out: dict[str, list[int]] = Field(
        description="Indices of documents that are not in the text: no part of them fits "
        "(`tokens`), they are in the text by another document (`repeated`), or have no text "
        "(`no_text`)."
    )


def _outcome(ranking: Ranking) -> dict[str, Any]:
    report = ranking.report
    why_not = [f"{issue.code}: {issue.message}" for issue in report.issues]
    if report.beyond_depth:
        why_not.append(f"beyond_depth: {report.scored_text}")
    if report.skipped is not None:
        why_not.insert(0, f"skipped by `when`: {report.skipped.reason}")
    elif report.status == "ok" and report.method is None:  # as of a single document
        why_not.insert(0, "there was nothing to put into another order")
    return {
        "reranked": report.status == "ok" and report.skipped is None and report.method is not None,
        "status": report.status,
        "degraded_by": [*report.degraded_by],
        "method": report.method,
        "why_not": why_not,
    }


def _results(ranking: Ranking, *, text: bool) -> Iterator[Result]:
    """The items as everywhere; the score is the final one, and the document has an index."""
    for record in ranking.to_dict(text=text)["ranking"]:
        record.pop("metadata", None)  # the client has it
        index, score = record.pop("position"), record.pop("final_score")
        yield Result(**{**record, "index": index, "score": score})


_INSTRUCTIONS = (
    "Use `rerank` to put the results of a search into a better order before you read them, `pack` "
    "to get the best of them within a number of tokens, with sources, and `explain` to learn why "
    "one stands where it stands. `reranked` is false if the order could not be improved; "
    "`why_not` has the reason."
)
_READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True)


@dataclass(frozen=True)
class ToolLimits:
    """Limits of one call of a tool.

    Attributes:
        documents: maximum number of documents.
        characters: maximum number of characters of a document.
        query_characters: maximum number of characters of the query, and of the instruction.
        deadline: seconds for a ranking; None: that of the configuration. At the deadline the best
            order so far is the answer.
        issue_messages: whether clients get the messages of issues, which may name internal
            addresses, variables and paths; otherwise their codes, and the last part of a local
            model's path.
    """

    documents: int = 1000
    characters: int = 200_000
    query_characters: int = 20_000
    deadline: float | None = None
    issue_messages: bool = False


@explained()
def create_server(
    rerankers: Mapping[str, Reranker], limits: ToolLimits | None = None
) -> MCPServer[None]:
    """A server of the Model Context Protocol with the tools `rerank`, `explain` and `pack`.

    Args:
        rerankers: by the names that clients can choose; the first is the default. They are closed
            when the server stops.
        limits: of one call.

    Raises:
        ConfigurationError: there is no reranker.
    """
    if not rerankers:
        raise ConfigurationError("give at least one reranker")
    tools = _Tools(dict(rerankers), limits or ToolLimits())

    @asynccontextmanager
    async def lifespan(_server: Any) -> AsyncIterator[None]:
        loading = asyncio.create_task(tools.load())
        try:
            yield
        finally:
            loading.cancel()
            await aclose_all(tools.rerankers.values())

    # Its warnings may quote what clients send. It sets the level of the root logger, too, at which
    # the loggers of secondpass and of the application must stay.
    sdk_logger = logging.getLogger("mcp")
    if sdk_logger.level == logging.NOTSET:
        sdk_logger.setLevel(logging.ERROR)
    return MCPServer(
        "secondpass",
        instructions=_INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        lifespan=lifespan,
        subscriptions=False,
        tools=[_tool(function) for function in (tools.rerank, tools.explain, tools.pack)],
    )


def _tool(function: Callable[..., Any]) -> Tool:
    """The tool of a function. Errors name wrong and unknown arguments, without their values."""
    tool = _PlainTool.from_function(function, annotations=_READ_ONLY)
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["hide_input_in_errors"] = True
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema(by_alias=True)
    return tool


class _PlainTool(Tool):
    """A tool whose errors about arguments are in plain words."""

    async def run(self, *arguments: Any, **options: Any) -> Any:
        try:
            return await super().run(*arguments, **options)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            problems = "; ".join(_problems(error.__cause__, [*self.parameters["properties"]]))
            raise ToolError(f"Error executing tool {self.name}: {problems}") from None


def _problems(error: ValidationError, names: Sequence[str]) -> Iterator[str]:
    """What is wrong with the arguments, which have these names, without their values."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    for detail in details:
        *place, last = detail["loc"]
        message = reworded(detail["msg"])
        if detail["type"] == "extra_forbidden":
            known = [*Document.model_fields] if place else names
            message = f"is unknown{suggestion(str(last), known)}"
        if last == "str" and place:  # one of the two forms of a document
            continue
        if last == Document.__name__:
            path, message = place, "must be a string, or an object with 'text'"
        else:
            path = [step for step in detail["loc"] if step != Document.__name__]
        yield str(Problem(tuple(path), message))


@dataclass(frozen=True)
class _Tools:
    rerankers: dict[str, Reranker]
    limits: ToolLimits

    async def load(self) -> None:
        """Load the models before the first call; a call reports one that cannot be loaded."""
        for reranker in self.rerankers.values():
            try:
                await reranker.awarm_up()
            except Exception as error:
                log_exception(error, "a model of the MCP server")

    async def rerank(
        self,
        query: Query,
        documents: Documents,
        *,
        top_k: Annotated[
            Annotated[Whole, Field(ge=1)] | None,
            Field(description="Number of results; omit for all."),
        ] = None,
        instruction: Instruction = None,
        include_text: Annotated[
            bool, Field(description="Whether results have the texts, too.")
        ] = False,
        model: Model = None,
    ) -> Reranked:
        """Put documents into the order of their relevance to a query, the best first.

        Give the results of any search. Every document comes back, unless `top_k` or the server's
        threshold leaves it out, which `left_out` tells.
        """
        ranking = await self._ranking(query, documents, top_k, instruction, model)
        return Reranked(
            results=[*_results(ranking, text=include_text)],
            left_out={why: [*positions] for why, positions in ranking.report.left_out.items()},
            **_outcome(ranking),
        )

    async def explain(
        self,
        query: Query,
        documents: Documents,
        index: Annotated[
            Whole, Field(ge=0, description="Index of the document to explain, from 0.")
        ],
        instruction: Instruction = None,
        model: Model = None,
    ) -> Explained:
        """Explain why one document has its rank: how it was retrieved, scored, blended, moved."""
        if index >= len(documents):
            raise ToolError(
                f"index: must be lower than {len(documents):,}, the number of documents"
            )
        ranking = await self._ranking(query, documents, None, instruction, model)
        explanation = ranking.explain(position=index)
        return Explained(
            explanation=str(explanation), details=explanation.to_dict(), **_outcome(ranking)
        )

    async def pack(
        self,
        query: Query,
        documents: Documents,
        tokens: Annotated[
            Whole,
            Field(
                ge=1,
                description="Budget of tokens, by an estimate: about 1.5 times the number for "
                "English text.",
            ),
        ],
        *,
        order: Annotated[
            Literal["best", "document", "lost_in_the_middle"],
            Field(
                description="Of the passages: best first, by document, or the best at both ends."
            ),
        ] = "best",
        instruction: Instruction = None,
        model: Model = None,
    ) -> PackedText:
        """Rerank documents, and return the best of them as one text within a budget of tokens.

        Each passage has a number, and `sources` has where it comes from. Of a document that does
        not fit whole, the best sentences are packed, with `[…]` where text was left out.
        """
        ranking = await self._ranking(query, documents, None, instruction, model)
        # Measuring large texts takes long; in a thread it does not block other calls.
        packed = (await asyncio.to_thread(ranking.pack, tokens, order=order)).to_dict()
        del packed["passages"]  # they are in the text
        sources = [
            PackedSource(index=source.pop("position"), **source) for source in packed.pop("sources")
        ]
        return PackedText(sources=sources, **packed, **_outcome(ranking))

    async def _ranking(
        self,
        query: str,
        documents: Sequence[str | Document],
        top_k: int | None,
        instruction: str | None,
        model: str | None,
    ) -> Ranking:
        """The ranking of the documents; errors have no text of the query or the documents."""
        self._check(query, documents, instruction)
        reranker = self._reranker(model)
        candidates = [
            Candidate(document)
            if isinstance(document, str)
            else Candidate(document.text, document.id, document.score, document.metadata)
            for document in documents
        ]
        options: CallOptions = {"top_k": top_k, "instruction": instruction}
        if self.limits.deadline is not None:
            options["deadline"] = self.limits.deadline
        try:
            ranking = await reranker.arerank(query, candidates, **options)
        except RerankError as error:  # under `strict`; the report has the issues
            log_issues([error.ranking], reranker.log_level)
            ranking = error.ranking
        except SecondPassError as error:
            raise ToolError(str(error)) from None
        except Exception as error:
            log_exception(error, "a tool of the MCP server")
            raise ToolError(f"the reranker raised {type(error).__name__}") from None
        return ranking if self.limits.issue_messages else without_messages(ranking)

    def _check(
        self, query: str, documents: Sequence[str | Document], instruction: str | None
    ) -> None:
        limits = self.limits
        if not query.strip():
            raise ToolError("query: must not be empty")
        for name, text in (("query", query), ("instruction", instruction or "")):
            if len(text) > limits.query_characters:
                raise ToolError(f"{name}: has more than {limits.query_characters:,} characters")
        if len(documents) > limits.documents:
            raise ToolError(f"documents: there are more than {limits.documents:,}")
        for index, document in enumerate(documents):
            text = document if isinstance(document, str) else document.text
            if len(text) > limits.characters:
                message = f"has more than {limits.characters:,} characters"
                raise ToolError(f"documents[{index}]: {message}")

    def _reranker(self, model: str | None) -> Reranker:
        names = [*self.rerankers]
        if model is not None and model not in names:
            raise ToolError(f"model: there is no such reranker{suggestion(model, names)}")
        return self.rerankers[names[0] if model is None else model]
