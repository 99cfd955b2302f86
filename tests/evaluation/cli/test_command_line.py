"""The command line in a report has no secrets."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from secondpass_evaluation.environment import masked

SECRET = "s3cr3t-Value"


@pytest.mark.parametrize(
    "argument",
    [
        f"method.api_key={SECRET}",
        f"--set=method.llm.api_key={SECRET}",
        f"-smethod.token={SECRET}",
        f"method.headers={{X-Any: {SECRET}}}",
        f"method={{type: endpoint, api_key: {SECRET}}}",
        f'method={{"apiKey": "{SECRET}"}}',
        f"method.password={SECRET} and\nmore",
        f"method.base_url=https://user:{SECRET}@example.org/v1",
        f"method.base_url=https://example.org/v1?key={SECRET}",
        f"https://{SECRET}@example.org",
        f"method.base_url=https://user:p@{SECRET}@example.org",
        f"method.note=Bearer {SECRET}",
        f"method.model=sk-{SECRET}",
        f"method.model=hf_{SECRET.replace('-', '')}",
        "method.model=0123456789abcdef0123456789ABCDEF",
    ],
)
def test_secrets_are_masked(argument):
    line = masked(["eval", "suite", "--set", argument])
    assert "***" in line
    for secret in (SECRET, SECRET.replace("-", ""), "0123456789abcdef"):
        assert secret not in line


@pytest.mark.parametrize(
    "argument",
    [
        "limits.tokens=20000",
        "method.max_tokens=512",
        "method.model=cross-encoder/ms-marco-MiniLM-L6-v2",
        "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        "method.base_url=http://127.0.0.1:8000/v1",
        "method={type: graded, llm: {type: openai, model: gpt-4.1-mini}}",
        "own=mine.yaml",
        "nDCG@10",
        "a folder/suite",
    ],
)
def test_other_arguments_are_as_they_were(argument):
    assert shlex.split(masked(["eval", argument])) == ["secondpass", "eval", argument]


@given(st.text("abcXYZ0123456789-_./+", min_size=6))
def test_values_of_key_variables_are_masked_everywhere(value):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOME_SERVICE_API_KEY", value)
        assert value not in masked(["eval", f"x{value}y", f"--set=a.b={value}"]).split("eval ")[1]
