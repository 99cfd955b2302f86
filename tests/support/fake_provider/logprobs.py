"""Log probabilities of a reply's tokens, in the form of each API."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from fake_provider.requests import Request

Token: TypeAlias = Mapping[str, float | None]
"""The probability of a token and of its alternatives, by their text; the token itself first."""


def logprobs_wanted(request: Request) -> int | None:
    """For how many alternatives a request wants log probabilities; None where it wants none."""
    generation = request.body.get("generationConfig") or {}
    if request.api == "google":
        wanted = generation.get("responseLogprobs")
        return generation.get("logprobs", 0) if wanted else None
    return request.body.get("top_logprobs", 0) if request.body.get("logprobs") else None


def with_logprobs(
    reply: dict[str, Any], request: Request, tokens: Sequence[Token]
) -> dict[str, Any]:
    """An envelope with the log probabilities of its tokens, where the request wants them."""
    count = logprobs_wanted(request)
    if request.api == "google" and count is not None:
        chosen = [_google(*next(iter(token.items()))) for token in tokens]
        top = [{"candidates": [_google(*each) for each in _likely(t, count)]} for t in tokens]
        reply["candidates"][0]["logprobsResult"] = {
            "chosenCandidates": chosen,
            "topCandidates": top,
        }
    elif request.api == "openai" and count is not None:
        content = [
            {
                **_openai(*next(iter(token.items()))),
                "top_logprobs": [_openai(*each) for each in _likely(token, count)],
            }
            for token in tokens
        ]
        reply["choices"][0]["logprobs"] = {"content": content, "refusal": None}
    return reply


def _likely(token: Token, count: int) -> list[tuple[str, float | None]]:
    return sorted(token.items(), key=lambda each: -(each[1] or 0.0))[:count]


def log(probability: float | None) -> float | None:
    """The logarithm of a probability."""
    return None if probability is None else math.log(probability)


def _openai(token: str, probability: float | None) -> dict[str, Any]:
    return {"token": token, "logprob": log(probability), "bytes": list(token.encode())}


def _google(token: str, probability: float | None) -> dict[str, Any]:
    return {"token": token, "tokenId": len(token), "logProbability": log(probability)}
