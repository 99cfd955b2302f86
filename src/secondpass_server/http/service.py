"""Ranks the texts of requests with the served rerankers."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from secondpass import ConfigurationError, Issue, Ranking, Reranker, RerankError, SecondPassError
from secondpass.adapters.shared import served_scores, without_messages
from secondpass.concurrency.threads import retrieve_exception
from secondpass.ranking.shared import CallOptions, log, log_exception, log_issues
from secondpass.settings import suggestion
from secondpass_server.http.errors import (
    ClientGoneError,
    IncompleteError,
    RequestError,
)
from secondpass_server.http.fields import RerankRequest
from secondpass_server.http.settings import ServerSettings
from secondpass_server.http.shapes import Answer, Shape

_T = TypeVar("_T")

DEADLINE_HEADER = "secondpass-deadline"
TARGET_HEADER = "secondpass-target"
STRICT_HEADER = "secondpass-strict"
_RETRY_LOADING = 60.0
"""Seconds until loading a model is retried."""
_RETRY_OVERLOADED = "1"
"""``Retry-After`` of a request that was refused because of others: seconds."""
_SHORTEST = 0.001
"""Deadline in seconds of a ranking whose deadline has passed; it returns the input order."""


class Service:
    """The rerankers of a server.

    Args:
        rerankers: by the model names that clients send; the first is the default.
        settings: of the server.

    Raises:
        ConfigurationError: there is no reranker, or a name is not a line of printable ASCII.

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
                    if not await reranker.awarm_up():
                        log("error", "only a fallback of the model %r could be loaded", name)
                        continue
                except Exception as error:
                    known = isinstance(error, SecondPassError)
                    reason = str(error) if known else type(error).__name__
                    log("error", "the model %r could not be loaded: %s", name, reason)
                else:
                    del waiting[name]
            self.failed = bool(waiting)
            if waiting:
                await asyncio.sleep(_RETRY_LOADING)
        self.ready = True

    async def close(self) -> None:
        """Release all models and connections."""
        for reranker in self.rerankers.values():
            await reranker.aclose()

    def choose(self, name: str | None) -> tuple[str, Reranker]:
        """The reranker that a request names, and its name.

        Raises:
            RequestError: no reranker has that name, and ``strict_models`` is set.
        """
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
        """Rank the texts of a request; the ranking is cancelled if the client disconnects.

        Args:
            request: the parsed request.
            shape: the API, which determines the range of scores.
            headers: of the request, which may set a deadline, a target and ``strict``.
            arrived: ``time.monotonic()`` when the request arrived.
            gone: returns when the client has disconnected.

        Raises:
            RequestError: a header is not valid, or no reranker has the name.
            IncompleteError: every method failed, unless the request or the server is forgiving; or
                the request is strict, and the ranking not complete.
            ClientGoneError: the client has disconnected.
        """
        model, reranker = self.choose(request.model)
        options: CallOptions = {"top_k": request.top_n, "instruction": request.instruction}
        deadline = self._deadline(headers, reranker)
        if deadline is not None:
            options["deadline"] = max(deadline - (time.monotonic() - arrived), _SHORTEST)
        target = _shortest(headers, TARGET_HEADER, reranker.limits.target)
        if target is not None:
            options["target"] = max(target - (time.monotonic() - arrived), _SHORTEST)
        strict = _strict(headers)
        if strict is not None:
            options["strict"] = strict
        forgiving = self.settings.forgiving if strict is None else not strict
        work = _ranked(reranker, request, options)
        ranking, complete = await _unless_gone(work, gone)
        if not self.settings.issue_messages:
            ranking = without_messages(ranking)
        failed = ranking.trace is not None and ranking.trace.failed
        if not complete or (failed and not forgiving):
            raise incomplete(ranking, model)
        scores, rule = served_scores(ranking, unit=shape.unit_scores(request))
        report = report_of(ranking, model, rule, _unused(request))
        return Answer(uuid.uuid4().hex, model, request, ranking, scores, rule, report)

    def _deadline(self, headers: Mapping[str, str], reranker: Reranker) -> float | None:
        """The shortest deadline of the server, the reranker and the client, in seconds."""
        configured = [self.settings.deadline, reranker.limits.deadline]
        return _shortest(headers, DEADLINE_HEADER, *configured)


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
    """What a request demands: only a complete ranking, any ranking, or one that did not fail."""
    text = headers.get(STRICT_HEADER)
    if text is None:
        return None
    if text.strip().lower() not in {"true", "false"}:
        raise RequestError(400, f"{STRICT_HEADER}: give true or false")
    return text.strip().lower() == "true"


