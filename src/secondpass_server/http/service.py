"""Ranks the texts of requests with the served rerankers."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from secondpass import ConfigurationError, Issue, Ranking, Reranker, RerankError, SecondPassError
from secondpass.adapters.redaction import without_messages
from secondpass.adapters.scores import served_scores
from secondpass.asking.life_cycle import aclose_all
from secondpass.concurrency.threads import retrieve_exception
from secondpass.ranking.diagnostics import log, log_exception, log_issues
from secondpass.ranking.options import CallOptions
from secondpass.settings import suggestion
from secondpass.types import TIMES, Report
from secondpass_server.http.errors import ClientGoneError, IncompleteError, RequestError
from secondpass_server.http.fields import RerankRequest
from secondpass_server.http.settings import ServerSettings
from secondpass_server.http.shapes import Answer, Shape

_T = TypeVar("_T")

DEADLINE_HEADER = "secondpass-deadline"
STRICT_HEADER = "secondpass-strict"
_RETRY_LOADING = 60.0
"""Seconds until loading a model is retried."""
_RETRY_OVERLOADED = "1"
"""``Retry-After`` of a request that was refused because of others: seconds."""
_SHORTEST = 0.001
"""Deadline in seconds of a ranking whose deadline has passed; it returns the input order."""


class Service:
    """The rerankers of a server, by the model names that clients send; the first is the default.

    Attributes:
        ready: whether the models are loaded, those of first methods and not of fallbacks.
        failed: whether one of them could not be loaded; that is tried again.
        draining: whether the server is stopping, so that clients should connect to another one.
    """

    def __init__(self, rerankers: Mapping[str, Reranker], settings: ServerSettings) -> None:
        if not rerankers:
            raise ConfigurationError("give at least one reranker")
        for name in rerankers:
            if not (name.isascii() and name.isprintable() and name.strip() == name and name):
                message = "names of models must be printable ASCII, without space at the ends"
                raise ConfigurationError(message)
        self.rerankers = dict(rerankers)
        self.settings = settings
        self.ready = False
        self.failed = False
        self.draining = False

    async def load(self) -> None:
        """Load all models; failed ones are retried until they are loaded.

        A reranker of which only a fallback can be loaded is not ready, though it ranks.
        """
        waiting = dict(self.rerankers)
        while waiting:
            for name, reranker in list(waiting.items()):
                try:
                    if await reranker.awarm_up():
                        del waiting[name]
                    else:
                        log("error", "only a fallback of the model %r could be loaded", name)
                except Exception as error:
                    known = isinstance(error, SecondPassError)
                    reason = str(error) if known else type(error).__name__
                    log("error", "the model %r could not be loaded: %s", name, reason)
            self.failed = bool(waiting)
            if waiting:
                await asyncio.sleep(_RETRY_LOADING)
        self.ready = True

    async def close(self) -> None:
        await aclose_all(self.rerankers.values())

    def choose(self, name: str | None) -> tuple[str, Reranker]:
        """The reranker that a request names, and its name; by default the first."""
        if name in self.rerankers:
            return name, self.rerankers[name]
        if self.settings.strict_models:
            reason = "model: is required" if name is None else "model: there is none of this name"
            hint = suggestion(name or "", [*self.rerankers])
            raise RequestError(404, f"{reason}{hint}", "model_not_found")
        return next(iter(self.rerankers.items()))

    async def rank(
        self,
        request: RerankRequest,
        shape: Shape,
        headers: Mapping[str, str],
        arrived: float,
        gone: Callable[[], Awaitable[object]],
    ) -> Answer:
        """Rank the texts of a request that ``arrived`` at this ``time.monotonic()``.

        The headers may set a deadline and ``strict``. The ranking is cancelled when
        ``gone`` returns, as it does when the client disconnects.
        """
        model, reranker = self.choose(request.model)
        options: CallOptions = {"top_k": request.top_n, "instruction": request.instruction}
        limits, waited = reranker.limits, time.monotonic() - arrived
        deadline = _shortest(headers, DEADLINE_HEADER, self.settings.deadline, limits.deadline)
        if deadline is not None:
            options["deadline"] = max(deadline - waited, _SHORTEST)
        strict = _strict(headers)
        if strict is not None:
            options["strict"] = strict
        forgiving = self.settings.forgiving if strict is None else not strict
        ranking, complete = await _unless_gone(_ranked(reranker, request, options), gone)
        if not self.settings.issue_messages:
            ranking = without_messages(ranking)
        failed = ranking.trace is not None and ranking.trace.failed
        if not complete or (failed and not forgiving):
            raise _incomplete(ranking, model)
        scores, rule = served_scores(ranking, unit=shape.unit_scores(request))
        report = {"model": model, "scores": rule, **_report(ranking.report, request.unused)}
        return Answer(uuid.uuid4().hex, model, request, ranking, scores, rule, report)


def _shortest(headers: Mapping[str, str], name: str, *configured: float | None) -> float | None:
    """The shortest time of a header and of settings, in seconds; None if there is none."""
    known = [*configured]
    if (text := headers.get(name)) is not None:
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise RequestError(400, f"{name}: give a number of seconds greater than 0")
        known.append(seconds)
    return min((seconds for seconds in known if seconds is not None), default=None)


def _strict(headers: Mapping[str, str]) -> bool | None:
    """Whether a request demands a complete ranking, or takes any; None if it does not say."""
    if (text := headers.get(STRICT_HEADER)) is None:
        return None
    if (value := text.strip().lower()) not in {"true", "false"}:
        raise RequestError(400, f"{STRICT_HEADER}: give true or false")
    return value == "true"


async def _ranked(
    reranker: Reranker, request: RerankRequest, options: CallOptions
) -> tuple[Ranking, bool]:
    """The ranking, and whether it is as complete as ``strict`` demands."""
    try:
        return await reranker.arerank(request.query, request.texts, **options), True
    except RerankError as error:
        log_issues([error.ranking], reranker.log_level)
        return error.ranking, False
    except Exception as error:
        # Such as an exception of an observer; its message may contain texts or keys.
        log_exception(error, "a ranking of the server")
        name = type(error).__name__
        log("error", "a ranking raised %s", name)
        raise RequestError(500, f"ranking raised {name}", "internal_error") from None


async def _unless_gone(work: Awaitable[_T], gone: Callable[[], Awaitable[object]]) -> _T:
    """Await the work; cancel it when the client disconnects."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(retrieve_exception)
    watch = asyncio.ensure_future(gone())
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        task.cancel()
        watch.cancel()


