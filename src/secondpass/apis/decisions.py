"""Decision models: a state and questions go in, probabilities come out, nothing is generated.

The APIs are described as data (:mod:`secondpass.apis.decision_descriptions`). There is no reply to
parse, and no label that a passage could forge. For n candidates, the layout ``each`` sends n
requests, ``together`` ceil(n / b) with batches of b, all side by side in one round; every document
is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.apis import decision_answers as answers
from secondpass.apis import template as api_template
from secondpass.apis import wire
from secondpass.apis.decision_descriptions import (
    DECISION_API_SETTING,
    DECISION_APIS,
    KEY_VARIABLES,
    OF_LEVELS,
    OF_REQUEST,
    OF_STATE,
    TEXTS,
    DecisionApi,
    Grades,
    Layout,
    YesNo,
)
from secondpass.apis.method import ApiMethod
from secondpass.apis.wire import Pairs, Response, ResponseScores
from secondpass.concurrency.threads import in_thread
from secondpass.effects import Completion
from secondpass.errors import ConfigurationError, Problem, ReplyError
from secondpass.limits import Prices
from secondpass.prompts.fencing import fenced
from secondpass.prompts.labels import label_all
from secondpass.prompts.template import call_instruction
from secondpass.questions import estimate_tokens
from secondpass.services import json_http
from secondpass.services.echoes import Sent
from secondpass.settings import SECRET, Variables, configurable, nested
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, MaxLen, MinLen

_DOCUMENT = "{document}"
_ALONE = "document"
"""The id of the only question of a request."""
_BATCH_SIZE = 50
_INSTRUCTIONS = {
    "graded": "How well does {document} answer the query?",
    "yes_no": "The query is answered by {document}.",
}
_LEVELS = (
    "Unrelated: nothing in it helps with the query.",
    "The same topic, but it does not answer the query.",
    "It answers a part of the query, or answers it vaguely.",
    "It answers the query in full.",
)


@configurable
class Decisions(ApiMethod[DecisionApi]):
    """Scores candidates by the probabilities that a decision model gives to answers.

    Args:
        api: the shape of the API: the name of a built-in one, the path of a YAML file that
            describes another, or that description.
        model: its name.
        base_url: the URL without the API's path, for another provider or server of that shape.
        path: replaces the API's path.
        rename: names of fields of another provider, by those of the description; three at most.
        api_key: the key. Prefer an environment variable.
        api_key_env: environment variable that holds the key, or several to try in turn, instead of
            the usual one; with ``base_url`` that is ``DECISIONS_API_KEY``.
        question: ``graded`` asks for the probability of each level of a scale, of which the
            expected level counts, from 0 to 1; ``yes_no`` for the probability that a document
            answers the query.
        levels: what the levels of the scale mean, lowest first; of ``yes_no``, what a no and a yes
            mean.
        instructions: the question. ``{document}`` stands for "the document" or, in the layout
            ``together``, for the one that is asked about.
        layout: ``each`` sends one document per request; ``together`` a batch, with a question about
            each document in it. None is what the API's description says.
        batch_size: documents per request of ``together``; None is 50, or fewer if the API takes
            fewer questions.
        timeout: seconds per answer.
        prices: per million tokens, for ``limits.cost`` and the report.
        options: further fields of the request.

    A document that the model declines to decide about is unjudged, never 0. If a probability of
    a yes is outside 0 to 1, no score of the ranking is used.

    Raises:
        ConfigurationError: a missing base URL or model, or a setting that the API does not have.
    """

    _apis = DECISION_APIS
    _fixed = TEXTS | {"id", "model"}
    _output_tokens = 1
    _splits_long = True  # its documents share one state

    def __init__(
        self,
        api: Annotated[Any, DECISION_API_SETTING],
        *,
        model: Annotated[str, MinLen(1)] | None = None,
        base_url: Annotated[str, MinLen(1)] | None = None,
        path: Annotated[str, MinLen(1)] | None = None,
        rename: Annotated[Mapping[str, Annotated[str, MinLen(1)]], MaxLen(3)] | None = None,
        api_key: Annotated[Any, SECRET] = None,
        api_key_env: Variables = None,
        question: Literal["graded", "yes_no"] = "graded",
        levels: Annotated[Sequence[Annotated[str, MinLen(1)]], MinLen(2)] | None = None,
        instructions: Annotated[str, MinLen(1)] | None = None,
        layout: Literal["each", "together"] | None = None,
        batch_size: Annotated[int, Ge(1)] | None = None,
        timeout: Annotated[float, Gt(0)] = 30.0,
        prices: Annotated[Prices | None, nested(Prices, optional=True)] = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        described = DECISION_APIS.resolve(api)
        try:
            described = described.renamed(rename or {})
        except ConfigurationError as error:
            problems = [problem.under(("rename",)) for problem in error.problems]
            raise ConfigurationError(problems) from None
        self.rename = rename
        self.question = question
        self.levels = levels
        self.instructions = instructions
        self.layout = layout
        self.batch_size = batch_size
        self._describe(
            api,
            described,
            described.request,
            model=model,
            base_url=base_url,
            path=path,
            api_key=api_key,
            api_key_env=api_key_env,
            timeout=timeout,
            prices=prices,
            options=options,
        )
        if base_url is not None and described.url is not None:
            self.key_variables = KEY_VARIABLES  # the usual key is not that of another provider
        self._layout: Layout = layout or described.layout
        self._check_question(described)
        self.scale = None if question == "yes_no" else (0.0, 1.0)

    def _check_question(self, api: DecisionApi) -> None:
        """Check the settings of the question against the API, and keep the question.

        Raises:
            ConfigurationError: the API does not support one, or they contradict each other.
        """
        asked = api.graded if self.question == "graded" else api.yes_no
        if asked is None:
            raise ConfigurationError(f"question: {self.question!r} is not supported by this API")
        if not api.has_layout(self._layout):
            raise ConfigurationError(f"layout: {self._layout!r} is not supported by this API")
        self._asked: YesNo | Grades = asked
        self._levels = self.levels or (_LEVELS if isinstance(asked, Grades) else ())
        if isinstance(asked, Grades) and len(self._levels) > asked.max_levels:
            raise ConfigurationError(f"levels: this API takes {asked.max_levels} at most")
        if isinstance(asked, YesNo) and self.levels is not None:
            if not asked.takes_meanings:
                message = "levels: what a no and a yes mean is not supported by this API"
                raise ConfigurationError(f"{message}; say it in instructions")
            if len(self.levels) != 2:
                raise ConfigurationError("levels: give two: what a no means, and what a yes means")
        self._instructions = self.instructions or _INSTRUCTIONS[self.question]
        together = self._layout == "together"
        if together and _DOCUMENT not in self._instructions:
            message = f"must contain {_DOCUMENT}: ids of questions are not shown to the model"
            raise ConfigurationError([Problem(("instructions",), message)])
        if self.batch_size is not None and self.batch_size > (api.max_questions if together else 1):
            limit = f"{api.max_questions} at most" if together else "1 in the layout 'each'"
            raise ConfigurationError(f"batch_size: must be {limit}")

    @property
    def score_kind(self) -> ScoreKind:
        """What its scores mean."""
        return "grade" if self.question == "graded" else "probability"

    @property
    def isolated(self) -> bool:
        """Whether no request shows more than one candidate."""
        return self._layout == "each"

    @property
    def takes_instruction(self) -> bool:
        """Whether the state has a place for the instruction of a call."""
        return self._api.takes_instruction(self._layout)

    # ------------------------------------------------------------------ one request

    @property
    def _most_documents(self) -> int:
        if self._layout == "each":
            return 1
        return self.batch_size or min(_BATCH_SIZE, self._api.max_questions)

    def _estimate(self, query: str, instruction: str | None) -> Callable[[str], float]:
        question = sum(map(estimate_tokens, (self._instructions, *self._levels)))
        if self._layout == "each":  # of a batch, the query is one of many texts
            question += estimate_tokens(query) + estimate_tokens(instruction or "")
        return lambda document: estimate_tokens(document) + question

    def _ids(self, request: Pairs) -> list[str]:
        """The ids of the questions of a request, which are labels of its documents."""
        if self._layout == "each":
            return [_ALONE]
        return label_all("opaque", request.query, request.documents, ())

    def _body(self, request: Pairs, without: Sequence[str]) -> dict[str, Any]:
        ids = self._ids(request)
        values = {
            "model": self.model,
            "state": self._state(request, ids),
            "state_text": self._state_text(request, ids),
        }
        questions = [{"id": name, "question": self._question_about(name)} for name in ids]
        template = {name: part for name, part in self._api.request.items() if name not in without}
        body = api_template.fill(template, values, questions, OF_REQUEST)
        return api_template.laid_over(template, body, self.options or {})

    def _question_about(self, name: str) -> dict[str, Any]:
        alone = self._layout == "each"
        document = "the document" if alone else f"the document with the id {name}"
        asked = self._instructions.replace(_DOCUMENT, document)
        no, yes = self._levels if isinstance(self._asked, YesNo) and self._levels else (None, None)
        values = {"id": name, "instructions": asked, "no": no, "yes": yes}
        levels = [{"level": text, "index": str(number)} for number, text in enumerate(self._levels)]
        return api_template.fill(self._asked.question, values, levels, OF_LEVELS)

    def _state(self, request: Pairs, ids: Sequence[str]) -> dict[str, Any] | None:
        values = {"query": request.query, "instruction": request.instruction}
        if self._layout == "each":
            values["document"] = request.documents[0]
            return api_template.fill(self._api.each or {}, values, (), ())
        documents = [
            {"id": name, "document": text}
            for name, text in zip(ids, request.documents, strict=True)
        ]
        return api_template.fill(self._api.together or {}, values, documents, OF_STATE)

    def _state_text(self, request: Pairs, ids: Sequence[str]) -> str:
        labels: Sequence[str | None] = [None] if self._layout == "each" else ids
        documents = [
            fenced("document", text, label)
            for label, text in zip(labels, request.documents, strict=True)
        ]
        instruction = call_instruction(request.instruction)
        return "\n".join(filter(None, [fenced("query", request.query), *documents, instruction]))

    async def _response(self, text: str, sent: Sent, _without: Sequence[str]) -> Response:
        parsed = json_http.parse_json(text, mark_doubled=True)
        tokens = wire.tokens_used(parsed, self._api.usage_tokens)
        output = wire.tokens_used(parsed, self._api.usage_output_tokens)
        units = wire.units_used(parsed, self._api.usage_units)
        remark = ""
        if parsed is not json_http.INVALID and answers.lacks_answers(parsed, self._api):
            # In a thread: comparing megabytes takes seconds.
            remark = await in_thread(lambda: answers.remark(parsed, self._api, sent))
        return Response(text, False, tokens, output, units=units, body=parsed, remark=remark)

    def _read(self, completion: Completion, request: Pairs) -> ResponseScores:
        remark = ""
        if isinstance(completion, Response):
            body, remark = completion.body, completion.remark
        else:
            body = json_http.parse_json(completion.text, mark_doubled=True)
        if body is json_http.INVALID:
            raise ReplyError("it is not JSON", "bad_response")
        ids = self._ids(request)
        try:
            scores = answers.read_answers(body, self._api, self._asked, ids, len(self._levels))
        except ReplyError as error:
            if error.code != "bad_response":
                raise
            raise ReplyError(f"{error}{remark}", error.code) from None
        return wire.with_skipped(scores, request.skipped)
