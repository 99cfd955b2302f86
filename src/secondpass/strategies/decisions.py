"""The scoring calls of OpenAI and Gemini: a probability for each of many statements.

There is nothing to parse, and no label that a passage could forge.
All documents of a batch are the input, and that a document answers the query is one statement each.
For n candidates and batches of b: ceil(n / b) calls, side by side in one round; every document is
read once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.effects import Answer, Ask, Completion, Estimate, Judgement, Plan, Question, Task
from secondpass.errors import ConfigurationError, LLMError, ReplyError
from secondpass.limits import Prices
from secondpass.llms.google import connect as connect_google
from secondpass.llms.openai import connect as connect_openai
from secondpass.prompts.fencing import fenced
from secondpass.prompts.labels import label_all
from secondpass.prompts.questions import cut_evenly, tokens_of
from secondpass.prompts.readers import Grades
from secondpass.scoring import in_range, range_of, to_float
from secondpass.services.client import Client, Connection, token_count
from secondpass.services.echoes import Sent
from secondpass.settings import SECRET, Secret, Variables, configurable, nested
from secondpass.strategies.base import batches, graded
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le, MinLen

_PLACE = "{id}"
_DECLINED = "declined"
_KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}


@dataclass(frozen=True, slots=True)
class Statements:
    """A request: an input, and a statement about each of its documents, by label."""

    input: str
    statements: dict[str, str]


@configurable
class Decisions(Client[Statements]):
    """Scores candidates by the probability that they answer the query, as a provider states it.

    Args:
        provider: whose API it is: OpenAI's or Google's.
        model: its name.
        base_url: where to ask instead of the provider's own address.
        api_key: the key. Better left to the environment.
        api_key_env: the environment variable that holds the key, or several to try in turn, instead
            of the provider's usual
            one.
        statement: what is decided of each document; ``{id}`` stands for the document.
        batch_size: documents a request; 400 at most.
        timeout: seconds that one answer may take.
        prices: per million tokens, for ``limits.cost`` and the report.

    A document that the model declines to decide about is unjudged, never 0. The score kind is
    ``probability``; a number outside 0 to 1 puts the whole ranking in doubt, so no score is used.
    """

    score_kind: ScoreKind = "probability"
    scale = None

    def __init__(
        self,
        provider: Literal["openai", "google"],
        *,
        model: Annotated[str, MinLen(1)],
        base_url: Annotated[str, MinLen(1)] | None = None,
        api_key: Annotated[Any, SECRET] = None,
        api_key_env: Variables = None,
        statement: str = "The document with the id {id} answers the query.",
        batch_size: Annotated[int, Ge(1), Le(400)] = 50,
        timeout: Annotated[float, Gt(0)] = 60.0,
        prices: Annotated[Prices | None, nested(Prices, optional=True)] = None,
    ) -> None:
        if _PLACE not in statement:
            raise ConfigurationError(f"statement: has to hold {_PLACE}, for the document")
        self.provider = provider
        self.model = model
        self.base_url = base_url
        self.api_key: Secret | None = api_key
        self.api_key_env = api_key_env
        self.statement = statement
        self.batch_size = batch_size
        self.timeout = timeout
        self.prices = prices
        self.package = {"openai": "openai", "google": "google.genai"}[provider]
        self.extra = provider
        self.key_variables = _KEYS[provider]
        self._prepare()

    @property
    def language_models(self) -> list[Any]:
        """What is asked, for its prices."""
        return [self]

    def judge(self, task: Task) -> Plan[Judgement]:
        """One Ask effect with a question for each batch.

        Raises:
            MethodError: no batch was answered.
        """
        stretches = list(batches(len(task.texts), self.batch_size))
        answers: list[Answer[Grades]] = yield Ask(
            self, [self._question(task, stretch) for stretch in stretches]
        )
        return graded(self.name, len(task.texts), stretches, answers, word="score")

    # ------------------------------------------------------------------ one request

    def _question(
        self, task: Task, stretch: range, texts: Sequence[str] | None = None
    ) -> Question[Statements, Grades]:
        shown = task.texts[stretch.start : stretch.stop] if texts is None else texts
        labels = label_all("opaque", task.query, shown, ())
        documents = [fenced("doc", text, label) for label, text in zip(labels, shown, strict=True)]
        given = "\n".join([fenced("query", task.query), *documents])

        def shrink() -> Question[Statements, Grades] | None:
            shorter = cut_evenly(shown, sum(map(len, shown)) // 2)
            return None if shorter is None else self._question(task, stretch, shorter)

        return Question(
            Statements(given, {label: self.statement.replace(_PLACE, label) for label in labels}),
            lambda completion: _read(completion, labels),
            None,
            shrink if texts is None else lambda: None,
            Estimate(tokens_of(given) + len(labels) * tokens_of(self.statement), len(labels)),
            len(labels),
        )

    def _connect(self, key: str) -> Connection:
        connect = connect_openai if self.provider == "openai" else connect_google
        return connect(key, self.base_url, self.timeout)

    def _texts(self, request: Statements) -> Sequence[str]:
        return [request.input]

    async def _answer(self, client: Any, request: Statements, _sent: Sent) -> Completion:
        if not hasattr(getattr(client, "aio", client), "decisions"):
            told = f"the installed version of {self.package!r} has no such call; upgrade it"
            raise LLMError(told, "missing_extra", sent=False)
        ask = _ask_openai if self.provider == "openai" else _ask_google
        probabilities, usage = await ask(client, self.model or "", request)
        return Completion(
            json.dumps(probabilities),
            False,
            token_count(getattr(usage, "input_tokens", getattr(usage, "total_input_tokens", None))),
            token_count(
                getattr(usage, "output_tokens", getattr(usage, "total_output_tokens", None))
            ),
        )


async def _ask_openai(client: Any, model: str, request: Statements) -> tuple[dict[str, Any], Any]:
    labels = list(request.statements)
    response = await client.decisions.create(
        model=model,
        input=request.input,
        questions=[
            {"type": "predicate", "name": label, "instructions": statement}
            for label, statement in request.statements.items()
        ],
    )
    answers = getattr(response, "answers", None)
    if not isinstance(answers, list) or len(answers) != len(labels):
        raise LLMError("the response has another number of answers", "bad_response")
    # They come in the order of the questions; a name that says otherwise is not believed.
    found = {
        label: _DECLINED
        if getattr(answer, "type", None) == "refusal"
        else getattr(answer, "probability", None)
        for label, answer in zip(labels, answers, strict=True)
        if getattr(answer, "name", None) in {None, label}
    }
    return found, getattr(response, "usage", None)


async def _ask_google(client: Any, model: str, request: Statements) -> tuple[dict[str, Any], Any]:
    response = await client.aio.decisions.create(
        model=model if model.startswith("models/") else f"models/{model}",
        input=request.input,
        questions={
            label: {"type": "noul", "instructions": statement}
            for label, statement in request.statements.items()
        },
    )
    if getattr(getattr(response, "prompt_feedback", None), "block_reason", None):
        raise LLMError("the model refused to read the input", "content_filter")
    answers = getattr(response, "answers", None)
    if not isinstance(answers, dict):
        raise LLMError("the response has no answers", "bad_response")
    found = {
        label: getattr(answers[label], "noul", None) if label in answers else _DECLINED
        for label in request.statements
    }
    return found, getattr(response, "usage", None)


def _read(completion: Completion, labels: Sequence[str]) -> Grades:
    told = json.loads(completion.text)
    bounds = range_of("probability")
    numbers = [to_float(told.get(label)) for label in labels]
    for number in numbers:
        if number is not None and math.isfinite(number) and in_range(number, bounds) is None:
            message = f"it gives a probability of {number:.6g}, so none of its numbers is used"
            raise ReplyError(message, "score_out_of_range")
    values = tuple(None if one is None else in_range(one, bounds) for one in numbers)
    missing = [at for at, value in enumerate(values) if value is None]
    declined = tuple(at for at in missing if told.get(labels[at]) == _DECLINED)
    if len(missing) == len(labels):
        if declined:
            raise ReplyError("it declines to decide about any document", "content_filter")
        raise ReplyError("it holds no probability that can be used")
    refused = tuple(at for at in missing if at not in declined)
    return Grades(values, refused, declined=declined)