def _incomplete(ranking: Ranking, model: str) -> IncompleteError:
    issues = ranking.report.issues
    codes = [issue.code for issue in issues]
    late = bool(codes) and all(code in {"deadline", "asked_again"} for code in codes)
    reasons = "; ".join(f"{issue.code}: {issue.message}" for issue in issues)
    message = f"reranking failed, the ranking is {ranking.report.status_text}: {reasons}"
    headers = _headers(ranking.report, codes)
    if "overloaded" in codes:
        headers["Retry-After"] = _RETRY_OVERLOADED
    return IncompleteError(504 if late else 503, message, model, ranking, headers=headers)


def _report(report: Report, unused: tuple[str, ...]) -> dict[str, Any]:
    """The report in a response: without ids, engines and unknown usage, and times in µs."""
    issues = [*report.issues]
    if report.beyond_depth:
        message = f"{report.scored_text}; the others follow in the order of the request"
        issues.append(Issue("beyond_depth", message))
    if unused:
        message = f"these fields of the request have no effect: {', '.join(unused)}"
        issues.append(Issue("field_not_used", message))
    record = report.to_dict()
    del record["engines"], record["final"]
    return {
        **record,
        "issues": [
            {"code": issue.code, "message": issue.message, "positions": list(issue.positions)}
            for issue in issues
        ],
        "usage": {name: used for name, used in record["usage"].items() if used is not None},
        "left_out": {reason: len(positions) for reason, positions in report.left_out.items()},
        **{name: round(record[name], 6) for name in TIMES},
    }


def response_headers(answer: Answer) -> dict[str, str]:
    """The report as headers, for APIs whose response has no place for it."""
    return {
        "Secondpass-Model": answer.model,
        "Secondpass-Scores": answer.rule,
        "Secondpass-Usage": ", ".join(f"{k}={v}" for k, v in answer.report["usage"].items()),
        "Secondpass-Seconds": f"{answer.ranking.report.seconds:.6f}",
        **_headers(answer.ranking.report, (issue["code"] for issue in answer.report["issues"])),
    }


def _headers(report: Report, codes: Iterable[str]) -> dict[str, str]:
    skipped = 0 if report.skipped is None else report.skipped.pairs
    documents = report.depth_asked + skipped + report.beyond_depth
    headers = {
        "Secondpass-Status": report.status,
        "Secondpass-Depth": f"{report.depth_done}/{documents}",
        "Secondpass-Waiting-Seconds": f"{report.waiting_seconds:.6f}",
    }
    if report.degraded_by:
        headers["Secondpass-Degraded-By"] = ", ".join(report.degraded_by)
    if names := dict.fromkeys(codes):
        # Custom methods may have codes that headers cannot hold.
        plain = [name if name.isascii() and name.isidentifier() else "other" for name in names]
        headers["Secondpass-Issues"] = ", ".join(plain)
    if report.skipped is not None:
        headers["Secondpass-Skipped"] = str(report.skipped.pairs)
    if report.nothing_relevant:
        headers["Secondpass-Nothing-Relevant"] = "true"
    return headers
