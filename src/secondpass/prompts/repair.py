"""Asks a language model once more, after a reply that cannot be used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from secondpass.effects import Completion, Prompt, Question, Turn
from secondpass.errors import ReplyError
from secondpass.prompts.fencing import as_text
from secondpass.ranking.rendering import well_formed

_LONGEST_QUOTE = 4000
"""Characters of an unusable reply that are sent back to the model."""


def repair_prompt(
    question: Question[Prompt, Any], completion: Completion, error: ReplyError
) -> Prompt:
    """The prompt, followed by the unusable reply and the reason why it cannot be used.

    The reply may quote a passage, so it is escaped like one.
    """
    message = f"Your reply cannot be used: {error}. {question.reminder}"
    quoted = as_text(well_formed(completion.text[:_LONGEST_QUOTE]))
    turns = question.request.turns
    if quoted.strip():
        turns = (*turns, Turn("assistant", quoted), Turn("user", message))
    else:  # some servers refuse an empty turn
        turns = (*turns[:-1], Turn(turns[-1].role, f"{turns[-1].text}\n\n{message}"))
    return replace(question.request, turns=turns)
