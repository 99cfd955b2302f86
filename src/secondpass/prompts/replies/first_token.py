"""Reads a one-word reply by the probabilities of its first token."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from secondpass.errors import ReplyError
from secondpass.prompts.replies.thinking import answer_start, split_reply
from secondpass.questions import Completion

MAX_ALTERNATIVES = 20
"""The most alternatives per token that OpenAI, Google and vLLM report by default."""

_SPACE = " \t\r\n\u2581\u0120\u010a"
"""White space, and its symbols in the vocabularies of SentencePiece and byte-level BPE."""

_END_OF_ANSWER = r"(?:\s*\Z|\s*\n|[.!](?![.\w]))"
"""What follows the word in a reply that is cut: "No..." and "No, wait" may go on to another."""


@dataclass(frozen=True, slots=True)
class WordProbabilities:
    """Probabilities of the words that a reply may begin with."""

    listed: tuple[float | None, ...]
    """For each word, 0 to 1; None if no spelling of it is among the alternatives."""
    unlisted: float  # the highest probability that a token outside the alternatives can have


def word_probabilities(completion: Completion, words: Sequence[str]) -> WordProbabilities:
    """The probabilities of words, each a single token, at the first token of an answer.

    Thinking and white space before the answer are skipped. Tokens that differ from a word in case
    and in white space around it are added up.

    Raises:
        ReplyError: the reply is empty, or has no log probabilities of its text (``no_logprobs``).
    """
    places = {plain(word): place for place, word in enumerate(words)}
    parts = split_reply(completion.text)
    alternatives = _first_token(completion, parts.answer.strip())
    parts.check_doubtful(places.get(plain(parts.answer)), lambda text: places.get(plain(text)))
    listed: list[float | None] = [None] * len(words)
    total = 0.0
    for text, logprob in alternatives.items():
        probability = math.exp(logprob)
        total += probability
        place = places.get(plain(text))
        if place is not None:
            before = listed[place]
            listed[place] = probability if before is None else before + probability
    lowest = math.exp(min(alternatives.values()))
    return WordProbabilities(tuple(listed), max(0.0, min(lowest, 1 - total)))


def _first_token(completion: Completion, answer: str) -> Mapping[str, float]:
    """The first token that is part of the answer, with its alternatives."""
    if completion.logprobs is None:
        raise ReplyError("it has no log probabilities", "no_logprobs", repairable=False)
    if not answer:
        raise ReplyError("it is empty", "empty_reply")
    texts = [next(iter(token)) for token in completion.logprobs]
    # Some servers report the tokens of thinking, even if the text is without.
    start = answer_start("".join(texts))
    end = 0
    for text, token in zip(texts, completion.logprobs, strict=True):
        after_thinking = text[max(0, start - end) :]
        end += len(text)
        if not after_thinking.strip(_SPACE):
            continue
        if plain(answer).startswith(plain(text)):
            return token
        break
    message = "its log probabilities are not those of its text"
    raise ReplyError(message, "no_logprobs", repairable=False)


def is_answered(reply: str, words: Sequence[str]) -> bool:
    """Whether a reply that is cut has one of the words, and its end, after its thinking.

    A word that a sentence continues may begin the thinking of a model that marks only its end.
    """
    try:
        answer = plain(split_reply(reply).answer)
    except ReplyError:
        return False
    starts = "|".join(re.escape(plain(word)) for word in words)
    return re.match(rf"(?:{starts}){_END_OF_ANSWER}", answer) is not None


def plain(text: str) -> str:
    """A token or word without white space around it, in lower case."""
    return text.strip(_SPACE).casefold()