async def _ranked(
    reranker: Reranker, request: RerankRequest, options: CallOptions
) -> tuple[Ranking, bool]:
    """The ranking, and whether it is as complete as ``strict`` demands."""
    try:
        return await reranker.arerank(request.query, request.texts, **options), True
    except RerankError as error:
        log_issues([error.ranking.report], reranker.log_level)
        return error.ranking, False
    except Exception as error:
        # Such as an exception of an observer; its message may contain texts or keys.
        log_exception(error, "a ranking of the server")
        log("error", "a ranking raised %s", type(error).__name__)
        message = f"ranking raised {type(error).__name__}"
        raise RequestError(500, message, "internal_error") from None


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


def incomplete(ranking: Ranking, model: str) -> IncompleteError:
    """The error of a ranking that failed, or is not complete though that is demanded.

    Args:
        ranking: the ranking.
        model: name of the reranker.
    """
    issues = ranking.report.issues
    codes = [issue.code for issue in issues]
    late = bool(codes) and all(code in {"deadline", "asked_again"} for code in codes)
    reasons = "; ".join(f"{issue.code}: {issue.message}" for issue in issues)
    message = f"reranking failed, the ranking is {ranking.report.status}: {reasons}"
    headers = _head(ranking)
    if "overloaded" in codes:
        headers["Retry-After"] = _RETRY_OVERLOADED
    return IncompleteError(504 if late else 503, message, model, ranking, headers=headers)


def _unused(request: RerankRequest) -> tuple[Issue, ...]:
    if not request.unused:
        return ()
    names = ", ".join(request.unused)
    message = f"these fields of the request have no effect: {names}"
    return (Issue("field_not_used", message),)


def report_of(
    ranking: Ranking, model: str, rule: str, further: tuple[Issue, ...] = ()
) -> dict[str, Any]:
    """The report of a ranking in a response, ready for JSON.

    Args:
        ranking: the ranking.
        model: name of the reranker.
        rule: how scores were computed; see :data:`~secondpass.adapters.scores.ScoreRule`.
        further: issues that the ranking's report does not have.
    """
    report = ranking.report
    usage = report.usage
    known = {
        "calls": usage.calls,
        "rounds": usage.rounds,
        "pairs": usage.pairs,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "units": usage.units,
        "cost": usage.cost,
        "retries": usage.retries,
        "repairs": usage.repairs,
        "cached": usage.cached,
    }
    return {
        "status": report.status,
        "model": model,
        "method": report.method,
        "score_kind": report.score_kind,
        "scores": rule,
        "issues": [
            {"code": issue.code, "message": issue.message, "positions": list(issue.positions)}
            for issue in (*report.issues, *further)
        ],
        "usage": {name: value for name, value in known.items() if value is not None},
        "seconds": round(report.seconds, 6),
        "depth_asked": report.depth_asked,
        "depth_done": report.depth_done,
        "waiting_seconds": round(report.waiting_seconds, 6),
        "calling_seconds": round(report.calling_seconds, 6),
        "left_out": {reason: len(positions) for reason, positions in report.left_out.items()},
        "skipped": None if report.skipped is None else asdict(report.skipped),
        "nothing_relevant": report.nothing_relevant,
        "threshold": None if report.threshold is None else asdict(report.threshold),
    }


def response_headers(answer: Answer) -> dict[str, str]:
    """The report as headers, for APIs whose response has no place for it."""
    usage = answer.report["usage"]
    codes = list(dict.fromkeys(issue["code"] for issue in answer.report["issues"]))
    return {
        "Secondpass-Model": answer.model,
        "Secondpass-Scores": answer.rule,
        "Secondpass-Usage": ", ".join(f"{name}={value}" for name, value in usage.items()),
        "Secondpass-Seconds": f"{answer.ranking.report.seconds:.6f}",
        **_head(answer.ranking, codes),
    }


def _head(ranking: Ranking, codes: list[str] | None = None) -> dict[str, str]:
    report = ranking.report
    if codes is None:
        codes = list(dict.fromkeys(issue.code for issue in report.issues))
    # Custom methods may have codes that headers cannot hold.
    plain = [code if code.isascii() and code.isidentifier() else "other" for code in codes]
    issues = {"Secondpass-Issues": ", ".join(plain)} if plain else {}
    skipped = {} if report.skipped is None else {"Secondpass-Skipped": str(report.skipped.pairs)}
    nothing = {"Secondpass-Nothing-Relevant": "true"} if report.nothing_relevant else {}
    load = {
        "Secondpass-Depth": f"{report.depth_done}/{report.depth_asked}",
        "Secondpass-Waiting-Seconds": f"{report.waiting_seconds:.6f}",
    }
    return {"Secondpass-Status": report.status, **load, **issues, **skipped, **nothing}
