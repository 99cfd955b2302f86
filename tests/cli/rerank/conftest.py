"""A TREC run with its queries and corpus."""

import random

import pytest

from command_requests import requests


@pytest.fixture
def trec(write):
    given = requests(5)
    scores = {one["query_id"]: range(4, 0, -1) for one in given}
    run = "".join(
        f"{one['query_id']} Q0 {document['id']} {rank} {score} tag\n"
        for one in given
        for rank, (document, score) in enumerate(
            zip(one["candidates"], scores[one["query_id"]], strict=True), 1
        )
    )
    documents = [
        {"_id": document["id"], "text": document["text"], "title": f"T {document['id']}"}
        for one in given
        for document in one["candidates"]
    ]
    random.Random(1).shuffle(documents)
    files = {
        "--run": write("run.trec", run),
        "--queries": write(
            "queries.tsv", "".join(f"{q['query_id']}\t{q['query']}\n" for q in given)
        ),
        "--corpus": write("corpus.jsonl", [*documents, {"_id": "other", "text": "x"}]),
    }
    return given, files
