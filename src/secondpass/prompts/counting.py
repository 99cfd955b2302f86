"""Tasks of dry runs, whose prompts are counted rather than rendered.

A dry run sends nothing and needs only the estimate of each question. A plan makes
several of them about one list, each of which would render prompts with all candidates.
"""

from __future__ import annotations

from dataclasses import replace

from secondpass.effects import Task
from secondpass.prompts.fencing import as_text
from secondpass.prompts.truncation import estimate_tokens
from secondpass.questions import cut


class TextTokens(dict[tuple[str, int], float]):
    """The estimated tokens of the beginnings of texts, by text and length; each is counted once.

    A context window cuts the same text to many lengths, so the beginnings themselves are not kept.
    """

    def __missing__(self, key: tuple[str, int]) -> float:
        text, length = key
        tokens = self[key] = estimate_tokens(as_text(cut(text, length)))
        return tokens


def counted(task: Task) -> Task:
    """The task for dry runs: questions about it have estimates, but empty prompts.

    All dry runs of the task, and of tasks made from it, share the tokens of its texts.
    """
    return task if task.text_tokens is not None else replace(task, text_tokens=TextTokens())
