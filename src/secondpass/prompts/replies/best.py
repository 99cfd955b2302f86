"""Reply formats that name the best document: its label in JSON, or its letter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from secondpass.effects import Completion
from secondpass.errors import ReplyError
from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.labels import letters
from secondpass.prompts.replies.base import ReplyFormat, object_schema
from secondpass.prompts.replies.first_token import MAX_ALTERNATIVES, word_probabilities
from secondpass.prompts.replies.json_object import JsonObject
from secondpass.prompts.replies.json_text import answer_text, whole_answer
from secondpass.prompts.replies.selection import only_answer
from secondpass.types import Candidate

_MEMBER = "best"
_FRAME = " \t\r\n`*."


class _Best(ReplyFormat[int]):
    """A reply is read as the place of the best document."""

    tokens_per_document = 0

    def dump(self, value: int) -> int:
        return value

    def load(self, data: Any, documents: int) -> int:
        if type(data) is not int or not 0 <= data < documents:
            raise ValueError("no place of a document")
        return data


class BestLabel(_Best):
    """``{"best": "<id>"}``."""

    name = "best"
    shape = "an object"

    def request(self) -> str:
        base = "" if self.first_index is None else f" Indices count from {self.first_index}."
        reply = f'{{"{_MEMBER}": {self.placeholder}}}'
        return f"Reply with ONLY one JSON object with the {self.key} of the best: {reply}.{base}"

    def schema(self, names: Sequence[str]) -> dict[str, Any]:
        if self.first_index is None:
            return object_schema({_MEMBER: {"type": "string", "enum": list(names)}})
        return object_schema({_MEMBER: {"type": "integer", "enum": [int(name) for name in names]}})

    def read(self, completion: Completion, labels: Labels) -> int:
        """The place of the only label in the reply.

        Raises:
            ReplyError: the reply is no label, and has none in the requested form, or several; or it
                counts indices from another number.
        """
        # A bare label is no answer after thinking without a start tag.
        place = _label_alone(answer_text(completion.text), labels)
        if place is not None:
            return place

        def parse(value: Any, _in_prose: bool) -> int | None:
            if not isinstance(value, JsonObject) or value.contested:
                return None
            if _MEMBER not in value and len(value) == 1:
                (value,) = value.values()
            label = value.get(_MEMBER) if isinstance(value, JsonObject) else None
            labels.check_base([label])
            return labels.place(label)

        return only_answer(completion, parse, _MEMBER, labels, None)[0]


class BestLetter(_Best):
    """The letter of the best document, chosen by the probabilities of the first token.

    Args:
        required: whether a reply without log probabilities is an error. Otherwise its text is read.
    """

    name = "letter"
    shape = "a letter"
    logprobs = MAX_ALTERNATIVES
    draws_labels = True

    def __init__(self, required: bool) -> None:
        super().__init__()
        self.needs_logprobs = required

    def request(self) -> str:
        return "Reply with ONLY the id of the best, which is one letter."

    def label(self, query: str, texts: Sequence[str], candidates: Sequence[Candidate]) -> Labels:  # noqa: ARG002
        return Labels(letters(query, texts), None)

    def expected_tokens(self, documents: int) -> int:  # noqa: ARG002
        return 2

    def read(self, completion: Completion, labels: Labels) -> int:
        """The place of the most probable letter.

        Raises:
            ReplyError: as for :func:`word_probabilities`, or no letter is among the alternatives;
                and, if log probabilities are not required, the text is none of the letters.
        """
        try:
            return _most_probable(completion, labels)
        except ReplyError as error:
            place = None if self.needs_logprobs else _whole_reply(completion, labels)
            if place is not None:
                return place
            if completion.logprobs is None and not self.needs_logprobs:
                raise ReplyError("it is not the letter of a document") from None
            raise error from None


def _most_probable(completion: Completion, labels: Labels) -> int:
    values = word_probabilities(completion, labels.names).listed
    probable = {place: value for place, value in enumerate(values) if value is not None}
    if not probable:
        raise ReplyError("the letter of no document is among the probable ones")
    return max(probable, key=lambda place: (probable[place], -place))


def _whole_reply(completion: Completion, labels: Labels) -> int | None:
    """The place of the label that is the whole reply; None if the reply is no label."""

    def read(text: str) -> int | None:
        return _label_alone(text, labels)

    return read(whole_answer(completion.text, read))


def _label_alone(text: str, labels: Labels) -> int | None:
    return labels.place(text.strip(_FRAME))
