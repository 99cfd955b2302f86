"""Datasets of requests on a real Ray."""

import json

import pytest

from command_calls import called
from command_requests import json_lines, requests

pytestmark = pytest.mark.long
MARKER = "zebra-1899"


@pytest.fixture
def ray(cluster):
    cluster.data.DataContext.get_current().enable_progress_bars = False
    return cluster


def test_rankings_are_those_of_rerank(ray, tmp_path):
    from secondpass_ray import rerank_dataset

    given = requests(9)
    (tmp_path / "in.jsonl").write_bytes(json_lines(given))
    told = called("rerank", tmp_path / "in.jsonl", "-p", "lexical", "-o", tmp_path / "out")
    assert told.code == 0, told.err
    lines = (tmp_path / "out").read_text(encoding="utf-8").splitlines(keepends=True)
    expected = {json.loads(line)["query_id"]: line for line in lines}
    by_columns = ray.data.from_items(given)
    by_text = ray.data.from_items([{"request": json.dumps(one), "kept": 7} for one in given])
    for dataset in (by_columns, by_text):
        rows = rerank_dataset(dataset, "lexical", workers=1, batch_size=4).take_all()
        found = {json.loads(row["ranking"])["query_id"]: row["ranking"] + "\n" for row in rows}
        assert len(rows) == 9
        assert found == expected
    assert {row["kept"] for row in rows} == {7}


def test_no_text_reaches_logs_or_errors(ray, logs):
    from secondpass_ray import rerank_dataset
    from secondpass_ray.datasets import DatasetWorker
    from secondpass_ray.ranking import Choices

    texts = [json_lines([{**one, "query": MARKER}]).decode() for one in requests(3)]
    texts.append(f'{{"query": "{MARKER}", "candidates": 5}}')
    texts.append(f"{MARKER} is not JSON")
    dataset = ray.data.from_items([{"request": text} for text in texts])
    rows = rerank_dataset(dataset, "lexical", workers=1).take_all()
    assert sum("error" in json.loads(row["ranking"]) for row in rows) == 2
    wrong = ray.data.from_items([{"request": MARKER, "ranking": MARKER}])
    with pytest.raises(ray.exceptions.RayError, match="has a column 'ranking' already") as caught:
        rerank_dataset(wrong, "lexical", workers=1).take_all()

    class Broken(DatasetWorker):
        """A worker whose ranker raises an error with a text."""

        def _ranked(self, table):
            raise KeyError(table["request"].to_pylist())

    broken = ray.data.from_items([{"request": texts[0]}])
    with pytest.raises(ray.exceptions.RayError, match="internal error: KeyError") as other:
        broken.map_batches(
            Broken,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(size=1),
            fn_constructor_args=({"method": "lexical"}, Choices({}), 1),
        ).take_all()
    assert MARKER not in f"{caught.value}{other.value}"
    assert MARKER.encode() not in logs()
