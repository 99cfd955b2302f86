"""Pointwise: each candidate is judged alone, by how probable it is that the model says yes.

Liang et al., "Holistic evaluation of language models" (HELM), TMLR 2023, arXiv 2211.09110, ask
whether a passage answers a query, and rank by the probability of the reply. The score is that of
Nogueira, Jiang, Pradeep and Lin, "Document ranking with a pretrained sequence-to-sequence model"
(monoT5), Findings of EMNLP 2020, and of "RG-YN" in Zhuang et al., "Beyond yes and no", NAACL 2024:
p(yes) / (p(yes) + p(no)) at the first token of the reply. There a local model gives the probability
of every token; a server lists only the most probable ones, so a word may be missing.

For n candidates: n calls, side by side in 1 round; every document is read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, cast

from secondpass.asking.batches import merge_batches, split_batches
from secondpass.effects import Judgement, Plan, Task
from secondpass.errors import ConfigurationError, Problem, ReplyError
from secondpass.llms import LLM_SETTING, LLMLike, has_logprobs
from secondpass.prompts.labels import Labels
from secondpass.prompts.questions import Questions
from secondpass.prompts.replies.base import BatchScores, ReplyFormat
from secondpass.prompts.replies.first_token import MAX_ALTERNATIVES, plain, word_probabilities
from secondpass.prompts.template import PROMPTING, Prompting
from secondpass.questions import LLM, Completion, Prompt, Question
from secondpass.ranking.issues import IssueCollector
from secondpass.ranking.scoring import equal_scores
from secondpass.settings import built, configurable
from secondpass.strategies.base import LLMStrategy, ask_batches, assumed_scores
from secondpass.types import ScoreKind

if TYPE_CHECKING:
    from annotated_types import Len, MinLen


class YesNo(ReplyFormat[BatchScores]):
    """One of two words, of which the first says that the document is relevant."""

    name = "yes_no"
    shape = "a word"
    tokens_per_document = 2
    logprobs = MAX_ALTERNATIVES
    needs_logprobs = True

    def __init__(self, words: Sequence[str]) -> None:
        # The reply names no document, so the label need not be secret.
        super().__init__("index1")
        self.words = words

    def request(self) -> str:
        return f"Reply with ONLY one word: {' or '.join(self.words)}."

    def expected_tokens(self, documents: int) -> int:
        return self.tokens_per_document * documents

    def read(self, completion: Completion, labels: Labels) -> BatchScores:  # noqa: ARG002
        """The probability of the first word, as a share of the sum for both words.

        A word that is not listed gets the highest probability that the listed ones allow.
        """
        result = word_probabilities(completion, self.words)
        if result.listed == (None, None):
            raise ReplyError("neither of the two words is among the probable ones")
        yes, no = (result.unlisted if value is None else value for value in result.listed)
        if yes + no == 0:  # some servers state -9999 for an impossible token
            raise ReplyError("both of the two words are impossible")
        return BatchScores((yes / (yes + no),), ())


@configurable
class Pointwise(LLMStrategy):
    """Asks a language model about each candidate alone; the score is the probability of a yes.

    Args:
        llm: the language model: a mapping with a ``type``, an LLM object, or a function. It must
            have log probabilities.
        words: what the model is to reply about a relevant document and about any other, each a
            single token of the model. In YAML, put ``"Yes"`` and ``"No"`` into quotation marks.
        prompt: the words of the prompts.

    The score kind is ``probability``. No document is in the prompt of another, so none can change
    the score of another.

    The probabilities of all spellings of a word, in case and with white space, are added up, among
    the 20 most probable tokens, or as many as the server lists. If only one of the words is
    listed, the other is assumed to be as probable as the least probable listed token, or as 1 less
    the sum of the listed ones, if that is lower. If neither is listed, or the server reports no log
    probabilities, the candidate gets no score.
    """

    kind = "pointwise"
    role = "You judge whether a document answers a search query."
    instruction = "Does the document answer the query?"
    score_kind: ScoreKind = "probability"
    scale = None
    isolated = True

    def __init__(
        self,
        llm: Annotated[LLMLike, LLM_SETTING],
        *,
        words: Annotated[Sequence[Annotated[str, MinLen(1)]], Len(2, 2)] = ("Yes", "No"),
        prompt: Annotated[Prompting | Mapping[str, Any] | None, PROMPTING] = None,
    ) -> None:
        self.llm = cast("LLM", llm)
        if not has_logprobs(self.llm):
            message = (
                "log probabilities are not supported by this model, and this method needs them"
            )
            raise ConfigurationError([Problem(("llm",), message)])
        first, second = map(plain, words)
        if not first or not second or first == second:
            raise ConfigurationError("words: must differ in more than case and white space")
        self.words = words
        self.prompt = built(prompt) or Prompting()
        self._format = YesNo(words)

    def judge(self, task: Task) -> Plan[Judgement]:
        """One Ask effect with a question for each candidate."""
        count = len(task.texts)
        questions = Questions(task, self.llm, self.prompting, self._format)

        def question(batch: range) -> Question[Prompt, BatchScores]:
            return replace(questions.about(batch), assumed=assumed_scores(1))

        issues = IssueCollector(self.name)
        batches = list(split_batches(count, 1))
        answers = yield from ask_batches(task.call, self.llm, question, batches, issues)
        judgement = merge_batches(count, answers, word="score", issues=issues)
        equal = equal_scores(task.texts, judgement.scores, self.name)
        return replace(judgement, issues=[*judgement.issues, *equal])
