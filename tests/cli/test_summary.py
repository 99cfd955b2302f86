"""The summary of ``secondpass rerank``."""

from command_requests import FRUIT, json_lines, requests
from fake_provider import INPUT_TOKENS, OUTPUT_TOKENS, FakeProvider


def test_totals_of_a_resumed_output_are_those_of_an_uninterrupted_one(secondpass, write, tmp_path):
    with FakeProvider() as provider:
        config = write(
            "config.yaml",
            "method: {type: graded, scale: [0, 100], llm: {type: openai, model: m, "
            f"prices: {{input: 1000, output: 0}}, base_url: '{provider.base_url('openai')}'}}}}",
        )
        call = ["rerank", "-c", config, "--batch", 1, "-o", tmp_path / "out.jsonl"]
        first = secondpass(*call, write("in.jsonl", requests(2)))
        end = f"tokens: {2 * INPUT_TOKENS} in, {2 * OUTPUT_TOKENS} out; cost: 0.2"
        assert (first.code, first.err.strip().endswith(end)) == (0, True), first.err
        both = secondpass(*call, write("in.jsonl", requests(3)), "--resume")
        end = f"tokens: {3 * INPUT_TOKENS} in, {3 * OUTPUT_TOKENS} out; cost: 0.3"
        assert (both.code, both.err.strip().endswith(end)) == (0, True), both.err


def test_without_tokens_there_are_no_totals(secondpass):
    told = secondpass("rerank", "-p", "lexical", "-q", "fruit", stdin=json_lines(FRUIT))
    assert told.code == 0
    assert "token" not in told.err
    assert "cost" not in told.err
