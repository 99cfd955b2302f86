"""``--monitor`` of the commands that rank."""

from secondpass.monitoring.ranking_days import read_days

CANDIDATES = [{"id": "a", "text": "owls at night"}, {"id": "b", "text": "cats"}]


def test_monitor_of_rerank(secondpass, write, tmp_path):
    lines = [{"query": f"owls {number}", "candidates": CANDIDATES} for number in range(5)]
    path = write("requests.jsonl", lines)
    for _ in range(2):
        outcome = secondpass(
            "rerank", path, "--set", "method=lexical", "--monitor", tmp_path / "days"
        )
        assert outcome.code == 0
    (counts,) = read_days(tmp_path / "days").values()
    assert counts.statuses == {"ok": 10}


def test_monitor_of_query(secondpass, write, tmp_path):
    corpus = write("corpus.jsonl", [{"_id": one["id"], "text": one["text"]} for one in CANDIDATES])
    command = ["query", "owls", "--corpus", corpus, "--lexical", "--monitor", tmp_path / "days"]
    assert secondpass(*command, "--rerank", "--set", "method=lexical").code == 0
    (counts,) = read_days(tmp_path / "days").values()
    assert counts.statuses == {"ok": 1}
    assert "no effect without --rerank" in secondpass(*command).flat
