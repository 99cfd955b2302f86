"""The ranking pass.

::

    candidates -> head (depth) -> method -> reconcile -> blend -> floor -> order -> + tail -> top_k
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.blending import Blend
from secondpass.candidates import kind_of, to_candidates
from secondpass.effects import Method
from secondpass.errors import ConfigurationError, InputError, Problem, SecondPassError
from secondpass.limits import Limits
from secondpass.methods import FALLBACK, METHOD, STAGE, Stage, check_installed, inner, place_of
from secondpass.ordering import CHOSEN_ORDERING, ORDERING, Ordering, to_ordering
from secondpass.ranking_pass import CallSettings, RankingPass
from secondpass.rendering import Rendering
from secondpass.runtime import drivers
from secondpass.runtime.gate import Gate
from secondpass.runtime.ledger import Ledger
from secondpass.runtime.scheduler import Pass
from secondpass.settings import configurable, nested
from secondpass.types import CandidateLike, Ranking, Request

if TYPE_CHECKING:
    from annotated_types import Ge

logger = logging.getLogger("secondpass")

_speaker: ContextVar[logging.Logger] = ContextVar("secondpass_logger", default=logger)


@contextmanager
def speaking_as(name: str) -> Iterator[None]:
    """Log under another name within, for frameworks whose handlers hear names of their own only."""
    token = _speaker.set(logging.getLogger(name))
    try:
        yield
    finally:
        _speaker.reset(token)


_OF_THE_INPUT = {"no_text", "field_missing", "original_missing", "original_out_of_range"}
"""Issues that tell of the candidates, and would come again with every query for them."""

_RECOVERED = {"asked_again", "batch_failed"}
"""Issues that cost nothing but time where the report is ok."""

_SIDE_BY_SIDE = 64
"""Passes of ``rerank_many`` that are under way at a time: bounds memory, still fills batches."""


@configurable
class Reranker:
    """Puts the best candidates first, loses none, and says what it did.

    Args:
        method: judges the candidates: a scorer, a registered name, or a mapping with a ``type``.
        depth: how many of the candidates are judged; the rest are the tail. None judges all.
        blend: mixes the retriever's score into the final score; None takes the method's alone.
        floor: scored candidates whose final score is lower are dropped.
        order: moves items after they are ranked: a function, a name (one of those in ``orders``
            included), or a mapping with a ``type``.
        orders: orderings by names of your own, to choose one with a call (``order="learn"``).
        fallback: methods to try in turn when ``method`` has judged nothing; one may be named alone.
        render: what of a candidate the method is shown; None shows its text.
        limits: what one ranking may take; None sets no limit.
        top_k: how many items are returned; None returns all.
        tail: ``keep`` puts the tail behind the head, ``drop`` leaves it out.
        dedupe: of candidates with the same id, keep the one that was retrieved with the best score.
        candidate_multiplier: ask the retriever for this many times ``top_k``
            (:meth:`candidates_needed`).
        strict: raise :class:`~secondpass.errors.RerankError` unless every candidate of the head
            that has something to show was scored, by the method or by a fallback.
        log_level: at which faults are logged, once a ranking. Where the ranking is ok in spite of
            them, because a question was asked again say, that is ``debug``.

    Raises:
        ConfigurationError: a setting is wrong, or two do not go together.
        MissingExtraError: neither the method nor any fallback has the packages it needs.

    A reranker may be used from many threads and event loops at once.
    """

    def __init__(
        self,
        method: Annotated[Any, METHOD],
        *,
        depth: Annotated[int, Ge(1)] | None = 100,
        blend: Annotated[Blend | None, nested(Blend, optional=True)] = None,
        floor: float | None = None,
        order: Annotated[Ordering | str | None, CHOSEN_ORDERING] = None,
        orders: Mapping[str, Annotated[Ordering | None, ORDERING]] | None = None,
        fallback: Annotated[Sequence[Annotated[Any, STAGE]], FALLBACK] = (),
        render: Annotated[Rendering | None, nested(Rendering, optional=True)] = None,
        limits: Annotated[Limits | None, nested(Limits, optional=True)] = None,
        top_k: Annotated[int, Ge(1)] | None = None,
        tail: Literal["keep", "drop"] = "keep",
        dedupe: bool = False,
        candidate_multiplier: Annotated[int, Ge(1)] | None = None,
        strict: bool = False,
        log_level: Literal["debug", "info", "warning", "error"] = "warning",
    ) -> None:
        self.method: Method = method
        self.depth = depth
        self.blend = blend
        self.floor = floor
        self.orders = orders
        self.order = _chosen(order, orders)
        # Of an ordering in `orders`; it is what a configuration holds.
        self._order_name = order if isinstance(order, str) and order in (orders or {}) else None
        self.fallback: tuple[Stage, ...] = tuple(fallback)
        self.render = render or Rendering()
        self.limits = limits or Limits()
        self.top_k = top_k
        self.tail = tail
        self.dedupe = dedupe
        self.candidate_multiplier = candidate_multiplier
        self.strict = strict
        self.log_level = log_level
        self._gate = Gate(self.limits.concurrency)
        self._stages = (Stage(self.method, blend=blend, floor=floor), *self.fallback)
        if self.limits.cost is not None:
            _check_prices(self._stages)
        missing = [check_installed(stage.method) for stage in self._stages]
        if missing[0] is not None and all(missing):
            raise missing[0]

    # ------------------------------------------------------------------ configuration

    @staticmethod
    def _place_elsewhere(name: str, settings: Mapping[str, Any]) -> str | None:
        return place_of(settings.get("method"), name)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | str | PathLike[str]) -> Reranker:
        """A reranker from a mapping or the path of a YAML file.

        Raises:
            ConfigurationError: telling what is wrong, where, and what would be right.
        """
        from secondpass.config import load

        return load(config)

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> Reranker:
        """A reranker from a named preset; mappings in ``overrides`` are merged into the preset's.

        Raises:
            ConfigurationError: no such preset, or a wrong override.
        """
        from secondpass.config import load, preset

        return load(preset(name, **overrides))

    def to_config(self) -> dict[str, Any]:
        """The mapping that :meth:`from_config` makes this reranker from; defaults are left out.

        Raises:
            NotSerializableError: the method or the ordering has no registered name.
        """
        from secondpass.config import dump

        return dump(self)

    # ------------------------------------------------------------------ ranking

    def rerank(
        self,
        query: str,
        candidates: Iterable[CandidateLike],
        *,
        top_k: int | None = None,
        depth: int | None = None,
        order: Ordering | Mapping[str, Any] | str | None = None,
        context: Any = None,
        dedupe: bool | None = None,
        floor: float | None = None,
    ) -> Ranking:
        """Rank candidates for a query.

        Args:
            query: what was searched for.
            candidates: strings, mappings or Candidates, in the retriever's order.
            top_k: how many to return, instead of the configured number.
            depth: how many to judge, instead of the configured number.
            order: an ordering instead of the configured one: as there, or one of the names in
                ``orders``; ``"none"`` for none.
            context: anything the method wants to know about this query.
            dedupe: whether to keep only the best of each id, instead of the configured choice.
            floor: instead of that of the method; a fallback keeps its own.

        Returns:
            Every candidate once, best first, but for what ``top_k``, a floor, a dropped tail or
            dedupe leave out; the report names those.

        Raises:
            InputError: an argument is of the wrong kind; the message names it.
            RerankError: under ``strict``, when a candidate of the head could not be scored.
        """
        request = Request(query, candidates, context)  # type: ignore[arg-type]
        call = CallSettings(self, top_k, depth, order, dedupe=dedupe, floor=floor)
        return self._tell(drivers.run([self._pass(request, call)]))[0]

    async def arerank(
        self,
        query: str,
        candidates: Iterable[CandidateLike],
        *,
        top_k: int | None = None,
        depth: int | None = None,
        order: Ordering | Mapping[str, Any] | str | None = None,
        context: Any = None,
        dedupe: bool | None = None,
        floor: float | None = None,
    ) -> Ranking:
        """:meth:`rerank` for event loops: whatever blocks does so in a worker thread."""
        request = Request(query, candidates, context)  # type: ignore[arg-type]
        call = CallSettings(self, top_k, depth, order, dedupe=dedupe, floor=floor)
        return self._tell(await drivers.arun([self._pass(request, call)]))[0]

    def rerank_many(
        self,
        requests: Iterable[Request | tuple[str, Sequence[CandidateLike]]],
        *,
        top_k: int | None = None,
        depth: int | None = None,
        order: Ordering | Mapping[str, Any] | str | None = None,
        dedupe: bool | None = None,
        floor: float | None = None,
    ) -> list[Ranking]:
        """Rank for many queries; scorers that can do so fill their batches across them.

        Args:
            requests: ``(query, candidates)`` or ``(query, candidates, context)`` each.
            top_k: as in :meth:`rerank`, for all.
            depth: likewise.
            order: likewise.
            dedupe: likewise.
            floor: likewise.

        Returns:
            One ranking per request, in their order, each as :meth:`rerank` would give it. The clock
            of each starts with its first call. From then on its waits for a turn count: give room
            (``limits.concurrency``) or time where a ranking asks several times.

        Raises:
            InputError: naming the request and what is wrong with it.
            RerankError: under ``strict``, for the first request that has a fault.
        """
        call = CallSettings(self, top_k, depth, order, dedupe=dedupe, floor=floor)
        rankings: list[Ranking] = []
        for wave in self._waves(requests, call):
            rankings.extend(self._tell(drivers.run(wave)))
        return rankings

    async def arerank_many(
        self,
        requests: Iterable[Request | tuple[str, Sequence[CandidateLike]]],
        *,
        top_k: int | None = None,
        depth: int | None = None,
        order: Ordering | Mapping[str, Any] | str | None = None,
        dedupe: bool | None = None,
        floor: float | None = None,
    ) -> list[Ranking]:
        """:meth:`rerank_many` for event loops."""
        call = CallSettings(self, top_k, depth, order, dedupe=dedupe, floor=floor)
        rankings: list[Ranking] = []
        for wave in self._waves(requests, call):
            rankings.extend(self._tell(await drivers.arun(wave)))
        return rankings

    def candidates_needed(
        self, top_k: int | None = None, *, depth: int | None = None
    ) -> int | None:
        """How many candidates to ask the retriever for.

        ``top_k`` times ``candidate_multiplier`` where that is set, else as many as are judged (but
        no fewer than are returned); None when neither bounds it.

        Args:
            top_k: how many are to be returned, instead of the configured number.
            depth: how many are to be judged, instead of the configured number.

        Raises:
            InputError: an argument is no whole number of 1 or more.
        """
        call = CallSettings(self, top_k, depth, None)
        if call.top_k is not None and self.candidate_multiplier is not None:
            return call.top_k * self.candidate_multiplier
        return (
            call.depth if call.top_k is None or call.depth is None else max(call.top_k, call.depth)
        )

    # ------------------------------------------------------------------ life

    def warm_up(self) -> None:
        """Load the models, so that the first ranking need not.

        Fallbacks are loaded only if the method cannot be.

        Raises:
            ModelLoadError | MissingExtraError: neither the method nor a fallback can be loaded.
        """
        first: Exception | None = None
        for method in (stage.method for stage in self._stages):
            warm_up = getattr(inner(method), "warm_up", None)
            try:
                if warm_up is not None:
                    warm_up()
                return
            except Exception as error:
                told = error if isinstance(error, SecondPassError) else type(error).__name__
                self._log("warming up %s failed: %s", method.name, told)
                first = first or error
        if first is not None:
            raise first

    async def awarm_up(self) -> None:
        """:meth:`warm_up` in a thread, which is left behind if this is cancelled."""
        from secondpass.concurrency.threads import in_thread

        await in_thread(self.warm_up)

    def close(self) -> None:
        """Let go of models and connections. The reranker can be used again and reloads them."""
        for stage in self._stages:
            close = getattr(inner(stage.method), "close", None)
            if close is not None:
                close()

    async def aclose(self) -> None:
        """:meth:`close` in a thread, which is left behind if this is cancelled."""
        from secondpass.concurrency.threads import in_thread

        await in_thread(self.close)

    def __copy__(self) -> Reranker:
        return self  # it keeps nothing of its calls, so a copy could do nothing that this cannot

    def __deepcopy__(self, memo: dict[int, Any]) -> Reranker:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Locks and loaded models cannot pass to another process; what they are made from can.
        return Reranker.from_config, (self.to_config(),)

    def __repr__(self) -> str:
        return f"<Reranker {self.method.name!r}, depth {self.depth}>"

    # ------------------------------------------------------------------ one pass

    def _pass(self, request: Request, call: CallSettings) -> Pass[Ranking]:
        ledger = Ledger(self.limits)
        query, given, context = request
        if not isinstance(query, str):
            raise InputError(f"query: give a string, not {kind_of(query)}")
        candidates = to_candidates(given, text_needed=self.render.needs_text)
        stages = self._stages
        if call.floor is not None:
            stages = (replace(stages[0], floor=call.floor), *stages[1:])
        plan = RankingPass(self, stages, call, query, candidates, context, ledger).plan()
        return Pass(plan, ledger, self._gate)

    def _waves(
        self,
        requests: Iterable[Request | tuple[str, Sequence[CandidateLike]]],
        call: CallSettings,
    ) -> Iterator[list[Pass[Ranking]]]:
        """Passes of the requests, as many at a time as are run side by side."""
        if isinstance(requests, str | Mapping) or not isinstance(requests, Iterable):
            raise InputError(f"requests: give (query, candidates) pairs, not {kind_of(requests)}")
        wave: list[Pass[Ranking]] = []
        for number, one in enumerate(requests):
            if not isinstance(one, Sequence) or isinstance(one, str) or len(one) not in {2, 3}:
                told = f"give (query, candidates), not {kind_of(one)}"
                raise InputError(f"requests[{number}]: {told}")
            try:
                wave.append(self._pass(Request(*one), call))
            except InputError as error:
                raise InputError(f"requests[{number}].{error}") from None
            if len(wave) == _SIDE_BY_SIDE:
                yield wave
                wave = []
        if wave:
            yield wave

    def _tell(self, rankings: list[Ranking]) -> list[Ranking]:
        """Log the faults that rankings met."""
        for ranking in rankings:
            faults = [issue for issue in ranking.report.issues if issue.code not in _OF_THE_INPUT]
            if faults:
                told = "; ".join(f"{issue.code}: {issue.message}" for issue in faults)
                status = ranking.report.status
                harmless = status == "ok" and all(issue.code in _RECOVERED for issue in faults)
                level = "debug" if harmless else self.log_level
                self._log("reranking is %s: %s", status, told, level=level)
        return rankings

    def _log(self, message: str, *values: object, level: str | None = None) -> None:
        number = logging.getLevelNamesMapping()[(level or self.log_level).upper()]
        _speaker.get().log(number, message, *values)


def _chosen(
    order: Ordering | str | None, orders: Mapping[str, Ordering | None] | None
) -> Ordering | None:
    """The ordering itself, where its name was given.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if not isinstance(order, str):
        return order
    try:
        return to_ordering(order, orders)
    except ConfigurationError as error:
        raise ConfigurationError([p.under(("order",)) for p in error.problems]) from None


def _check_prices(stages: Sequence[Stage]) -> None:
    """Refuse a limit of cost that could not be kept."""
    for stage in stages:
        for llm in getattr(stage.method, "language_models", ()):
            if getattr(llm, "prices", None) is None:
                told = f"cannot be kept without the prices of {llm.name!r}: give its llm 'prices'"
                raise ConfigurationError([Problem(("limits", "cost"), told)])
