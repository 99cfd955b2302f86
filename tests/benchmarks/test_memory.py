"""The benchmarks of memory: what they measure has the size that they say."""

import json

from benchmarks import command_memory


def test_the_command_ranks_all_requests(tmp_path):
    path = command_memory.write_requests(tmp_path / "in.jsonl", queries=3, candidates=4)
    output = tmp_path / "out.jsonl"
    assert command_memory.peak(path, output) > 10
    rankings = [json.loads(line)["ranking"] for line in output.read_text().splitlines()]
    assert [len(ranking) for ranking in rankings] == [4, 4, 4]
