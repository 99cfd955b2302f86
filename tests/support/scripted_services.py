"""A service that replies from a list, questions to ask it, and what comes back."""

import asyncio

from secondpass.asking.dispatch import ask
from secondpass.asking.gate import Gate
from secondpass.effects import Ask
from secondpass.errors import LLMError, MissingExtraError, ReplyError
from secondpass.limits import Limits
from secondpass.questions import Completion, Estimate, Prompt, Question, Turn
from secondpass.ranking.ledger import Ledger


def question(read=lambda completion: completion.text, shrink=lambda: None, text="ask"):
    prompt = Prompt("be brief", (Turn("user", text),))
    return Question(prompt, read, "Reply with ONLY a word.", shrink, Estimate(10, 5), 3)


def ask_all(model, *questions, width=8, fallback=False, **limits):
    """The answers to questions of a method, perhaps one with a fallback, and the ledger."""
    ledger = Ledger(Limits(**limits))
    ledger.keep_time(last=not fallback)

    async def act():
        return await ask(Ask(model, questions), ledger, Gate(width))

    return asyncio.run(act()), ledger


class ScriptedService:
    """Replies in sequence and repeats the last reply; exceptions are raised."""

    name = "scripted"

    def __init__(self, *replies):
        self.replies = replies
        self.prompts = []

    async def complete(self, prompt):
        reply = self.replies[min(len(self.prompts), len(self.replies) - 1)]
        self.prompts.append(prompt)
        if isinstance(reply, BaseException):
            raise reply
        return Completion(reply) if isinstance(reply, str) else reply


def rejecting(*words):
    """A reader that accepts anything but these words."""

    def read(completion):
        if completion.text in words:
            raise ReplyError("it is not a good word")
        return completion.text

    return read


BUSY = LLMError("the server is busy", "server_error", retryable=True)
DOWN = LLMError("the key was refused", "authentication")
ADAPTED = LLMError("a parameter was dropped", "parameter_refused", adapted=True)


def after(seconds):
    return LLMError("too many requests", "rate_limited", retryable=True, retry_after=seconds)


def ranked_by(reranker, asynchronous, texts=("1 wombats", "2 wombats")):
    if asynchronous:
        return asyncio.run(reranker.arerank("q", texts))
    return reranker.rerank("q", texts)


NOT_INSTALLED = MissingExtraError("openai", "the model")
