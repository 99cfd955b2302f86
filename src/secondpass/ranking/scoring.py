"""Adapts a scorer to a method, and validates every score."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import groupby, islice
from typing import Any, TypeVar, get_args

from secondpass.effects import Judgement, Method, Plan, Score, Task
from secondpass.errors import ConfigurationError, MethodError, Problem, reraise_exit, with_article
from secondpass.questions import RawScores, Scorer, Span
from secondpass.settings import counted, describe, registry, suggestion
from secondpass.types import EngineInfo, Issue, Piece, ScoreKind

T = TypeVar("T")

_WRONG = {
    "score_missing": "is None",
    "score_not_a_number": "is not a number",
    "score_not_finite": "is not finite",
}
"""What is wrong with a score, by the code of the issue."""

_TOLERANCE = 1e-4
"""Rounding error by which float32 scores may lie outside their range; they are clipped."""

DOUBTFUL = "model_doubtful"
"""The issue of a model that does not find obvious answers. It makes a report ``degraded``."""

_LEAST_EQUAL = 3  # different texts whose scores are suspicious if they are all equal

TRUNCATED = "text_truncated"
"""Code of the issue of texts that a model did not read whole."""

SPLIT = "list_split"
"""Code of the issue of a list that a model did not read in one pass."""

_DEFAULT_BATCH_SIZE = 32
"""Texts per call, with a deadline, of a scorer without ``batch_size`` whose cost is not known."""


class ScorerMethod:
    """A method that returns the scores of a :class:`~secondpass.questions.Scorer`.

    It makes one call for all candidates; several if a deadline is set and the scorer cannot score
    until the deadline.

    Raises:
        ConfigurationError: the scorer declares an invalid score kind, scale or batch size.
    """

    windows = "each"

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.name = str(member(scorer, "model_name", None) or type(scorer).__name__)
        self.score_kind: ScoreKind = check_kind(member(scorer, "score_kind", "unbounded"))
        self.scale = _scale(scorer) if self.score_kind == "grade" else None
        self._at_most: int | None = None
        self._batch_size: int | None = None
        if member(scorer, "pointwise", True):
            size = member(scorer, "batch_size", None)
            if size is not None and (type(size) is not int or size < 1):
                message = f"must be a whole number, 1 or more, not {describe(size)}"
                raise ConfigurationError([Problem(("batch_size",), message)])
            self._at_most = size or _DEFAULT_BATCH_SIZE
            self._batch_size = size

    @property
    def takes_instruction(self) -> bool:
        """Whether the scorer takes the instruction of a call."""
        return member(self.scorer, "takes_instruction", False) is True

    def as_setting(self, where: str) -> dict[str, Any]:
        """Return the settings of the scorer: this class is not registered."""
        return registry.dump("methods", self.scorer, where)

    def judge(self, task: Task) -> Plan[Judgement]:
        """Score all texts with one effect, and validate each score."""
        instruction = task.instruction
        if instruction is not None and not self.takes_instruction:  # which may read a file
            instruction = None
        calls_itself = any(
            callable(member(self.scorer, name, None)) for name in ("score_batches", "score_lists")
        )
        sharing: AbstractContextManager[None] = nullcontext()
        if self._at_most is not None and not calls_itself:
            count = len(task.texts)
            sharing = task.call.sharing(self.scorer, count, self._batch_size, self._at_most)
        with sharing:
            raw = yield from Score(self.scorer, task.query, task.texts, self._at_most, instruction)
        engine = _engine(self.scorer)
        if raw.called and engine is not None:
            task.call.ran(replace(engine, method=self.name))
        task.call.encoded(raw.known, raw.encoded)
        issues, unjudged = self._issues_of_calls(raw)
        if len(unjudged) == len(task.texts):
            _, _, error = raw.failures[0]
            raise error
        issues.extend(raw.issues)
        if raw.original == 1:
            count = len(task.texts)
            return Judgement([None] * count, frozenset(range(count)), issues, original=1.0)
        # Some scorers know their kind only once their model is loaded.
        kind = check_kind(member(self.scorer, "score_kind", self.score_kind))
        scores = self._validated(raw.values, unjudged, kind, issues)
        issues += self._reading_issues(task)
        order = None
        if raw.order_scores is not None:
            unscored = {index for index, score in enumerate(scores) if score is None}
            order = self._validated(raw.order_scores, unscored, kind, issues)
            # A text without a place in the order has no score, either.
            pairs = zip(scores, order, strict=True)
            scores = [None if place is None else score for score, place in pairs]
        if engine is not None and self.score_kind != "rank":  # of a model
            issues.extend(equal_scores(task.texts, scores, self.name))
        return Judgement(
            scores,
            frozenset(unjudged),
            issues,
            score_kind=None if kind == self.score_kind else kind,
            original=raw.original,
            spans=raw.spans,
            order_scores=order,
            pieces=raw.pieces,
        )

    def _issues_of_calls(self, raw: RawScores) -> tuple[list[Issue], set[int]]:
        """The issues of the calls of the scorer, and the texts that failed ones left unjudged."""
        issues = [self._issue(error.code, str(error)) for error in raw.troubles]
        doubt = member(self.scorer, "doubt", None)
        if isinstance(doubt, str):
            issues.append(self._issue(DOUBTFUL, doubt))
        for issue in self._stated("cache_issues", list) or ():
            if type(issue) is Issue:
                issues.append(replace(issue, method=self.name))
        unjudged: set[int] = set()
        # One issue for successive ranges that failed for the same reason.
        for (code, message), group in groupby(raw.failures, key=_reason):
            indices = [index for start, stop, _ in group for index in range(start, stop)]
            unjudged.update(indices)
            issues.append(self._issue(code, message, indices))
        return issues, unjudged

    def _issue(self, code: str, message: str, indices: Iterable[int] = ()) -> Issue:
        return Issue(code, message, tuple(indices), (), self.name)

    def _stated(self, name: str, convert: Callable[[Any], T], *arguments: object) -> T | None:
        """What an optional member of the scorer returns, converted; None if it cannot be used."""
        try:
            function = getattr(self.scorer, name, None)
            return convert(function(*arguments)) if callable(function) else None
        except BaseException as error:  # a foreign scorer may raise anything
            reraise_exit(error)
            return None

    def _stated_indices(self, name: str, task: Task) -> list[int]:
        """The indices of texts that a member returns; none if they cannot be used."""
        indices = self._stated(name, _sorted_indices, task.query, task.texts) or []
        are_valid = bool(indices) and indices[0] >= 0 and indices[-1] < len(task.texts)
        return indices if are_valid else []

    def _reading_issues(self, task: Task) -> Iterator[Issue]:
        """The issues of texts that were not read whole, and of a list read in several passes."""
        if indices := self._stated_indices("truncated", task):
            limit = member(self.scorer, "token_limit", None)
            message = (
                "these are longer than the model reads; split long texts by passages"
                if type(limit) is not int
                else f"these are longer than the {limit} tokens that the configuration sets; raise "
                "that if the model reads more, or split long texts by passages"
            )
            yield self._issue(TRUNCATED, message, indices)
        if indices := self._stated_indices("query_truncated", task):
            message = "the model does not read the whole query beside these; shorten the query"
            yield self._issue("query_truncated", message, indices)
        passes = self._stated("passes", operator.index, task.query, task.texts)
        if passes is not None and passes > 1:
            message = f"the list was read in {passes} passes, so its passages were not all compared"
            yield self._issue(SPLIT, message)

    def _validated(
        self, values: Sequence[Any], unjudged: set[int], kind: ScoreKind, issues: list[Issue]
    ) -> list[float | None]:
        """The scores of the judged texts; adds issues of those that cannot be used."""
        low, high = bounds = range_of(kind, self.scale)
        scores: list[float | None] = []
        invalid: dict[str, list[int]] = {}
        for index, value in enumerate(values):
            if index in unjudged:
                scores.append(None)
                continue
            number = value if type(value) is float else to_float(value)
            if number is None:
                code = "score_missing" if value is None else "score_not_a_number"
            elif low <= number <= high:  # the usual case, without a function call
                scores.append(number)
                continue
            elif (clipped := in_range(number, bounds)) is not None:
                scores.append(clipped)
                continue
            elif math.isfinite(number):
                # The scale differs, so scores that happen to be in range mean something else, too.
                raise MethodError(
                    f"a score lies outside {low:g} to {high:g}, the range of {kind}"
                    " scores, so none is used",
                    "score_out_of_range",
                )
            else:
                code = "score_not_finite"
            invalid.setdefault(code, []).append(index)
            scores.append(None)
        if all(score is None for score in scores):
            (code, (first, *_)), *_ = invalid.items()
            message = f"no score could be used; the first {_WRONG[code]}"
            if code == "score_not_a_number":
                message += f" but {with_article(type(values[first]).__name__)}"
            raise MethodError(message, code)
        for code, indices in invalid.items():
            message = f"{len(indices):,} of {counted(len(values), 'score')} cannot be used"
            issues.append(self._issue(code, message, indices))
        return scores


def _reason(failure: tuple[int, int, MethodError]) -> tuple[str, str]:
    _, _, error = failure
    return error.code, str(error)


def _sorted_indices(indices: Iterable[Any]) -> list[int]:
    return sorted({operator.index(index) for index in indices})


def equal_scores(
    texts: Sequence[str], scores: Sequence[float | None], name: str
) -> Iterator[Issue]:
    """The issue of a model that gives three or more different texts the same score.

    Texts with the score None were not scored; ``name`` is that of the method.
    """
    first = next((score for score in scores if score is not None), None)
    if any(score is not None and score != first for score in scores):  # the usual case
        return
    different = {text for text, score in zip(texts, scores, strict=True) if score is not None}
    if len(different) >= _LEAST_EQUAL:
        message = f"all {len(different)} different texts have the same score"
        yield Issue("scores_equal", message, (), (), name)


def range_of(kind: ScoreKind, scale: tuple[float, float] | None = None) -> tuple[float, float]:
    """Return the lowest and highest score of a kind, or of a scale of grades."""
    if scale is not None:
        return scale
    # Infinities are outside, so unbounded ranges end at the largest finite floats.
    largest = math.nextafter(math.inf, 0)
    ranges = {"probability": (0.0, 1.0), "rank": (0.0, 1.0), "similarity": (-1.0, 1.0)}
    return ranges.get(kind, (-largest, largest))


def in_range(number: float, bounds: tuple[float, float]) -> float | None:
    """Return the number, clipped if a rounding error puts it outside; None if it is outside."""
    low, high = bounds
    if low - _TOLERANCE <= number <= high + _TOLERANCE:
        return min(max(number, low), high)
    return None


_NO_NUMBERS = (bool, str, bytes, bytearray)  # a union of them would be made at each call


def to_float(value: object) -> float | None:
    """Convert a number of any library, but no boolean, to a float; None if it is none."""
    if isinstance(value, _NO_NUMBERS):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
        # Booleans of numpy and torch are not instances of bool.
        dtype = getattr(value, "dtype", None)
        if dtype is None:
            return number
        kind = getattr(dtype, "kind", None)  # torch's types have none, and their names take longer
        is_boolean = kind == "b" or (kind is None and str(dtype) == "torch.bool")
    except OverflowError:
        return math.inf
    except BaseException as error:  # a foreign __float__ may raise anything
        reraise_exit(error)
        return None
    return None if is_boolean else number


def is_finite(value: object) -> bool:
    """Whether a value is a finite number of any library."""
    number = to_float(value)
    return number is not None and math.isfinite(number)


def to_list(scores: object, count: int) -> list[Any]:
    """Convert a list, tuple, array or tensor of ``count`` values to a list."""
    tolist = getattr(scores, "tolist", None)
    if callable(tolist):
        scores = tolist()
    # Sets have no order, and iteration over a mapping does not give its values.
    not_lists = (str, bytes, bytearray, memoryview, Mapping, Set)
    if isinstance(scores, not_lists) or not isinstance(scores, Iterable):
        raise MethodError(
            f"the scorer returned {with_article(type(scores).__name__)}, not a list of scores",
            "scores_no_list",
        )
    values = list(islice(scores, count + 1))  # an endless iterator must not hang the pass
    if len(values) != count:
        scores_ = "more scores" if len(values) > count else counted(len(values), "score")
        message = f"the scorer returned {scores_} for {counted(count, 'text')}"
        raise MethodError(message, "score_count")
    return values


def to_span(value: Any, length: int) -> Span | None:
    """Convert a pair of integers to a span of a text; None if it is not one."""
    try:
        start, stop = map(operator.index, value)
    except BaseException as error:  # foreign iterators and integers may raise anything
        reraise_exit(error)
        return None
    return (start, stop) if 0 <= start < stop <= length else None


def to_pieces(value: Any, length: int) -> list[Piece] | None:
    """Convert scored parts of a text; None if they overlap, or are not parts with finite scores."""
    pieces: list[Piece] = []
    place = 0
    try:
        for start, stop, score in value:
            if not (place <= start < stop <= length and math.isfinite(score)):
                return None
            pieces.append((operator.index(start), operator.index(stop), float(score)))
            place = stop
    except BaseException as error:  # as above
        reraise_exit(error)
        return None
    return pieces


def check_kind(kind: object) -> ScoreKind:
    """Return a score kind; raises a ConfigurationError if it is none."""
    if isinstance(kind, str) and kind in get_args(ScoreKind):
        return kind  # type: ignore[return-value]
    hint = suggestion(str(kind), list(get_args(ScoreKind)))
    message = f"{describe(kind)} is not a score kind{hint}"
    raise ConfigurationError([Problem(("score_kind",), message)])


def member(scorer: object, name: str, default: Any) -> Any:
    """Return an optional member; the default if it is absent or raises."""
    try:
        return getattr(scorer, name, default)
    except BaseException as error:  # a foreign property may raise anything
        reraise_exit(error)
        return default


def scores_alone(method: Method) -> bool:
    """Whether each score of a method depends on the query and one candidate alone."""
    if method.score_kind == "rank":
        return False
    if isinstance(method, ScorerMethod):
        return bool(member(method.scorer, "pointwise", True))
    windows = getattr(method, "windows", "one")
    return bool(getattr(method, "isolated", windows == "each"))


def rerank_scores_alone(method: Method) -> bool:
    """Whether each rerank score of a method depends on the query and one candidate alone.

    Unlike :func:`scores_alone`, also if the order depends on the other candidates.
    """
    scorer = method.scorer if isinstance(method, ScorerMethod) else None
    return scores_alone(method) or member(scorer, "pair_scores", False) is True


def _engine(scorer: object) -> EngineInfo | None:
    """Return the engine of a scorer; None if it has none, or one that a report cannot hold."""
    engine = member(scorer, "engine", None)
    if type(engine) is not EngineInfo:
        return None
    kinds = [type(getattr(engine, name)) for name in EngineInfo.__slots__]
    return engine if kinds == [str, str, str, int, str, str] else None


def _scale(scorer: Scorer) -> tuple[float, float]:
    scale = member(scorer, "scale", None)
    try:
        low, high = scale
        if low < high and math.isfinite(high - low):
            return float(low), float(high)
    except (TypeError, ValueError, OverflowError):
        pass
    message = f"grades need (lowest, highest), a finite distance apart, not {describe(scale)}"
    raise ConfigurationError([Problem(("scale",), message)])
