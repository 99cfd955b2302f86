"""Responses whose envelope or text is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fake_provider.logprobs import Token, log, with_logprobs
from fake_provider.replies import (
    best_first,
    envelope,
    grades_of,
    reply_text,
    rerank_envelope,
    rerank_rows,
)
from fake_provider.requests import Request, Step
from fake_provider.steps import answered, by_api, changed, good_but, http


def without_choices(empty: bool) -> Step:
    """No choice to take a text from: an empty list of them, or none."""

    def change(name: str) -> Step:
        return changed(lambda reply: reply.update({name: []}) if empty else reply.pop(name))

    return by_api(anthropic=change("content"), google=change("candidates"), other=change("choices"))


def content(value: Any) -> Step:
    """Something in the place of the text: None, a list, a number."""

    def change_google(reply: Any) -> None:
        reply["candidates"][0]["content"] = {"parts": value} if isinstance(value, list) else value

    return by_api(
        anthropic=changed(lambda reply: reply.update(content=value)),
        google=changed(change_google),
        other=changed(lambda reply: reply["choices"][0]["message"].update(content=value)),
    )


def text_in_parts() -> Step:
    """The text as a list of two parts, which some servers send and some APIs allow."""

    def make(request: Request) -> Any:
        text = reply_text(request)
        kind = {} if request.api == "google" else {"type": "text"}
        parts = [{**kind, "text": text[:9]}, {**kind, "text": text[9:]}]
        reply = envelope(request, text)
        if request.api == "anthropic":
            reply["content"] = parts
        elif request.api == "google":
            reply["candidates"][0]["content"]["parts"] = parts
        else:
            reply["choices"][0]["message"]["content"] = parts
        return reply

    return answered(make)


def cut_off() -> Step:
    """The reply ends in the middle of its JSON, at the largest number of tokens."""

    def make(request: Request) -> Any:
        text = reply_text(request)
        return _out_of_tokens(request, envelope(request, text[: len(text) // 2]))

    return answered(make)


def cut_off_before_the_first_word() -> Step:
    """All tokens went into thinking, and the text is empty."""

    def make(request: Request) -> Any:
        reply = envelope(request, "")
        if request.api == "google":
            reply["candidates"][0]["content"] = {"role": "model"}
        return _out_of_tokens(request, reply)

    return answered(make)


def _out_of_tokens(request: Request, reply: Any) -> Any:
    if request.api == "anthropic":
        reply["stop_reason"] = "max_tokens"
    elif request.api == "google":
        reply["candidates"][0]["finishReason"] = "MAX_TOKENS"
    else:
        reply["choices"][0]["finish_reason"] = "length"
    return reply


def tool_call_instead() -> Step:
    """A call of a tool that was not offered."""
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"a": 5}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    use = {"type": "tool_use", "id": "t1", "name": "search", "input": {"a": 5}}
    parts = [{"functionCall": {"name": "search", "args": {"a": 5}}}]
    return by_api(
        anthropic=changed(lambda reply: reply.update(content=[use], stop_reason="tool_use")),
        google=changed(lambda reply: reply["candidates"][0]["content"].update(parts=parts)),
        other=changed(
            lambda reply: reply["choices"][0].update(message=message, finish_reason="tool_calls")
        ),
    )


def thinking_before() -> Step:
    """Thoughts beside the text, in the place that each dialect has for them; no fault."""

    def change_google(reply: Any) -> None:
        parts = reply["candidates"][0]["content"]["parts"]
        parts.insert(0, {"text": 'Perhaps {"a": 1}', "thought": True})

    thought = {"type": "thinking", "thinking": 'Perhaps {"a": 1}', "signature": "s"}
    return by_api(
        anthropic=changed(lambda reply: reply["content"].insert(0, thought)),
        google=changed(change_google),
        other=changed(
            lambda reply: reply["choices"][0]["message"].update(reasoning_content='{"a": 1}')
        ),
    )


def usage(value: Any) -> Step:
    """Something in the place of the usage; None takes it out."""

    def change(name: str) -> Step:
        return changed(
            lambda reply: reply.pop(name) if value is None else reply.update({name: value})
        )

    return by_api(google=change("usageMetadata"), other=change("usage"))


def typed(kind: str) -> Step:
    """A good reply under another content type; an empty one takes the header out."""
    return good_but(lambda _request, whole: [http(200, whole, kind=kind)])


def event_stream() -> Step:
    """A stream of events, which was not requested."""
    return good_but(
        lambda _request, whole: [
            http(200, b"data: " + whole + b"\n\ndata: [DONE]\n\n", kind="text/event-stream")
        ]
    )


@dataclass
class Answer:
    """What a reply could say, for functions that say it wrongly.

    Attributes:
        grades: by label, in the order of the request.
    """

    grades: dict[str, float] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """In the order of the request."""
        return list(self.grades)

    @property
    def ranking(self) -> list[str]:
        """The labels, best first."""
        return best_first(self.grades)

    @property
    def json(self) -> str:
        """The keyed object."""
        return json.dumps(self.grades)

    def but(self, value: Any) -> str:
        """The keyed object with another value for the first label."""
        return json.dumps({**self.grades, self.labels[0]: value})

    def but_raw(self, value: str) -> str:
        """The same with a value that need not be JSON."""
        return self.but("@@").replace('"@@"', value)

    def pairs(self) -> list[dict[str, Any]]:
        """The rows of the reply form ``pairs``."""
        return [{"id": label, "score": value} for label, value in self.grades.items()]


def says(make: Callable[[Answer], Any], *, cut: bool = False) -> Step:
    """The text that a function makes of the right answer; what is not a string is made JSON.

    If ``cut``, it ends at the largest number of tokens.
    """

    def reply(request: Request) -> Any:
        made = make(Answer(grades_of(request)))
        whole = envelope(request, made if isinstance(made, str) else json.dumps(made))
        return _out_of_tokens(request, whole) if cut else whole

    return answered(reply)


def replying(
    text: str, *tokens: Token, change: Callable[[Any], object] = lambda reply: None
) -> Step:
    """This text, with the log probabilities of its tokens; a function may change the envelope."""

    def make(request: Request) -> Any:
        reply = with_logprobs(envelope(request, text), request, tokens)
        change(reply)
        return reply

    return answered(make)


def logprobs_of_completions(text: str, *tokens: Token) -> Step:
    """The same in the form of the older Completions API, which some servers use for chats too."""

    def change(reply: Any) -> None:
        firsts = [next(iter(token.items())) for token in tokens]
        reply["choices"][0]["logprobs"] = {
            "tokens": [name for name, _ in firsts],
            "token_logprobs": [log(value) for _, value in firsts],
            "top_logprobs": [{name: log(value) for name, value in t.items()} for t in tokens],
            "text_offset": [0] * len(tokens),
        }

    return replying(text, change=change)


def rerank_answers(change: Callable[[list[dict[str, Any]]], Any]) -> Step:
    """The reply of a rerank API whose rows a function has changed."""

    def make(request: Request) -> Any:
        rows = change(rerank_rows(request))
        if isinstance(rows, list) and all(isinstance(row, dict) for row in rows):
            return rerank_envelope(request, rows)
        api = request.rerank
        return {**rerank_envelope(request, []), **api.around(rows)} if api and api.rows else rows

    return answered(make)
