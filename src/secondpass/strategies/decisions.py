"""The decision calls of OpenAI and Gemini: a probability for each of many statements.

There is no reply to parse, and no label that a passage could forge. The documents of a batch are
the input, and there is one statement per document: that it answers the query.
For n candidates and batches of b: ceil(n / b) calls side by side in one round; every document is
read once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from secondpass.effects import Completion, Estimate, Judgement, Plan, Question, Task
from secondpass.errors import ConfigurationError, LLMError, ReplyError
from secondpass.limits import Prices
from secondpass.llms.google import connect as connect_google
from secondpass.llms.openai import connect as connect_openai
from secondpass.prompts.fencing import fenced
from secondpass.prompts.labels import label_all
from secondpass.prompts.replies import values
from secondpass.prompts.replies.values import BatchScores
from secondpass.prompts.template import call_instruction
from secondpass.questions import Recall, cut_evenly, estimate_tokens
from secondpass.ranking.scoring import in_range, range_of, to_float
from secondpass.services.client import Client, Connection, token_count
from secondpass.services.echoes import Sent
from secondpass.settings import SECRET, Secret, Variables, configurable, nested
from secondpass.strategies.base import (
    IssueCollector,
    equal_scores,
    merge_batches,
    split_batches,
)
from secondpass.strategies.halving import ask_batches
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Ge, Gt, Le, MinLen

_ID = "{id}"
_DECLINED = "declined"
_KEY_VARIABLES = {
    "openai": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
_URL_VARIABLES = {"openai": ("OPENAI_BASE_URL",), "google": ("GOOGLE_GEMINI_BASE_URL",)}


@dataclass(frozen=True, slots=True)
class Statements:
    """A request: an input, and by label a statement about each of its documents."""

    input: str
    statements: dict[str, str]


@configurable
class Decisions(Client[Statements]):
    """Scores candidates by the probability that they answer the query, as a provider states it.

    Args:
        provider: whose API it is.
        model: its name.
        base_url: replaces the provider's own address.
        api_key: the key. Prefer an environment variable.
        api_key_env: environment variable that holds the key, or several to try in turn, instead of
            the provider's usual one.
        statement: what is decided about each document; ``{id}`` stands for the document.
        batch_size: documents per request, at most 400.
        timeout: seconds per answer.
        prices: per million tokens, for ``limits.cost`` and the report.

    A document that the model declines to decide about is unjudged, never 0. The score kind is
    ``probability``; if a number is outside 0 to 1, no score of the ranking is used.
    """

    score_kind: ScoreKind = "probability"
    scale = None
    takes_instruction = True

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
        if _ID not in statement:
            raise ConfigurationError(f"statement: must contain {_ID}")
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
        self.key_variables = _KEY_VARIABLES[provider]
        self.url_variables = _URL_VARIABLES[provider]
        self._prepare()

    @property
    def language_models(self) -> list[Any]:
        """The services that are called, for their prices."""
        return [self]

    def judge(self, task: Task) -> Plan[Judgement]:
        """One Ask effect with a question per batch; more for refused ones.

        Raises:
            MethodError: no batch was answered.
        """
        count = len(task.texts)
        issues = IssueCollector(self.name)
        batches = list(split_batches(count, self.batch_size))
        question = partial(self._question, task)
        answers = yield from ask_batches(task.call, self, question, batches, issues)
        return merge_batches(count, answers, word="score", issues=issues)

    # ------------------------------------------------------------------ one request

    def _question(
        self, task: Task, batch: range, shortened: Sequence[str] | None = None
    ) -> Question[Statements, BatchScores]:
        texts = task.texts[batch.start : batch.stop] if shortened is None else shortened
        labels = label_all("opaque", task.query, texts, ())
        request = self._request(task, texts, labels)

        def shrink() -> Question[Statements, BatchScores] | None:
            if shortened is not None:
                return None
            shorter = cut_evenly(texts, sum(map(len, texts)) // 2)
            return None if shorter is None else self._question(task, batch, shorter)

        return Question(
            request,
            lambda completion: _read(completion, labels),
            None,
            shrink,
            Estimate(
                estimate_tokens(request.input) + len(labels) * estimate_tokens(self.statement),
                len(labels),
            ),
            len(labels),
            equal_scores(len(labels)),
            recall=Recall(
                lambda: self._request(task, texts, [str(n) for n in range(len(texts))]),
                values.dump,
                lambda data: values.load(data, len(texts), BatchScores),
            ),
        )

    def _request(self, task: Task, texts: Sequence[str], labels: Sequence[str]) -> Statements:
        documents = [fenced("doc", text, label) for label, text in zip(labels, texts, strict=True)]
        parts = [fenced("query", task.query), *documents, call_instruction(task.instruction)]
        content = "\n".join(filter(None, parts))
        statements = {label: self.statement.replace(_ID, label) for label in labels}
        return Statements(content, statements)

    def _connect(self, key: str) -> Connection:
        connect = connect_openai if self.provider == "openai" else connect_google
        return connect(key, self.base_url, self.timeout)

    def _texts(self, request: Statements) -> Sequence[str]:
        return [request.input]

    async def _answer(self, client: Any, request: Statements, _sent: Sent) -> Completion:
        if not hasattr(getattr(client, "aio", client), "decisions"):
            message = f"the installed version of {self.package!r} has no decision calls; upgrade it"
            raise LLMError(message, "missing_extra", sent=False)
        decide = _decide_openai if self.provider == "openai" else _decide_google
        probabilities, usage = await decide(client, self.model or "", request)
        input_tokens = getattr(usage, "input_tokens", getattr(usage, "total_input_tokens", None))
        output_tokens = getattr(usage, "output_tokens", getattr(usage, "total_output_tokens", None))
        return Completion(
            json.dumps(probabilities), False, token_count(input_tokens), token_count(output_tokens)
        )


async def _decide_openai(
    client: Any, model: str, request: Statements
) -> tuple[dict[str, Any], Any]:
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
        raise LLMError("the response has a different number of answers", "bad_response")
    # Answers are in the order of the questions; one with another name is ignored.
    probabilities = {
        label: _DECLINED
        if getattr(answer, "type", None) == "refusal"
        else getattr(answer, "probability", None)
        for label, answer in zip(labels, answers, strict=True)
        if getattr(answer, "name", None) in {None, label}
    }
    return probabilities, getattr(response, "usage", None)


async def _decide_google(
    client: Any, model: str, request: Statements
) -> tuple[dict[str, Any], Any]:
    response = await client.aio.decisions.create(
        model=model if model.startswith("models/") else f"models/{model}",
        input=request.input,
        questions={
            label: {"type": "noul", "instructions": statement}
            for label, statement in request.statements.items()
        },
    )
    if getattr(getattr(response, "prompt_feedback", None), "block_reason", None):
        raise LLMError("the input was blocked", "content_filter")
    answers = getattr(response, "answers", None)
    if not isinstance(answers, dict):
        raise LLMError("the response has no answers", "bad_response")
    probabilities = {
        label: getattr(answers[label], "noul", None) if label in answers else _DECLINED
        for label in request.statements
    }
    return probabilities, getattr(response, "usage", None)


def _read(completion: Completion, labels: Sequence[str]) -> BatchScores:
    probabilities = json.loads(completion.text)
    bounds = range_of("probability")
    numbers = [to_float(probabilities.get(label)) for label in labels]
    for number in numbers:
        if number is not None and math.isfinite(number) and in_range(number, bounds) is None:
            message = f"it has a probability of {number:.6g}, so none of its numbers is used"
            raise ReplyError(message, "score_out_of_range")
    scores = tuple(None if number is None else in_range(number, bounds) for number in numbers)
    missing = [index for index, score in enumerate(scores) if score is None]
    declined = tuple(i for i in missing if probabilities.get(labels[i]) == _DECLINED)
    if len(missing) == len(labels):
        if declined:
            message = "it declines to decide about any document"
            raise ReplyError(message, "content_filter", repairable=False)
        raise ReplyError("it has no usable probability")
    refused = tuple(index for index in missing if index not in declined)
    return BatchScores(scores, refused, declined=declined)
