"""The :class:`Reranker`: settings, entry points and life cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing, contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from os import PathLike
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    Self,
    Unpack,
    cast,
)

from secondpass.asking import drivers
from secondpass.asking.gate import Gate
from secondpass.asking.life_cycle import (
    check_cache,
    check_packages,
    check_prices,
    close_all,
    has_storable,
    warm_up_first,
    warm_up_orderings,
)
from secondpass.asking.response_cache import RESPONSE_CACHE, ResponseCache
from secondpass.asking.scheduler import Pass
from secondpass.attributes import unknown_attribute
from secondpass.built_in import KINDS
from secondpass.concurrency.callbacks import check_callback
from secondpass.effects import Method, Task
from secondpass.errors import ConfigurationError, NotSerializableError, Problem, StoreError
from secondpass.limits import LIMITS, Limits
from secondpass.questions import Scorer
from secondpass.ranking.blending import BLEND, Blend
from secondpass.ranking.candidates import (
    CheckedRequest,
    to_candidates,
    to_request,
    to_requests,
)
from secondpass.ranking.cost_plan import CostPlan
from secondpass.ranking.diagnostics import log_exception
from secondpass.ranking.fits import check_fits
from secondpass.ranking.floors import FLOOR, PROBABILITIES, Floor, Probabilities
from secondpass.ranking.ledger import Ledger
from secondpass.ranking.methods import METHOD, inner
from secondpass.ranking.options import (
    ONE_REQUEST,
    REQUESTS,
    WITH_LISTENER,
    CallOptions,
    PassSettings,
    show_call_options,
)
from secondpass.ranking.ordering import CHOSEN_ORDERING, ORDERING, Ordering, chosen_ordering
from secondpass.ranking.ranking_pass import RankingPass
from secondpass.ranking.rendering import RENDERING, Rendering
from secondpass.ranking.result import Ranking
from secondpass.ranking.stages import FALLBACK, STAGE, Stage
from secondpass.ranking.terms import TERMS, Term
from secondpass.ranking.when import WHEN, When
from secondpass.ranking.windows import PASSAGES, Passages
from secondpass.settings import (
    built,
    configurable,
    keep_sources_of,
    not_serializable,
    parameters_of,
    registry,
    to_mapping,
    use_key_hint,
)
from secondpass.settings.arguments import explained
from secondpass.types import CandidateLike, RequestLike, Stored

if TYPE_CHECKING:
    from annotated_types import Ge

    from secondpass.asking.expected_use import Expected
    from secondpass.reranker_settings import ChangeableSettings, PresetName, RerankerSettings

registry.add_built_in(KINDS)


@configurable
class Reranker:
    """Reranks candidates: the best first, none lost. Safe to use from many threads and event loops.

    The settings are attributes that cannot be changed. :meth:`changed` makes another reranker.

    Args:
        method: judges the candidates: a scorer, a registered name, or a mapping with a ``type``.
        depth: number of candidates to judge; the rest are the tail. None judges all.
        blend: mixes the retriever's score into the final score; None uses the method's alone.
        floor: threshold on the method's score, with a blend by ``none`` or ``sigmoid`` on the final
            score, or a Floor; scored candidates below it are dropped. Not for scores that are
            ranks.
        probabilities: maps rerank scores to probabilities of relevance.
        terms: what else counts, such as the age of a candidate, added to the scores.
        order: moves items after they are ranked: a function, a name, or a mapping with a ``type``.
        orders: further orderings by name, to choose one per call (``order="learn"``).
        when: conditions under which the pass runs; None runs it for every query.
        fallback: methods to try in turn if ``method`` judged nothing; or the name of a single one.
        render: which fields of a candidate the method is shown, and how; None shows its text.
        passages: how long texts are judged; None shows them to the method whole.
        limits: of the time, calls, tokens and cost of one ranking; None sets no limit.
        cache: stores the answers of language models and rerank APIs: a path, or a mapping.
        top_k: number of items to return; None returns all.
        tail: ``keep`` returns the tail after the head, ``drop`` leaves it out.
        dedupe: of candidates with the same id, keep the one with the highest retrieval score.
        candidate_multiplier: candidates to retrieve per item returned (:meth:`candidates_needed`).
        strict: raise RerankError unless each candidate of the head that can be shown was scored, by
            a model that is not doubtful.
        log_level: level at which the issues of a ranking are logged; ``debug`` if it is ok and all
            of them were overcome, such as ``asked_again``.

    Raises:
        ConfigurationError: a setting is wrong, or two settings exclude each other.
        MissingExtraError: neither the method nor any fallback has the packages it needs.

    Example:
        >>> from secondpass import Reranker
        >>> reranker = Reranker("lexical", top_k=2)
        >>> texts = ["Cats sleep a lot.", "Owls hunt at night.", "An owl has keen ears."]
        >>> [item.text for item in reranker.rerank("When do owls hunt?", texts)]
        ['Owls hunt at night.', 'Cats sleep a lot.']
        >>> strict = reranker.changed(strict=True, limits={"deadline": 2})
    """

    def __init__(
        self,
        method: Annotated[Scorer | Method | Mapping[str, Any] | str, METHOD],
        *,
        depth: Annotated[int, Ge(1)] | None = 100,
        blend: Annotated[Blend | Mapping[str, Any] | None, BLEND] = None,
        floor: Annotated[Floor | Mapping[str, Any] | float | None, FLOOR] = None,
        probabilities: Annotated[Probabilities | Mapping[str, Any] | None, PROBABILITIES] = None,
        terms: Annotated[Sequence[Term | Mapping[str, Any]], TERMS] = (),
        order: Annotated[Ordering | Mapping[str, Any] | str | None, CHOSEN_ORDERING] = None,
        orders: Mapping[str, Annotated[Ordering | Mapping[str, Any] | str | None, ORDERING]]
        | None = None,
        when: Annotated[When | Mapping[str, Any] | None, WHEN] = None,
        fallback: Annotated[
            Sequence[Annotated[Scorer | Method | Mapping[str, Any] | str, STAGE]], FALLBACK
        ] = (),
        render: Annotated[Rendering | Mapping[str, Any] | None, RENDERING] = None,
        passages: Annotated[Passages | Mapping[str, Any] | None, PASSAGES] = None,
        limits: Annotated[Limits | Mapping[str, Any] | None, LIMITS] = None,
        cache: Annotated[
            ResponseCache | Mapping[str, Any] | PathLike[str] | str | None, RESPONSE_CACHE
        ] = None,
        top_k: Annotated[int, Ge(1)] | None = None,
        tail: Literal["keep", "drop"] = "keep",
        dedupe: bool = False,
        candidate_multiplier: Annotated[int, Ge(1)] | None = None,
        strict: bool = False,
        log_level: Literal["debug", "info", "warning", "error"] = "warning",
    ) -> None:
        # Type checkers reject assignments to what is Final; at run time they are an error.
        self.method: Final = cast("Method", method)
        self.depth: Final = depth
        self.blend: Final = built(blend)
        self.floor: Final = built(floor)
        self.probabilities: Final = built(probabilities)
        self.terms: Final = cast("tuple[Term, ...]", terms)
        named = cast("Mapping[str, Ordering | None] | None", orders)
        self.orders: Final = None if named is None else MappingProxyType(named)
        self.order: Final = chosen_ordering(built(order), named)
        self._order_name = order if isinstance(order, str) and order in (named or {}) else None
        self.when: Final = built(when)
        self.cache: Final = cast("ResponseCache | None", cache)
        self.fallback: Final = cast("tuple[Stage, ...]", tuple(fallback))
        self.render: Final = built(render) or Rendering()
        self.passages: Final = built(passages)
        self.limits: Final = built(limits) or Limits()
        self.top_k: Final = top_k
        self.tail: Final = tail
        self.dedupe: Final = dedupe
        self.strict: Final = strict
        self.candidate_multiplier: Final = candidate_multiplier
        self.log_level: Final = log_level
        self._stages = (
            Stage(self.method, self.blend, self.floor, self.probabilities),
            *self.fallback,
        )
        check_fits(self._stages, depth, self.render, self.passages)
        self._methods: list[Method] = [stage.method for stage in self._stages]
        if self.limits.cost is not None:
            check_prices(self._methods)
        if cache is not None:
            check_cache(self._methods)
        shared: Gate | None = vars(self).get("_gate")  # by changed(), whose methods are checked
        if shared is None:
            check_packages(self._methods, log_level)
        width = self.limits.concurrency
        self._gate = shared if shared is not None and shared.width == width else Gate(width)

    _EXAMPLES = MappingProxyType({"method": "embedded"})

    @staticmethod
    def _instead_of_setting(name: str) -> str:
        if name in _METHODS:
            return "create another Reranker"
        option = f"pass {name}= to a call, or " if name in CallOptions.__annotations__ else ""
        return f"{option}use reranker.changed({name}=…)"

    @classmethod
    @explained()
    def from_config(cls, config: Mapping[str, Any] | str | PathLike[str]) -> Self:
        """Create a reranker from a mapping or the path of a YAML file.

        Raises:
            ConfigurationError: a setting is wrong; the message says where.

        Example:
            >>> Reranker.from_config({"method": {"type": "lexical", "b": 0.5}, "depth": 50})
            <Reranker 'lexical', depth 50>
        """
        from secondpass.settings.loading import load

        return load(cls, config)

    @classmethod
    @explained()
    def from_preset(cls, name: PresetName | str, **overrides: Unpack[RerankerSettings]) -> Self:
        """Create a reranker from a preset and settings of the constructor, which come first.

        A mapping is merged into that of the preset.

        Raises:
            ConfigurationError: the preset does not exist, or an override is wrong.

        Example:
            >>> Reranker.from_preset("lexical", depth=50, top_k=3)
            <Reranker 'lexical', depth 50>
        """
        from secondpass.settings.loading import hints_of_preset, preset

        config = preset(name, **overrides)
        try:
            return cls.from_config(config)
        except ConfigurationError as error:
            written = {**overrides, "preset": name}
            problems = hints_of_preset(error.problems, written, config["method"])
            raise ConfigurationError(problems, error.about) from None

    @explained()
    def changed(self, **settings: Unpack[ChangeableSettings]) -> Self:
        """Return a reranker with other settings and the same methods.

        They share the models and connections, so :meth:`close` of one closes them for both; the
        next ranking of either opens them again. They also share the slots of
        ``limits.concurrency``, unless that is changed.

        Args:
            settings: those of the constructor except ``method`` and ``fallback``. A value replaces
                the present one; a mapping is not merged into it.

        Raises:
            ConfigurationError: a setting is unknown, wrong, or does not fit the others.
        """
        if problems := [
            Problem((name,), "cannot be changed; create another Reranker")
            for name in sorted(_METHODS & settings.keys())
        ]:
            raise ConfigurationError(problems, type(self).__name__)
        made = object.__new__(type(self))
        vars(made).update(self._added_attributes(), _gate=self._gate)
        current = {name: getattr(self, name) for name in parameters_of(Reranker)}
        current |= {"order": self._order_name or self.order, **settings}
        Reranker.__init__(made, **current)
        keep_sources_of(self, made, settings)
        return made

    def to_config(self) -> dict[str, Any]:
        """Return the mapping that :meth:`from_config` accepts, without defaults.

        What came from an environment variable is written as its name.

        Raises:
            NotSerializableError: the method or the ordering has no registered name, or a setting
                holds a key.
        """
        if type(self).__init__ is not Reranker.__init__:
            raise not_serializable(self, "reranker")
        from secondpass.settings.environment import Variable, by_name
        from secondpass.settings.keys import check_written

        try:
            settings = to_mapping(self, registry.dump_part)
        except NotSerializableError as error:
            raise NotSerializableError(error.problems, "to_config") from None
        if self._order_name is not None and not isinstance(settings.get("order"), Variable):
            settings["order"] = self._order_name
        written: dict[str, Any] = by_name(settings)
        check_written(written, "to_config")
        return written

    @show_call_options
    def rerank(
        self,
        query: str,
        candidates: Iterable[CandidateLike],
        *,
        context: Any = None,
        on_interim: Callable[[Ranking], None] | None = None,
        **options: Unpack[CallOptions],
    ) -> Ranking:
        """Rank candidates for a query.

        ``top_k`` and other options replace the settings of that name in this call; None keeps the
        setting.

        Args:
            query: the search query.
            candidates: strings, mappings, Candidates, or documents of Haystack, LlamaIndex or
                LangChain (objects with ``text``, ``page_content`` or ``content``), in the
                retriever's order.
            context: further information about this query, for prompts of language models and your
                own methods; other methods do not read it.
            on_interim: called with the interim rankings of :meth:`astream`, in this thread.
            top_k: number of items to return, at least 1.
            depth: number of candidates to judge, at least 1.
            order: a function, a mapping with a ``type``, or a name, which may be one of those in
                ``orders``; ``"none"`` applies no ordering.
            dedupe: whether to keep only the best candidate of each id.
            floor: threshold that replaces that of the method, on the same score as that or a
                configured one would be; fallbacks keep theirs. Not for scores that are ranks.
            instruction: what counts as relevant in this call, such as ``"prefer recent
                documents"``. It is added to the prompt of the configuration, without white space
                around it; an empty one has no effect. The report lists ``instruction_not_used``
                if the method takes none.
            deadline: seconds for each ranking of this call, in place of ``limits.deadline``.
            strict: whether to raise RerankError unless each candidate of the head that can be
                shown was scored.
            now: the time for ``terms``: ISO 8601 (UTC without an offset), a date or time of
                ``datetime``, or seconds since 1970. Without it, the clock is read once a call.

        Returns:
            Every candidate once, best first, without those that ``report.left_out`` lists.

        Raises:
            InputError: an argument is of the wrong type or out of range; the message names it.
            RerankError: under ``strict``, if a candidate of the head could not be scored.

        Example:
            >>> passages = [
            ...     {"id": "cats", "text": "Cats sleep a lot.", "score": 0.8},
            ...     {"id": "owls", "text": "Owls hunt at night.", "score": 0.7, "page": 7},
            ... ]
            >>> ranking = Reranker("lexical").rerank("When do owls hunt?", passages, top_k=1)
            >>> ranking[0].id, ranking[0].score, ranking[0].metadata["page"]
            ('owls', 0.7, 7)
            >>> ranking.report.status
            'ok'
        """
        if on_interim is not None:
            check_callback("on_interim", on_interim)
        settings = self._settings(options, WITH_LISTENER)
        request = to_request(query, candidates, context, text_needed=self.render.needs_text)
        passes = self._passes([request], settings, on_interim)
        return drivers.run_all(passes, self.log_level)[0]

    @show_call_options
    async def arerank(
        self,
        query: str,
        candidates: Iterable[CandidateLike],
        *,
        context: Any = None,
        **options: Unpack[CallOptions],
    ) -> Ranking:
        """:meth:`rerank` for event loops: blocking calls run in worker threads.

        Arguments and options: as in :meth:`rerank`.
        """
        settings = self._settings(options)
        request = to_request(query, candidates, context, text_needed=self.render.needs_text)
        passes = self._passes([request], settings)
        return (await drivers.arun_all(passes, self.log_level))[0]

    @show_call_options
    def astream(
        self,
        query: str,
        candidates: Iterable[CandidateLike],
        *,
        context: Any = None,
        **options: Unpack[CallOptions],
    ) -> AsyncGenerator[Ranking, None]:
        """Yield a ranking after each stage or round of the method, then that of :meth:`arerank`.

        Interim rankings have ``report.final`` False. ``aclose()`` of the generator ends the pass.

        Arguments and options: as in :meth:`rerank`.
        """
        from secondpass.asking.streaming import stream

        settings = self._settings(options)
        request = to_request(query, candidates, context, text_needed=self.render.needs_text)

        async def work(listener: Callable[[Ranking], None]) -> Ranking:
            passes = self._passes([request], settings, listener)
            return (await drivers.arun_all(passes, self.log_level))[0]

        return stream(work)

    @show_call_options
    def rerank_many(
        self, requests: Iterable[RequestLike], **options: Unpack[CallOptions]
    ) -> list[Ranking]:
        """Rank candidates for many queries. Scorers with ``score_many`` fill batches across them.

        Args:
            requests: ``(query, candidates)`` or ``(query, candidates, context)`` tuples.
            options: as in :meth:`rerank`.

        Returns:
            A ranking for each, in order. Its clock starts with its first call.

        Raises:
            InputError: a request is wrong; the message gives its number and what is wrong.
            RerankError: under ``strict``, for the first request with unscored candidates.

        Example:
            >>> texts = ["Cats sleep a lot.", "Owls hunt at night."]
            >>> requests = [("sleep", texts), ("hunt", texts)]
            >>> [ranking[0].text for ranking in Reranker("lexical").rerank_many(requests)]
            ['Cats sleep a lot.', 'Owls hunt at night.']
        """
        checked = to_requests(requests, text_needed=self.render.needs_text)
        settings = self._settings(options, REQUESTS)
        return drivers.run_all(self._passes(checked, settings), self.log_level)

    @show_call_options
    async def arerank_many(
        self, requests: Iterable[RequestLike], **options: Unpack[CallOptions]
    ) -> list[Ranking]:
        """:meth:`rerank_many` for event loops.

        Arguments and options: as there.
        """
        checked = to_requests(requests, text_needed=self.render.needs_text)
        settings = self._settings(options, REQUESTS)
        return await drivers.arun_all(self._passes(checked, settings), self.log_level)

    @explained()
    def plan(
        self,
        candidates: int | Iterable[CandidateLike],
        *,
        query: str | None = None,
        tokens_per_passage: int = 100,
        depth: int | None = None,
        instruction: str | None = None,
    ) -> CostPlan:
        """Estimate what a ranking of these candidates would take, without calling anything.

        Calls are questions to services, and their rounds; those of local models, which ``usage`` of
        a report counts as well, are not included. They are exact if nothing fails and ``when``
        skips nothing; requests that an API's limit of tokens splits are estimated, as tokens and
        cost are. Retries, repairs, fallbacks and hits of a cache are not included.

        Args:
            candidates: their number; or a sample of them, as for :meth:`rerank`.
            query: of the sample; None assumes one of ten tokens.
            tokens_per_passage: assumed length of a rendered candidate, if ``candidates`` is a
                number.
            depth: number of candidates to judge; None uses the setting.
            instruction: what counts as relevant, which is part of every prompt.

        Raises:
            InputError: an argument is of the wrong type or out of range.
        """
        from secondpass.asking.plan_arguments import ASSUMED_QUERY, sampled
        from secondpass.asking.planning import planned  # of no use to a ranking

        sample, length = sampled(candidates, tokens_per_passage)
        request = to_request(
            ASSUMED_QUERY if query is None else query, sample, text_needed=self.render.needs_text
        )
        unset = {} if length is None else {"render": Rendering(), "when": None}
        task = self._task(request, {"depth": depth, "instruction": instruction}, **unset)
        stages, exceeded = planned(self._stages, task, self.limits)
        return CostPlan(len(request[1]), stages, exceeded, length)

    @show_call_options
    def expected_use(
        self, requests: Iterable[RequestLike], **options: Unpack[CallOptions]
    ) -> list[Expected]:
        """Estimate the use of each model by :meth:`rerank_many`, without calling anything.

        Every call is assumed to succeed, so retries, repairs and fallbacks are not included. Limits
        of calls, tokens and cost apply, a deadline does not. The method is that of the reranker, or
        the first fallback whose packages are installed.

        Args:
            requests: as for :meth:`rerank_many`.
            options: as in :meth:`rerank`.

        Raises:
            InputError: a request or an option is wrong.
        """
        from secondpass.asking.expected_use import merged
        from secondpass.asking.planning import expected_uses  # of no use to a ranking

        self._settings(options, REQUESTS)  # raises errors also without requests
        uses: list[Expected] = []
        for request in to_requests(requests, text_needed=self.render.needs_text):
            uses += expected_uses(self._stages, self._task(request, options), self.limits)
        return merged(uses)

    @explained()
    def candidates_needed(
        self, top_k: int | None = None, *, depth: int | None = None
    ) -> int | None:
        """Return how many candidates to ask the retriever for, with these settings or arguments.

        ``top_k`` times ``candidate_multiplier``, or else the larger of ``top_k`` and ``depth``.

        Raises:
            InputError: an argument is not a whole number of at least 1.
        """
        settings = self._settings({"top_k": top_k, "depth": depth})
        if settings.top_k is None or self.candidate_multiplier is None:
            return settings.depth and max(settings.depth, settings.top_k or 0)
        return settings.top_k * self.candidate_multiplier

    @explained()
    def store(self, passages: Iterable[CandidateLike]) -> Stored:
        """Encode passages ahead, and keep them in the ``store`` of each method that has one.

        They are rendered and split as for a ranking, so that rankings find them. Passages that are
        stored already cost little. For a large collection, call it with some thousand at a time.

        Args:
            passages: as the candidates of :meth:`rerank`.

        Returns:
            The number of texts that were known, and of those that were encoded. A long passage may
            have several.

        Raises:
            InputError: a passage is wrong; the message names it.
            StoreError: no method has a store, or not all passages could be stored.
        """
        counts = [scorer.store_passages(texts) for scorer, texts in self._stored_texts(passages)]
        return Stored(sum(known for known, _ in counts), sum(encoded for _, encoded in counts))

    @explained()
    def forget(self, passages: Iterable[CandidateLike]) -> None:
        """Delete passages from the ``store`` of each method that has one.

        Args:
            passages: as for :meth:`store`, with the same texts.

        Raises:
            InputError: a passage is wrong; the message names it.
            StoreError: no method has a store, or it cannot be written.
        """
        for scorer, texts in self._stored_texts(passages):
            scorer.forget_passages(texts)

    def _stored_texts(self, passages: Iterable[CandidateLike]) -> list[tuple[Any, Sequence[str]]]:
        """Each scorer with a store, and the texts that a ranking of these passages asks it for."""
        from secondpass.asking.passage_stores import stored_texts  # of no use to a ranking
        from secondpass.asking.plan_arguments import ASSUMED_QUERY

        needed = self.render.needs_text
        request = ASSUMED_QUERY, to_candidates(passages, text_needed=needed, name="passages"), None
        task = self._task(request, {}, depth=None, when=None, dedupe=False)
        if task is None:
            return []
        texts = stored_texts(self._stages, task)
        if not texts:
            raise StoreError("no method has a store: set 'store' of 'embedded' to a path")
        return texts

    @property
    def _orderings(self) -> list[Ordering | None]:
        return [self.order, *(self.orders or {}).values()]

    @explained()
    @contextmanager
    def storing_answers(self, cache: ResponseCache) -> Iterator[Self]:
        """A reranker that stores answers in a cache outside of the configuration.

        The cache is closed at the end. It is not used if the settings have one, or if no method
        asks a service whose answers can be stored.
        """
        if self.cache is not None or not has_storable(self._methods):
            yield self
            return
        with closing(cache):
            yield self.changed(cache=cache)

    def warm_up(self) -> bool:
        """Load the model of the method, or of the first fallback that can be loaded; and those of
        orderings.

        Returns:
            Whether the method itself can run; False if only a fallback can.

        Raises:
            ModelLoadError | MissingExtraError: neither the method nor a fallback can be loaded.
        """
        is_first = warm_up_first(self._methods, self.log_level)
        warm_up_orderings(self._orderings, self.log_level)
        return is_first

    async def awarm_up(self) -> bool:
        """:meth:`warm_up` in a thread, which is abandoned if this is cancelled."""
        from secondpass.concurrency.threads import in_thread  # imports asyncio

        return await in_thread(self.warm_up)

    def close(self) -> None:
        """Release models and connections. They are loaded again when this is used again.

        All are released, also if one raises an error. The first error is raised in the end. The
        end of a block ``with Reranker(…) as reranker:`` does this, too (``async with``:
        :meth:`aclose`).
        """
        close_all([*map(inner, self._methods), *self._orderings, self.cache], self.log_level)

    async def aclose(self) -> None:
        """:meth:`close` in a thread, which is abandoned if this is cancelled."""
        from secondpass.concurrency.threads import in_thread  # imports asyncio

        await in_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        with _logged_beside(error):
            self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: object, error: BaseException | None, _traceback: object
    ) -> None:
        with _logged_beside(error):
            await self.aclose()

    def _settings(
        self, options: CallOptions, arguments: Sequence[str] = ONE_REQUEST
    ) -> PassSettings:
        return PassSettings.of(self, self._stages).override(options, self.orders, arguments)

    def _task(self, request: CheckedRequest, options: CallOptions, **changes: Any) -> Task | None:
        from secondpass.asking.planning import Recorder  # of no use to a ranking

        recorder = Recorder()
        changes |= {"stages": (Stage(recorder),), "order": None}
        settings = replace(self._settings(options), **changes)
        deque(RankingPass(settings, Ledger(), *request).plan(), maxlen=0)  # it calls nothing
        return recorder.task

    def _passes(
        self,
        requests: Iterable[CheckedRequest],
        settings: PassSettings,
        listener: Callable[[Ranking], None] | None = None,
    ) -> Iterator[Pass[Ranking]]:
        for request in requests:
            limits = self.limits
            if settings.deadline is not None:
                limits = replace(limits, deadline=settings.deadline)
            ledger = Ledger(limits, cache=self.cache)
            plan = RankingPass(settings, ledger, *request, listener).observed_plan()
            yield Pass(plan, ledger, self._gate)

    def _added_attributes(self) -> dict[str, Any]:
        """The attributes that a subclass or a caller has added."""
        return {name: value for name, value in vars(self).items() if name not in _ATTRIBUTES}

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Calls leave no state in the settings and methods, so these are shared.
        copied = memo[id(self)] = copy(self)
        vars(copied).update(deepcopy(self._added_attributes(), memo))
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        # Locks and models cannot be pickled.
        return type(self).from_config, (self.to_config(),), self._added_attributes()

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute(self, name)

    def __repr__(self) -> str:
        return f"<Reranker {self.method.name!r}, depth {self.depth}>"


@contextmanager
def _logged_beside(error: BaseException | None) -> Iterator[None]:
    """Log an exception of the block if there is an earlier ``error``, which it would replace."""
    try:
        yield
    except Exception as later:
        if error is None:
            raise
        log_exception(later, "closing")


def _key_hint(name: str, cls: type, settings: Mapping[str, Any], beside: Collection[str]) -> str:
    from secondpass.settings import parameter_hints  # for errors only

    return parameter_hints.key_hint(name, cls, settings, beside)


use_key_hint(_key_hint)
registry.add_reranker(Reranker, {"limits": Limits, "render": Rendering, "passages": Passages})

_METHODS = frozenset({"method", "fallback"})
"""Settings that :meth:`Reranker.changed` keeps."""

_ATTRIBUTES = frozenset(parameters_of(Reranker)) | {
    *("_fixed_settings", "_gate", "_methods", "_order_name", "_sources", "_stages"),
}
"""The attributes that the constructor sets."""
