"""Good replies, computed from the request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fake_provider.logprobs import Token
from fake_provider.requests import Grade, Request
from rerank_dialects import DIALECTS

_WORDS = re.compile(r"ONLY one word: (.+) or (.+)\.")

INPUT_TOKENS = 100

OUTPUT_TOKENS = 20
"""What every good reply says that it used."""


def by_number(text: str) -> float:
    """The first number in a text; 0 where there is none."""
    match = re.search(r"\d+", text)
    return float(match.group()) if match else 0.0


def grades_of(request: Request, grade: Grade = by_number) -> dict[str, float]:
    """The grade of each label of a request."""
    return {label: grade(text) for label, text in request.documents.items()}


def reply_text(request: Request, grade: Grade = by_number) -> str:
    """A good answer, by the request's schema, and without one by the words of its prompt."""
    return next(iter(good_tokens(request, grade)[0]))


def good_tokens(request: Request, grade: Grade = by_number) -> list[Token]:
    """The tokens of a good answer that is one word; of any other a single one, of all of it."""
    grades, prompt = grades_of(request, grade), "\n".join(request.messages)
    if request.schema is not None:
        return [{json.dumps(_by_schema(request.schema, grades)): 1.0}]
    if words := _WORDS.findall(prompt):
        return [_word_token(*words[-1], max(grades.values())), {"": 1.0}]
    answer: Any = grades
    if '"ranking"' in prompt:
        answer = {"ranking": best_first(grades)}
    elif '"grades"' in prompt:
        if '"index"' in prompt:
            rows = [{"index": int(label), "score": value} for label, value in grades.items()]
        else:
            rows = [{"id": label, "score": value} for label, value in grades.items()]
        answer = {"grades": rows}
    return [{json.dumps(answer): 1.0}]


def _word_token(yes: str, no: str, grade: float) -> Token:
    """The probabilities of two words, for a grade of 0 to 10."""
    probability = min(max(grade / 10, 0.01), 0.99)
    token = {yes: 0.9 * probability, f" {yes}".upper(): 0.1 * probability, no: 1 - probability}
    return dict(sorted(token.items(), key=lambda each: -each[1]))


def best_first(grades: Mapping[str, float]) -> list[str]:
    """The labels by falling grade; equals keep their order."""
    return sorted(grades, key=lambda label: -grades[label])


def _by_schema(schema: Mapping[str, Any], grades: Mapping[str, float]) -> Any:
    """A value that the schema admits, with the grades where labels stand."""
    kind = schema.get("type")
    if isinstance(kind, str) and kind.lower() == "array":
        return _array_by_schema(schema["items"], grades)
    if "properties" not in schema:
        return "because"
    value: dict[str, Any] = {}
    for name, own in schema["properties"].items():
        value[name] = grades[name] if name in grades else _by_schema(own, grades)
    return value


def _array_by_schema(items: Mapping[str, Any], grades: Mapping[str, float]) -> list[Any]:
    names = list(items.get("properties", {}))
    if not names:
        numeric = str(items.get("type", "")).lower() == "integer"
        return [int(label) if numeric else label for label in best_first(grades)]
    key = "index" if "index" in names else "id"
    score = next(name for name in names if name in {"score", "grade"})
    numeric = str(items["properties"][key].get("type", "")).lower() == "integer"
    return [
        {key: int(label) if numeric else label, score: value} for label, value in grades.items()
    ]


def envelope(request: Request, text: str) -> dict[str, Any]:
    """The reply of the API that was asked, around a text."""
    if request.api == "anthropic":
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "fake",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
        }
    if request.api == "google":
        content = {"role": "model", "parts": [{"text": text}]}
        return {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {
                "promptTokenCount": INPUT_TOKENS,
                "candidatesTokenCount": OUTPUT_TOKENS,
                "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
            },
            "modelVersion": "fake",
            "responseId": "r1",
        }
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {
            "prompt_tokens": INPUT_TOKENS,
            "completion_tokens": OUTPUT_TOKENS,
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    }


def rerank_envelope(request: Request, results: Sequence[Mapping[str, Any]]) -> Any:
    """The reply of the rerank API that was asked, around rows of ``index`` and ``score``."""
    api = request.rerank or DIALECTS["tei"]
    if not api.index:
        rows: list[Any] = [row["score"] for row in sorted(results, key=lambda row: row["index"])]
        return api.reply(rows)
    names = {"score": api.score, "index": api.index}
    rows = [{names.get(name, name): value for name, value in row.items()} for row in results]
    if api.named:
        rows = [
            {**row, api.index: str(row[api.index])} if type(row.get(api.index)) is int else row
            for row in rows
        ]
    return api.reply(rows)


def rerank_rows(request: Request, grade: Grade = by_number) -> list[dict[str, Any]]:
    """The rows of a good answer of a rerank API: best first, with scores of 0 to 1."""
    grades = grades_of(request, grade)
    count = request.body.get("top_n") or request.body.get("top_k") or len(grades)
    rows: list[dict[str, Any]] = [
        {"index": int(index), "score": min(1.0, grades[index] / 10)} for index in best_first(grades)
    ]
    if (request.body.get("relevant_spans") or {}).get("mode") == "enabled":
        for row in rows:
            row["relevant_spans"] = [{"start": 0, "end": 1, "score": row["score"]}]
    return rows[:count]
