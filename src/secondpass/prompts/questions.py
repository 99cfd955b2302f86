"""Questions about some of the candidates: what is asked, what a reply may be, how it is read.

The form that a reply is asked for, its JSON Schema and its reader stand side by side here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from secondpass.effects import LLM, Completion, Estimate, Prompt, Question, Task, Turn
from secondpass.errors import MethodError
from secondpass.prompts.context import plain_context
from secondpass.prompts.fencing import fenced
from secondpass.prompts.label_lookup import Labels
from secondpass.prompts.labels import LabelKind, label_all
from secondpass.prompts.template import Prompting, fill, listed
from secondpass.prompts.truncation import cut_evenly, cut_to_tokens, estimate_tokens

T = TypeVar("T")

Reply: TypeAlias = Literal["keyed", "pairs", "permutation", "ranked"]

_FEW = 20
"""Whole numbers that a schema lists."""
_REPLY_TOKENS = {"keyed": 8, "pairs": 16, "permutation": 5, "ranked": 6}  # a document


@dataclass(frozen=True, slots=True)
class Form:
    """How a reply is asked for.

    Attributes:
        reply: ``keyed`` (``{id: number}``), ``pairs`` (``[{"id": id, "score": number}]``),
            ``permutation`` (``[id, id]``) or ``ranked`` (``[id] > [id]``, which is no JSON).
        word: what the numbers are called: score or rank.
        labels: how documents are named.
        bare: an array is asked for as such. Providers take schemas of objects only, so none is
            sent then.
        whole: whether the numbers are whole.
        bounds: lowest and highest number, where they are fixed.
    """

    reply: Reply
    labels: LabelKind
    bare: bool
    word: str = "score"
    whole: bool = False
    bounds: tuple[float, float] = (0, 0)

    @property
    def first(self) -> int | None:
        """The first label, where labels are numbers."""
        return {"index0": 0, "index1": 1}.get(self.labels)

    @property
    def key(self) -> str:
        """What a label is called."""
        return "id" if self.first is None else "index"

    def asked(self) -> str:
        """The words that ask for it."""
        key, label = self.key, "<id>" if self.first is None else "<index>"
        shown = f'"{label}"' if self.first is None else label
        base = "" if self.first is None else f" Indices count from {self.first}."
        if self.reply == "keyed":
            pairs = f'{{"{label}": <{self.word}>, ...}}'
            form = f"one JSON object that maps each {key} to its {self.word}, {pairs}"
        elif self.reply == "ranked":
            form = f"one line of this form, best first: [{label}] > ... > [{label}]"
        else:
            array = f"[{shown}, {shown}, ...]"
            if self.reply == "pairs":
                array = f'[{{"{key}": {shown}, "{self.word}": <{self.word}>}}, ...]'
            wrapped = array if self.bare else f'{{"{self._name}": {array}}}'
            kind = "a JSON array" if self.bare else "one JSON object"
            order = ", best first" if self.reply == "permutation" else ""
            form = f"{kind} of this form{order}: {wrapped}"
        every = "Every index" if self.first is not None else "Every id"
        ranks = self.word == "rank" and self.reply in {"keyed", "pairs"}
        best = " Rank 1 is the best." if ranks else ""
        return f"Reply with ONLY {form}. {every} has to be there exactly once.{best}{base}"

    def schema(self, labels: Sequence[str]) -> dict[str, Any] | None:
        """The JSON Schema of the reply, which admits these labels only; None where there is none.

        Bounds of numbers are stated where they can be told as a list of a few whole ones: some
        providers refuse others. Readers check in any case.
        """
        number: dict[str, Any] = {"type": "integer" if self.whole else "number"}
        low, high = self.bounds
        if self.whole and 0 < high - low <= _FEW:
            number["enum"] = list(range(math.ceil(low), math.floor(high) + 1))
        if self.reply == "keyed":
            return _object(dict.fromkeys(labels, number))
        if self.bare or self.reply == "ranked":
            return None
        names: dict[str, Any]
        if self.first is None:
            names = {"type": "string", "enum": list(labels)}
        else:
            names = {"type": "integer", "enum": [int(label) for label in labels]}
        items = names
        if self.reply == "pairs":
            items = _object({self.key: names, self.word: number})
        count = len(labels)
        array = {"type": "array", "items": items, "minItems": count, "maxItems": count}
        return _object({self._name: array})

    @property
    def _name(self) -> str:
        return "ranking" if self.reply == "permutation" else "grades"


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class Questions(Generic[T]):
    """Makes the questions of one task.

    Args:
        task: what is judged.
        llm: who is asked; its ``context_window`` is kept to.
        prompting: what is told and shown, completed.
        form: how replies are asked for.
        read: makes an answer of a completion.
        scale: lowest and highest grade, for the instruction.

    Raises:
        MethodError: the context cannot be made a text.
    """

    def __init__(
        self,
        task: Task,
        llm: LLM,
        prompting: Prompting,
        form: Form,
        *,
        read: Callable[[Completion, Labels], T],
        scale: tuple[float, float] = (0, 0),
    ) -> None:
        self.task = task
        self.llm = llm
        self.prompting = prompting
        self.form = form
        self.read = read
        self.shared = {
            "query": fenced("query", task.query),
            "context": _context(prompting, task.context),
            "criteria": listed("What counts:", prompting.criteria),
            "guidelines": listed("Guidelines of this domain:", prompting.guidelines),
            "lowest": f"{scale[0]:g}",
            "highest": f"{scale[1]:g}",
        }

    def about(self, indices: Sequence[int]) -> Question[Prompt, T]:
        """The question about these texts of the task, in this order."""
        longest = self.prompting.passage_characters
        texts = [self.task.texts[index][:longest] for index in indices]
        if self.prompting.passage_tokens is not None:
            texts = [cut_to_tokens(text, self.prompting.passage_tokens) for text in texts]
        return self._fitted(indices, texts)

    def _fitted(self, indices: Sequence[int], texts: Sequence[str]) -> Question[Prompt, T]:
        """The question, its passages cut where the model's context window is too small for it.

        Raises:
            MethodError: it would not fit however short they are.
        """
        question = self._question(indices, texts)
        window = getattr(self.llm, "context_window", None)
        while window is not None and question.estimate.tokens > window:
            over = question.estimate.tokens - window
            size = sum(map(estimate_tokens, texts))
            keep = max(0.0, 1 - over / size) if size else 0.0
            shorter = cut_evenly(texts, int(sum(map(len, texts)) * keep * 0.95))
            if shorter is None:
                told = f"the prompt does not fit into the {window} tokens of the model"
                raise MethodError(told, "too_long")
            texts = shorter
            question = self._question(indices, texts)
        return question

    def _question(
        self, indices: Sequence[int], texts: Sequence[str], shrinks: bool = True
    ) -> Question[Prompt, T]:
        candidates = [self.task.candidates[index] for index in indices]
        names = label_all(self.form.labels, self.task.query, texts, candidates)
        labels = Labels(names, self.form.first)
        prompt = self._prompt(names, texts)
        sent = estimate_tokens(prompt.system) + sum(
            estimate_tokens(turn.text) for turn in prompt.turns
        )
        return Question(
            prompt,
            functools.partial(self._read, labels),
            self.form.asked(),
            functools.partial(self._shrunk, indices, texts if shrinks else ()),
            Estimate(sent, 16 + _REPLY_TOKENS[self.form.reply] * len(texts)),
            len(texts),
        )

    def _prompt(self, names: Sequence[str], texts: Sequence[str]) -> Prompt:
        """The prompt for texts under these names.

        It depends on the names only by showing them: under places as names it is the same in every
        process.
        """
        values = {
            **self.shared,
            "count": str(len(texts)),
            "documents": "\n".join(
                fenced("doc", text, name) for name, text in zip(names, texts, strict=True)
            ),
            "reply": self.form.asked(),
            "instruction": "",
        }
        values["instruction"] = fill(self.prompting.instruction, values)
        return Prompt(
            fill(self.prompting.system, values),
            (Turn("user", fill(self.prompting.user, values)),),
            self.form.schema(names),
        )

    def _read(self, labels: Labels, completion: Completion) -> T:
        return self.read(completion, labels)

    def _shrunk(self, indices: Sequence[int], texts: Sequence[str]) -> Question[Prompt, T] | None:
        shorter = cut_evenly(texts, sum(map(len, texts)) // 2)
        # Once only: each time costs a request, and half of everything is a lot.
        return None if shorter is None else self._question(indices, shorter, shrinks=False)


def _context(prompting: Prompting, context: Any) -> str:
    build = prompting.context or plain_context
    try:
        text = build(context)
    except MethodError:
        raise
    except Exception as error:
        told = f"the context builder raised {type(error).__name__}"
        raise MethodError(told, "context_failed") from error
    if not isinstance(text, str):
        told = f"the context builder returned a {type(text).__name__}, not a string"
        raise MethodError(told, "context_failed")
    return fenced("context", text) if text.strip() else ""
