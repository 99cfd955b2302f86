"""How many queries are ranked at the same time."""

import json

import pytest

from command_requests import json_lines, requests
from fake_provider import FakeProvider, good
from secondpass import Reranker


@pytest.mark.parametrize("command", ["rerank", "pack"])
@pytest.mark.parametrize(
    ("method", "options", "sizes"),
    [
        ("lexical", [], [8, 2]),
        ("lexical", ["--batch", 64], [10]),
        ("service", [], [10]),
        ("service", ["--batch", 6], [6, 4]),
        ("cascade", [], [10]),
    ],
)
def test_a_local_method_ranks_few_queries_at_a_time(
    secondpass, monkeypatch, command, method, options, sizes
):
    seen = []
    rank = Reranker.rerank_many

    def counted(self, queries, **options):
        seen.append(len(queries))
        return rank(self, queries, **options)

    monkeypatch.setattr(Reranker, "rerank_many", counted)
    with FakeProvider(good(len)) as provider:
        service = {"type": "graded", "llm": provider.llm("openai")}
        methods = {
            "lexical": "lexical",
            "service": service,
            "cascade": {"type": "cascade", "stages": [{"method": "lexical"}, {"method": service}]},
        }
        setting = f"method={json.dumps(methods[method])}"
        call = [command, "--preset", "lexical", "--set", setting, *options]
        told = secondpass(*call, stdin=json_lines(requests(10)))
    assert (told.code, seen) == (0, sizes), told.err
