"""Builds the questions of a task: their prompts, fitted to the model's context window."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from secondpass.effects import Task
from secondpass.errors import MethodError, reraise_exit, with_article
from secondpass.prompts.context import plain_context
from secondpass.prompts.fencing import as_text, between_tags, fenced
from secondpass.prompts.replies.base import ReplyFormat
from secondpass.prompts.template import Prompting, call_instruction, fill, listed
from secondpass.questions import (
    LLM,
    Estimate,
    Prompt,
    Question,
    Recall,
    Turn,
    cut_evenly,
    estimate_tokens,
)

T = TypeVar("T")

_MARGIN = 0.95  # share of the characters that fit by the estimate, which is rough


class Questions(Generic[T]):
    """Builds the questions of one task. Prompts fit into the model's ``context_window``, if any."""

    def __init__(
        self,
        task: Task,
        llm: LLM,
        prompting: Prompting,
        reply_format: ReplyFormat[T],
        *,
        scale: tuple[float, float] = (0, 0),
    ) -> None:
        self.task = task
        self.llm = llm
        self.prompting = prompting
        self.reply_format = reply_format
        self._call_instruction = call_instruction(task.instruction)
        self.scale = scale
        self._shared_values = {
            "query": fenced("query", task.query),
            "context": _context(prompting, task.context),
            "criteria": listed("What counts:", prompting.criteria),
            "guidelines": listed("Guidelines of this domain:", prompting.guidelines),
            "lowest": f"{scale[0]:g}",
            "highest": f"{scale[1]:g}",
        }

    def about(self, indices: Sequence[int]) -> Question[Prompt, T]:
        """The question about these texts of the task, in this order.

        Raises:
            MethodError: it does not fit into the context window (``too_long``).
        """
        texts: Sequence[str] = [self.prompting.shown(self.task.texts[index]) for index in indices]
        question = self._question(indices, texts)
        window = getattr(self.llm, "context_window", None)
        while window is not None and question.estimate.tokens > window:
            excess = question.estimate.tokens - window
            size = sum(map(estimate_tokens, texts))
            keep = max(0.0, 1 - excess / size) if size else 0.0
            shorter = cut_evenly(texts, int(sum(map(len, texts)) * keep * _MARGIN))
            if shorter is None:
                message = f"the prompt does not fit into the {window} tokens of the model"
                raise MethodError(message, "too_long")
            texts = shorter
            question = replace(self._question(indices, texts), shortened=True)
        return question

    def _question(
        self, indices: Sequence[int], texts: Sequence[str], shrinks: bool = True
    ) -> Question[Prompt, T]:
        """The question that shows these texts."""
        candidates = [self.task.candidates[index] for index in indices]
        labels = self.reply_format.label(self.task.query, texts, candidates)
        escaped = [as_text(text) for text in texts]
        prompt = self._prompt(labels.names, escaped)
        tokens = sum(map(estimate_tokens, [prompt.system, *(turn.text for turn in prompt.turns)]))
        return Question(
            request=prompt,
            read=lambda completion: self.reply_format.read(completion, labels),
            reminder=self.reply_format.request(),
            shrink=functools.partial(self._shrunk, indices, texts if shrinks else ()),
            estimate=Estimate(tokens, self.reply_format.expected_tokens(len(texts))),
            documents=len(texts),
            recall=Recall(
                lambda: self._key(labels.names, texts, escaped),
                self.reply_format.dump,
                lambda data: self.reply_format.load(data, len(texts)),
            ),
        )

    def _key(self, names: Sequence[str], texts: Sequence[str], escaped: Sequence[str]) -> Any:
        """What the answer depends on: the prompt with places as labels, and the task.

        Two tasks may have the same prompt, if a template leaves out some of their values.
        """
        form = self.reply_format
        if form.draws_labels:
            names = [str(place) for place in range(len(names))]
        return [self._prompt(names, escaped), self.task.query, texts, form, self.scale]

    def _prompt(self, names: Sequence[str], escaped: Sequence[str]) -> Prompt:
        """The prompt that shows escaped texts under labels, which alone depend on the process."""
        documents = "\n".join(
            between_tags("doc", text, name) for name, text in zip(names, escaped, strict=True)
        )
        values = {
            **self._shared_values,
            "count": str(len(escaped)),
            "documents": documents,
            "reply": self.reply_format.request(),
            "instruction": "",
        }
        parts = [fill(self.prompting.instruction, values), self._call_instruction]
        values["instruction"] = "\n\n".join(filter(None, parts))
        system, user = fill(self.prompting.system, values), fill(self.prompting.user, values)
        if self._call_instruction not in system and self._call_instruction not in user:
            user = f"{user}\n\n{self._call_instruction}"
        return Prompt(
            system,
            (Turn("user", user),),
            self.reply_format.schema(names),
            self.reply_format.logprobs,
            self.reply_format.needs_logprobs,
            tuple(self.reply_format.words),
        )

    def _shrunk(self, indices: Sequence[int], texts: Sequence[str]) -> Question[Prompt, T] | None:
        """The question with half the characters of its texts, which cannot be halved again.

        A prompt is cut once, because each try is a request; :mod:`secondpass.apis` cut more often.
        """
        shorter = cut_evenly(texts, sum(map(len, texts)) // 2)
        return None if shorter is None else self._question(indices, shorter, shrinks=False)


def _context(prompting: Prompting, context: Any) -> str:
    if prompting.context is None and context is None:
        return ""
    build = prompting.context or plain_context
    try:
        text = build(context)
    except MethodError:
        raise
    except BaseException as error:
        reraise_exit(error)
        message = f"the context builder raised {type(error).__name__}"
        raise MethodError(message, "context_failed") from error
    if not isinstance(text, str):
        message = f"the context builder returned {with_article(type(text).__name__)}, not a string"
        raise MethodError(message, "context_failed")
    return fenced("context", text) if text.strip() else ""
