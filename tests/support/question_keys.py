"""The cache keys of each method's questions. Other processes import it, so it imports no tests."""

from secondpass.asking.answer_keys import answer_key, service_key
from secondpass.effects import Task
from secondpass.ranking.methods import to_method
from secondpass.types import Candidate

LLM = {"type": "openai", "model": "m"}
METHODS = {
    "graded": {"type": "graded", "llm": LLM},
    "listwise": {"type": "listwise", "llm": LLM},
    "blocks": {"type": "blocks", "llm": LLM},
    "endpoint": {"type": "endpoint", "api": "cohere", "model": "m"},
    "decisions": {"type": "decisions", "api": "openai", "model": "m"},
    "pointwise": {"type": "pointwise", "llm": LLM},
}


def keys(settings, texts=("a", "b", "c"), query="q", context=None, ids=None, instruction=None):
    """The keys of the first round of questions that a method asks."""
    candidates = [Candidate(text, id=one) for text, one in zip(texts, ids or texts, strict=True)]
    method = to_method(settings)
    task = Task(query, list(texts), candidates, context, instruction=instruction)
    effect = next(method.judge(task))
    start = service_key(effect.service)
    return [answer_key(start, question) for question in effect.questions]
