"""The decision APIs that ``decisions`` calls, as data: a YAML file each in ``data/decision_apis``.

A decision API reads a *state* and *questions* about it, and answers each question with
probabilities. The templates are those of rerank APIs (:mod:`secondpass.apis.template`): one for the
state, one for each kind of question, and one for the request, which holds both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from secondpass.apis import template as api_template
from secondpass.apis.auth import Auth  # noqa: F401 (annotations of Api are read here)
from secondpass.apis.descriptions import Api, Verified  # noqa: F401
from secondpass.errors import ConfigurationError, Problem
from secondpass.settings import OneOrMore, configurable, nested, suggestion
from secondpass.settings.descriptions import Descriptions

if TYPE_CHECKING:
    from annotated_types import Ge, MinLen

Layout: TypeAlias = Literal["each", "together"]

PLACEHOLDERS: Mapping[str, str] = {
    "model": "in the request: the setting `model`",
    "state": "in the request: what the questions are about, by the template `each` or `together`",
    "state_text": "in the request: the same as one text, with query and documents between tags",
    "question": "in the request: one question, in a list of one element or an object by `$id`",
    "id": "the id of a question and of its document; `document` if there is one",
    "instructions": "in a question: what is asked",
    "level": "in a question: the description of one level, in a list of one element",
    "index": "beside `$level`: its number as a string, from 0",
    "yes": "in a question: what a yes means, if that is set",
    "no": "in a question: what a no means, if that is set",
    "query": "in a state: the query",
    "document": "in a state: the text of a document; of `together`, in an object by `$id` or in a "
    "list of one element",
    "instruction": "in a state: the instruction of the call, if there is one",
}
"""What each placeholder stands for, and in which template."""

KEY_VARIABLES = ("DECISIONS_API_KEY",)
"""Where the key is that belongs to no known provider."""
TEXTS = frozenset({"state", "state_text", "question"})
"""Placeholders of a request that hold texts of a call."""
OF_REQUEST = frozenset({"id", "question"})
"""Placeholders of a request that have a value for each question."""
OF_LEVELS = frozenset({"level", "index"})
"""Placeholders of a question that have a value for each level."""
OF_STATE = frozenset({"id", "document"})
"""Placeholders of a state that have a value for each document."""


@configurable
@dataclass(frozen=True)
class YesNo:
    """The kind of question that is answered by the probability of a yes.

    Attributes:
        question: its template.
        probability: place of the probability in an answer.

    Raises:
        ConfigurationError: the template lacks the instructions, or has something unknown.
    """

    question: Mapping[str, Any]
    probability: Annotated[str, MinLen(1)]

    def __post_init__(self) -> None:
        _check(self.question, {"id", "instructions", "yes", "no"}, (), {"instructions"})


@configurable
@dataclass(frozen=True)
class Grades:
    """The kind of question that is answered by the probability of each level of a scale.

    Attributes:
        question: its template.
        probabilities: place of the probabilities in an answer.
        level: place of a level's number in a row of them; None if they are an object by that
            number.
        probability: place of the probability in such a row.
        max_levels: levels of a scale at most.

    Raises:
        ConfigurationError: the template lacks the instructions or the levels, or has something
            unknown.
    """

    question: Mapping[str, Any]
    probabilities: Annotated[str, MinLen(1)]
    level: Annotated[str, MinLen(1)] | None = None
    probability: Annotated[str, MinLen(1)] = "probability"
    max_levels: Annotated[int, Ge(2)] = 10

    def __post_init__(self) -> None:
        known = {"id", "instructions", *OF_LEVELS}
        _check(self.question, known, OF_LEVELS, {"instructions", "level"})
        if self.level is not None and "index" not in api_template.placeholders(self.question):
            message = "must contain '$index', by which rows name the level"
            raise ConfigurationError([Problem(("question",), message)])


@configurable
@dataclass(frozen=True)
class DecisionApi(Api):
    """One decision API.

    Places in responses are names, joined by dots where one is inside another.

    Attributes:
        yes_no: the question of ``question: yes_no``; None if the API has none.
        graded: the question of ``question: graded``; None if the API has none.
        each: template of the state about one document.
        together: template of the state about several.
        layout: the default of the setting ``layout``.
        max_questions: questions per request.
        answers: place of the answers in a response.
        answer_id: place of a question's id in its answer, if answers are a list in the order of
            the questions; None if they are an object by id.
        answer_type: place of an answer's type, which must be the type of the question if the
            question has one.
        declined: the type of an answer that declines to decide.
        blocked: place of the reason for which a response has no answers.
        usage_output_tokens: places of the number of output tokens; the first that has one counts.

    Raises:
        ConfigurationError: no question; a template with an unknown placeholder, without one that
            is needed, or with a value that JSON does not have; or an invalid URL, path or header.
    """

    _texts = TEXTS

    key_variables: Annotated[Sequence[str], OneOrMore()] = KEY_VARIABLES
    usage_tokens: Annotated[Sequence[str], OneOrMore()] = (
        "usage.input_tokens",
        "usage.prompt_tokens",
    )
    yes_no: Annotated[YesNo | None, nested(YesNo, optional=True)] = None
    graded: Annotated[Grades | None, nested(Grades, optional=True)] = None
    each: Mapping[str, Any] | None = None
    together: Mapping[str, Any] | None = None
    layout: Layout = "each"
    max_questions: Annotated[int, Ge(1)] = 128
    answers: Annotated[str, MinLen(1)] = "answers"
    answer_id: Annotated[str, MinLen(1)] | None = None
    answer_type: Annotated[str, MinLen(1)] = "type"
    declined: Annotated[str, MinLen(1)] | None = None
    blocked: Annotated[str, MinLen(1)] | None = None
    usage_output_tokens: Annotated[Sequence[str], OneOrMore()] = (
        "usage.output_tokens",
        "usage.completion_tokens",
    )

    def __post_init__(self) -> None:
        known = {"model", "state", "state_text", *OF_REQUEST}
        _check(self.request, known, OF_REQUEST, {"question"}, "request")
        if not self.needs_state and "state_text" not in self.placeholders:
            message = "must contain '$state' or '$state_text'"
            raise ConfigurationError([Problem(("request",), message)])
        if self.yes_no is None and self.graded is None:
            raise ConfigurationError("yes_no, graded: give at least one of them")
        if self.each is not None:
            needed = {"query", "document"}
            _check(self.each, {*needed, "instruction"}, (), needed, "each")
        if self.together is not None:
            needed = {"query", "document", "id"}
            _check(self.together, {*needed, "instruction"}, OF_STATE, needed, "together")
        if self.each is None and self.together is None and self.needs_state:
            raise ConfigurationError("each, together: give at least one of them, for '$state'")
        self._check()

    @property
    def needs_state(self) -> bool:
        """Whether a request needs a state by the template of a layout."""
        return "state" in self.placeholders

    @property
    def needs_model(self) -> bool:
        """Whether a request needs the name of a model."""
        return "model" in self.placeholders

    def state_of(self, layout: Layout) -> Mapping[str, Any] | None:
        """The template of the state in a layout; None if the API does not have it."""
        return self.each if layout == "each" else self.together

    def takes_instruction(self, layout: Layout) -> bool:
        """Whether the state of a layout has a place for the instruction of a call."""
        if "state_text" in self.placeholders:
            return True
        return "instruction" in api_template.placeholders(self.state_of(layout) or {})

    def renamed(self, names: Mapping[str, str]) -> DecisionApi:
        """A copy with other names of fields, in requests and responses.

        Raises:
            ConfigurationError: there is no field of a name, or two would have the same.
        """
        if not names:
            return self
        known: set[str] = set()

        def record(name: str) -> str:
            known.add(name)
            return name

        _renamed(self, record)
        for name in names:
            if name not in known:
                hint = suggestion(name, sorted(known))
                message = f"is no field of this API{hint}"
                raise ConfigurationError([Problem(("rename", name), message)])
        api: DecisionApi = _renamed(self, lambda name: names.get(name, name))
        return api


_TEMPLATES = frozenset({"request", "each", "together", "question"})
_PLACES_OF_API = frozenset({"answers", "answer_id", "answer_type", "blocked", "optional"})
_PLACES_OF_USAGE = frozenset({"usage_tokens", "usage_units", "usage_output_tokens"})
_PLACES_OF_QUESTION = frozenset({"probability", "probabilities", "level"})
_PLACES = _PLACES_OF_API | _PLACES_OF_USAGE | _PLACES_OF_QUESTION
"""Fields of a description, and of its questions, that are names or places of fields."""


def _renamed(part: Any, rename: Callable[[str], str]) -> Any:
    """A description, or a part of one, with ``rename`` applied to all names of fields in it."""
    if isinstance(part, DecisionApi | YesNo | Grades):
        changed = {}
        for field in fields(part):
            value = getattr(part, field.name)
            if field.name in _PLACES:
                changed[field.name] = _renamed_place(value, rename)
            elif field.name in _TEMPLATES or isinstance(value, YesNo | Grades):
                changed[field.name] = _renamed(value, rename)
        return replace(part, **changed)
    if isinstance(part, Mapping):
        result = {}
        for key, value in part.items():
            name = rename(key) if api_template.placeholder(key) is None else key
            if name in result:
                message = f"{name!r} is already the name of another field"
                raise ConfigurationError([Problem(("rename",), message)])
            result[name] = _renamed(value, rename)
        return result
    if isinstance(part, list | tuple):
        return [_renamed(value, rename) for value in part]
    return part


def _renamed_place(place: Any, rename: Callable[[str], str]) -> Any:
    """A place with ``rename`` applied to each of its names; or several places; or None."""
    if isinstance(place, str):
        return ".".join(map(rename, place.split(".")))
    if not place:
        return place
    return [_renamed_place(one, rename) for one in place]


def _check(
    template: Mapping[str, Any],
    known: set[str],
    each: frozenset[str] | tuple[()],
    needed: set[str],
    setting: str = "question",
) -> None:
    """Check a template, in which the placeholders ``known`` have a value, and some are ``needed``.

    Those of ``each`` have one for each repetition.
    """
    named = [name for name in PLACEHOLDERS if name in known]
    problems = [*api_template.misplaced(template, named, each)]
    if not problems:
        missing = sorted(needed - api_template.placeholders(template))
        problems = [Problem((), f"must contain the placeholder '${name}'") for name in missing]
    if problems:
        raise ConfigurationError([problem.under((setting,)) for problem in problems])


DECISION_APIS: Descriptions[DecisionApi] = Descriptions(
    "decision_apis", DecisionApi, "a decision API"
)
"""The built-in decision APIs by name."""

DECISION_API_SETTING = DECISION_APIS.setting()
"""Marks a parameter that holds a decision API."""
