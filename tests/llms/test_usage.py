"""The tokens that replies report, in the forms of providers, servers and frameworks."""

from types import SimpleNamespace

import pytest

from secondpass.llms.usage import token_counts

ANTHROPIC = {
    "input_tokens": 10,
    "cache_read_input_tokens": 2000,
    "cache_creation_input_tokens": 500,
    "output_tokens": 7,
}
OPENAI = {
    "prompt_tokens": 2510,
    "completion_tokens": 7,
    "total_tokens": 2517,
    "prompt_tokens_details": {"cached_tokens": 2000, "cache_write_tokens": 500},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
RESPONSES = {
    "input_tokens": 2510,
    "input_tokens_details": {"cached_tokens": 2000},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 2517,
}
GOOGLE = {
    "prompt_token_count": 2500,
    "cached_content_token_count": 2000,
    "tool_use_prompt_token_count": 10,
    "candidates_token_count": 3,
    "thoughts_token_count": 4,
    "total_token_count": 2517,
}
ALL = (2510, 7)

USAGE = {
    # what is reported, and all tokens of input and output
    "Anthropic": (ANTHROPIC, ALL),
    "Anthropic without a cache": ({"input_tokens": 10, "output_tokens": 7}, (10, 7)),
    "Anthropic, null": ({**ANTHROPIC, "cache_creation_input_tokens": None}, (2010, 7)),
    "Anthropic by OpenAI's names": (
        {
            "prompt_tokens": 10,
            "cache_read_input_tokens": 2000,
            "cache_creation_input_tokens": 500,
            "completion_tokens": 7,
        },
        ALL,
    ),
    "Bedrock": (
        {
            "prompt_tokens": 10,
            "completion_tokens": 7,
            "total_tokens": 17,
            "cache_read_input_tokens": 2000,
            "cache_write_input_tokens": 500,
        },
        ALL,
    ),
    "OpenAI": (OPENAI, ALL),
    "OpenAI's Responses": (RESPONSES, ALL),
    "OpenAI's form of Anthropic": (
        {**OPENAI, "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 500},
        ALL,
    ),
    "OpenAI's form, thinking beside": (
        {"prompt_tokens": 2510, "completion_tokens": 2, "total_tokens": 2517},
        ALL,
    ),
    "Google": (GOOGLE, ALL),
    "Google, only thoughts": (
        {**GOOGLE, "candidates_token_count": None, "thoughts_token_count": 7},
        ALL,
    ),
    "Google by OpenAI's names": (
        {"prompt_tokens": 2510, "completion_tokens": 3, "thoughts_token_count": 4},
        ALL,
    ),
    "no input": ({"cache_read_input_tokens": 5, "output_tokens": 7}, (None, 7)),
    "no output": ({"prompt_tokens": 5, "total_tokens": 5}, (5, None)),
    "not numbers": ({"input_tokens": "5", "output_tokens": -1, "total_tokens": 2.5}, (None, None)),
    "nothing": (None, (None, None)),
}


@pytest.mark.parametrize(("usage", "tokens"), USAGE.values(), ids=USAGE)
def test_all_tokens_are_counted(usage, tokens):
    assert token_counts(usage) == tokens
    assert token_counts(SimpleNamespace(**usage or {})) == tokens
