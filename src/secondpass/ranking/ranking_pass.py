"""One ranking, from candidates to report, as a generator of effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, get_args

from secondpass.effects import Judgement, Plan, Task
from secondpass.errors import MethodError, reraise_exit
from secondpass.ranking.candidates import (
    first_stage_scores,
    keep_best_of_each_id,
    kind_of,
    retrieval_score,
    unreadable_scores,
)
from secondpass.ranking.diagnostics import log_exception
from secondpass.ranking.fits import doubts
from secondpass.ranking.judgements import judged, with_listener
from secondpass.ranking.ledger import Ledger, PassCall
from secondpass.ranking.observers import RankingOperation, Running, end, query_hash, registrations
from secondpass.ranking.options import PassSettings
from secondpass.ranking.ordering import arranges
from secondpass.ranking.outcome import Outcome, ascending, issue_about
from secondpass.ranking.rendering import is_blank
from secondpass.ranking.result import Ranking, RerankError
from secondpass.ranking.scoring import ScorerMethod
from secondpass.ranking.stages import Stage
from secondpass.ranking.when import When
from secondpass.ranking.windows import judged_by_windows, with_windows
from secondpass.types import Candidate, DegradedBy, Issue, Report, ReportStatus, ScoreKind, Skipped

_Result: TypeAlias = tuple[Stage, Judgement] | None
"""The stage that gave a judgement, and the judgement; None if no stage did."""


@dataclass(slots=True)
class RankingPass:
    """One ranking. All integers are positions in ``candidates``.

    Attributes:
        listener: called with the interim rankings; None for no interim rankings.
        issues: about the candidates, and about methods that failed, so far.
        kept: candidates that are ranked: ``head`` within the depth, then ``tail``.
        renderable: candidates of the head that have a text for a method.
        left_out: by reason, candidates that no method is to judge.
        skipped: what the setting ``when`` left out.
    """

    settings: PassSettings
    ledger: Ledger
    query: str
    candidates: list[Candidate]
    context: Any
    listener: Callable[[Ranking], None] | None = None
    issues: list[Issue] = field(default_factory=list)
    kept: Sequence[int] = ()
    head: Sequence[int] = ()
    tail: Sequence[int] = ()
    renderable: Sequence[int] = ()
    left_out: dict[str, Sequence[int]] = field(default_factory=dict)
    skipped: Skipped | None = None

    def observed_plan(self) -> Plan[Ranking]:
        """:meth:`plan`, reported to the observers if there are any."""
        return self._observed_plan() if registrations() else self.plan()

    def _observed_plan(self) -> Plan[Ranking]:
        operation = RankingOperation(
            name=self.settings.stages[0].method.name,
            candidates=len(self.candidates),
            top_k=self.settings.top_k,
            query=query_hash(self.query),
        )
        running = Running(operation, lambda: {"query": self.query, "candidates": self.candidates})

        def ended(ranking: Ranking) -> Ranking:
            operation.report, operation.trace = ranking.report, ranking.trace
            running.content = lambda: {"ranking": ranking}
            return ranking

        with running:
            operations = self.ledger.operations
            operations.append(operation)
            try:
                return ended((yield from self.plan()))
            except RerankError as error:
                ended(error.ranking)
                raise
            finally:
                while len(operations) > 1:
                    end(operations.pop(), "cancelled")

    def plan(self) -> Plan[Ranking]:
        """Run the pass as a generator of effects that returns the ranking.

        Raises:
            RerankError: under ``strict``, if a candidate of the head that has a text was not
                scored, the ordering was not followed, or the model is doubtful.
        """
        settings = self.settings
        if self.candidates and is_blank(self.query):
            self._add_issue("query_empty", _QUERY_EMPTY)
        self._check_scores()
        self.kept = range(len(self.candidates))
        if settings.dedupe:
            scores, _ = first_stage_scores(self.candidates)
            kept, duplicates = keep_best_of_each_id(self.candidates, scores)
            self.kept, self.left_out["duplicate"] = kept, duplicates
            if duplicates and (message := ascending(self.candidates)):
                self._add_issue("scores_ascending", message)
        depth = len(self.kept) if settings.depth is None else settings.depth
        self.head, self.tail = self.kept[:depth], self.kept[depth:]
        if settings.when is not None and self.head:
            self._decide(settings.when)
        result = (yield from self._judge()) if self._to_judge else None
        outcome = self._outcome(self.ledger.record_exception)
        ranking = yield from self._ranking(outcome, result)
        if settings.strict and not self._is_complete(outcome):
            raise RerankError(ranking) from self.ledger.take_error()
        self.ledger.take_error()
        return ranking

    def _is_complete(self, outcome: Outcome) -> bool:
        """Whether the outcome is what ``strict`` requires."""
        sound = outcome.order_followed and not outcome.degraded_by
        return sound and outcome.complete(self.renderable)

    def _check_scores(self) -> None:
        """Report the retrieval scores that cannot be read."""
        unreadable, example = unreadable_scores(self.candidates)
        if unreadable:
            message = f"these retrieval scores are not finite numbers, such as {example}"
            message += "; they count as missing"
            if example == "a str":
                message += ", so convert them with float()"
            self._add_issue("score_unreadable", message, unreadable)

    def _decide(self, when: When) -> None:
        """Leave out what ``when`` does not require."""
        candidates = [self.candidates[position] for position in self.kept]
        skip, unknown = when.decide(self.query, candidates)
        if skip is not None and len(self.head) > when.depth:
            self.skipped = Skipped(skip, len(self.head) - when.depth, when.depth)
        for name, reason in unknown.items():
            self._add_issue("when_unknown", f"{name} is not known, so the pass runs: {reason}")

    @property
    def _to_judge(self) -> Sequence[int]:
        """The part of the head that is not skipped."""
        return self.head if self.skipped is None else self.head[: self.skipped.depth]

    # ---------------------------------------------------------------------- effects

    def _judge(self) -> Plan[_Result]:
        """The judgement of the first stage that returns one."""
        task = self._task()
        if task is None:
            return None
        for number, stage in enumerate(self.settings.stages, 1):
            if self.listener is not None:
                task = with_listener(task, partial(self._rank_interim, stage, self.listener))
            try:
                last = number == len(self.settings.stages)
                # The partial scores of a method that asks questions are not known before it ends.
                until_scored = isinstance(stage.method, ScorerMethod)
                with task.call.keeping_time(last, until_scored=until_scored):
                    run = judged if task.windows is None else judged_by_windows
                    judgement = yield from run(stage.method, task)
                stage.kind_of(judgement)
            except MethodError as error:
                self._add_issue(error.code, str(error), (), stage.method.name)
            else:
                return stage, judgement
        return None

    def _not_strings(self, positions: Sequence[int]) -> str:
        """``; …`` of the first of these candidates whose text is not a string; empty without."""
        for position in positions if self.settings.render.needs_text else ():
            text = self.candidates[position].text
            if text is not None and not isinstance(text, str):
                return f"; the text of candidates[{position}] is {kind_of(text)}, not a string"
        return ""

    def _task(self) -> Task | None:
        """The task of the methods; None if no candidate has a text."""
        rendering, positions = self.settings.render, self._to_judge
        candidates = [rendering.named(self.candidates[position]) for position in positions]
        rendered = rendering.candidates(candidates)
        if missing := rendering.missing(candidates):
            names = ", ".join(map(repr, missing))
            self._add_issue("field_missing", f"no candidate has these fields of render: {names}")
        if None in rendered:
            triples = list(zip(positions, candidates, rendered, strict=True))
            empty = [position for position, _, text in triples if text is None]
            message = "there is nothing of these to show to a method"
            self._add_issue("no_text", message + self._not_strings(empty), empty)
            shown = [triple for triple in triples if triple[2] is not None]
            positions = [position for position, _, _ in shown]
            candidates = [candidate for _, candidate, _ in shown]
        texts = [text for text in rendered if text is not None]
        self.renderable = positions
        if not texts:
            return None
        task = Task(
            rendering.query(self.query),
            texts,
            candidates,
            self.context,
            instruction=self.settings.instruction,
            call=PassCall(self.ledger),
        )
        passages = self.settings.passages
        return task if passages is None else with_windows(task, passages, rendering)

    def _rank_interim(
        self,
        stage: Stage,
        listener: Callable[[Ranking], None],
        interim: Callable[[], Judgement],
    ) -> Plan[None]:
        """Pass the ranking of an interim judgement to the listener."""
        try:
            judgement = interim()
            stage.kind_of(judgement)
        except BaseException as error:
            reraise_exit(error)
            # The method continues, and what it returns in the end is validated again.
            log_exception(error, "the interim judgement of a method")
            return
        if not any(score is not None for score in judgement.scores):
            return  # the input order is no result
        outcome = self._outcome(log_exception)
        ranking = yield from self._ranking(outcome, (stage, judgement), final=False)
        try:
            listener(ranking)
        except BaseException as error:
            reraise_exit(error)
            log_exception(error, "on_interim")
            message = f"on_interim raised {type(error).__name__}"
            if not any(issue.code == "on_interim_raised" for issue in self.issues):
                self._add_issue("on_interim_raised", message)

    # ---------------------------------------------------------------------- the ranking

    def _outcome(self, on_exception: Callable[[BaseException, str], None]) -> Outcome:
        """The outcome before a judgement is applied."""
        call, issues = PassCall(self.ledger), [*self.issues]
        settings = self.settings
        outcome = Outcome(
            self.candidates,
            self.head,
            self.renderable,
            issues,
            on_exception,
            call,
            settings.terms,
            settings.now,
        )
        for position in self.head[len(self._to_judge) :]:
            outcome.trace.status[position] = "tail"
        return outcome

    def _ranking(self, outcome: Outcome, result: _Result, *, final: bool = True) -> Plan[Ranking]:
        """The ranking that follows from a judgement. Changes only the outcome."""
        settings, trace = self.settings, outcome.trace
        left_out = dict(self.left_out)
        as_is = self.skipped is not None and not self._to_judge
        judgement: Judgement | None = None
        stage: Stage | None = None
        if result is not None:
            stage, judgement = result
            outcome.apply(judgement, stage.method.name, settings.render)
            if all(score is None for score in judgement.scores):
                # It does not judge lists like this one, such as a single candidate.
                stage, as_is = None, outcome.complete(self.head)
        kind = stage.kind_of(judgement) if stage and judgement else None
        if stage is None:
            # A method that states the weight 1 has kept the original order on purpose.
            trace.failed = bool(self.renderable) and not as_is and outcome.original != 1
            order = yield from self._unscored_order(outcome, as_is)
        else:
            outcome.add_probabilities(stage.probabilities)
            order, left_out["floor"] = outcome.rank(
                stage.method, stage.blend, stage.threshold, kind
            )
            self._add_doubts(outcome, stage)
            if settings.order is not None:
                order = yield from outcome.reorder(order, settings.order, settings.top_k)
        if settings.tail == "keep":
            order += self.tail
        else:
            left_out["tail"] = self.tail
        trace.order = order
        if settings.top_k is not None:
            left_out["top_k"] = sorted(order[settings.top_k :])
            order = order[: settings.top_k]
        report = self._report(outcome, stage, kind, left_out, as_is=as_is, final=final)
        return Ranking(self.query, outcome.items(order), report, trace)

    def _report(
        self,
        outcome: Outcome,
        stage: Stage | None,
        kind: ScoreKind | None,
        left_out: Mapping[str, Sequence[int]],
        *,
        as_is: bool,
        final: bool,
    ) -> Report:
        """The report of a ranking; ``stage`` gave its order, None if none did."""
        ledger = self.ledger
        degraded_by = self._degraded_by(outcome, stage)
        issues = [*outcome.issues, *ledger.issues]
        if ledger.error is not None and not self.settings.strict and not self._is_complete(outcome):
            issues = [*map(_with_hint, issues)]
        return Report(
            status="degraded" if degraded_by else self._status(outcome, stage, as_is),
            degraded_by=degraded_by,
            method=stage.method.name if stage else None,
            score_kind=kind,
            issues=tuple(issues),
            usage=ledger.usage(),
            seconds=ledger.seconds,
            depth_asked=len(self._to_judge),
            depth_done=outcome.trace.status.count("scored"),
            beyond_depth=len(self.tail),
            waiting_seconds=ledger.waiting_seconds,
            calling_seconds=ledger.calling_seconds,
            left_out={reason: tuple(left) for reason, left in left_out.items() if left},
            engines=tuple(ledger.engines),
            final=final,
            skipped=self.skipped,
            threshold=outcome.threshold,
            nothing_relevant=outcome.nothing_relevant(stage.threshold if stage else None),
        )

    def _unscored_order(self, outcome: Outcome, as_is: bool) -> Plan[list[int]]:
        """The head in the order of the input, to which an ordering by metadata is applied.

        Its final scores are those of the retriever. ``as_is``: no method was to judge it.
        """
        order, ordering = list(self.head), self.settings.order
        for position in self.kept:
            outcome.trace.final_score[position] = retrieval_score(self.candidates[position])
        skipped = self.skipped is not None and as_is
        if not order or (as_is and not skipped):
            return order
        if skipped and self.settings.stages[0].floor is not None:
            message = "the pass was skipped, so there is no score to compare with the threshold"
            outcome.add_issue("floor_not_applied", message)
        if self.settings.terms and len(order) > 1:
            outcome.add_issue("terms_not_applied", "nothing was judged, so the order stays")
        if ordering is None:
            return order
        if arranges(ordering) and not skipped:  # there is no ranking to arrange
            return order
        moved = yield from outcome.reorder(order, ordering, self.settings.top_k)
        if outcome.order_followed and not skipped:
            message = "nothing was judged; the ordering was applied to the input order"
            outcome.add_issue("order_applied_unjudged", message)
        return moved

    def _add_doubts(self, outcome: Outcome, stage: Stage) -> None:
        """Report fits for another ranking, and a threshold that a fallback does not have."""
        if stage.fits:
            depth = self.settings.depth if self.skipped is None else self.skipped.depth
            doubt = doubts(stage, depth, self.settings.instruction, self.ledger.engines)
            if doubt is not None:
                outcome.add_issue("fitted_otherwise", doubt, (), stage.method.name)
        if stage.floor is None and self.settings.stages[0].floor is not None:
            reason = ": its scores are ranks" if stage.method.score_kind == "rank" else ""
            message = f"the threshold applies to the method only; this fallback has none{reason}"
            outcome.add_issue("floor_not_applied", message, (), stage.method.name)

    def _degraded_by(self, outcome: Outcome, stage: Stage | None) -> tuple[DegradedBy, ...]:
        """Why the ranking is degraded; empty if it is not, or if nothing was judged."""
        if stage is None:
            return ()
        reasons = {*outcome.degraded_by}
        if stage is not self.settings.stages[0]:
            reasons.add("fallback")
        return tuple(reason for reason in get_args(DegradedBy) if reason in reasons)

    def _status(self, outcome: Outcome, stage: Stage | None, as_is: bool) -> ReportStatus:
        """The status of a ranking that is not degraded."""
        if stage is None:
            return "ok" if as_is or not self.head else "unchanged"
        return "ok" if outcome.complete(self.head) else "partial"

    def _add_issue(
        self, code: str, message: str, positions: Sequence[int] = (), method: str | None = None
    ) -> None:
        self.issues.append(issue_about(self.candidates, code, message, positions, method))


_QUERY_EMPTY = "the query has no visible character, so the scores say nothing about it"
_RAISED = frozenset({"scorer_raised", "llm_raised", "method_failed", "order_failed"})
"""Issues about an exception of the user's code, which the ledger keeps."""


def _with_hint(issue: Issue) -> Issue:
    """The issue, with how to see the exception if it is about one."""
    if issue.code not in _RAISED:
        return issue
    return replace(issue, message=f"{issue.message}; with strict, the exception is raised")
