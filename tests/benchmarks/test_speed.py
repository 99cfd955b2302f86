"""The speed benchmarks, with workers that need no model and no other package."""

import json

import pytest
from benchmarks.speed import direct_loop, plots, render, results, run, workloads
from benchmarks.speed.driver import Pool, Row

from tiny_models import write_classifier

FAST = Row("sentence-transformers", "Fake", "baseline")
AUTO = Row("secondpass, auto", "Fake", "ours")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("model"))


@pytest.fixture
def pool(tmp_path, model):
    (tmp_path / "A.json").write_text(json.dumps([["a query", ["a cat", "the dog ran"]]]))
    (tmp_path / "warm-up.json").write_text(json.dumps([["q", ["a"]], ["q", ["b"]]]))
    with Pool(model, tmp_path / "scratch", 1, tmp_path) as pool:
        yield pool


def fake(**settings):
    return Row("fake", "Fake", "peer", settings=settings)


def test_worker_scores(pool):
    reply = pool.score(fake(), "A", 0)
    assert reply["scores"] == [4.0, 9.0]
    measured = pool.of(fake())
    assert measured.start[0] > 0
    assert measured.memory_mb > 1
    assert len(measured.cpu["A"]) == 1


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (fake(error="no memory"), "RuntimeError: no memory"),
        (fake(exit=3), "the process ended with status 3"),
        (Row("other", "Fake", "peer", "no-such-environment"), "not installed"),
        (Row("other", "NoEngine", "peer"), "KeyError"),
    ],
)
def test_row_that_fails_has_a_reason(pool, row, reason):
    assert pool.score(row, "A", 0) is None
    assert reason in pool.of(row).error
    assert pool.score(row, "A", 0) is None  # no further request


@pytest.fixture(scope="module")
def folder(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("speed")
    ours = [AUTO, Row("broken", "Fake", "ours", settings={"error": "no | memory"})]
    peer = Row("FlashRank", "Fake", "peer", "no-such-environment")
    loop = Row("loop", "Fake", "loop", settings={"runtime": "openvino", "budget": 512})
    settings = {"baseline": FAST, "ours": ours, "loops": [loop], "peers": [peer], "peaks": False}
    run.measure(run.QUICK, model=model, out=folder, count=5, **settings)
    return folder


@pytest.mark.long
def test_run_writes_all_rows(folder):
    data = json.loads((folder / "speed.json").read_text())
    rows = {row["name"]: row for row in data["rows"]}
    assert rows["broken"]["error"] == "RuntimeError: no | memory"
    assert rows["FlashRank"]["error"].startswith("not installed")
    assert rows["secondpass, auto"]["agreement"]["overlap"] == 1
    assert rows["secondpass, auto"]["runs"]["B"]["index"] == [0, 1]
    assert {point["point"] for point in data["grids"]["length"]} == {16, 64}


@pytest.mark.long
def test_tables_name_every_row(folder):
    results.write("caches", "Caches", "", ["a"], [["b"]], [], folder)
    speed = render.Speed(json.loads((folder / "speed.json").read_text()))
    text = render.sections(speed, folder, "")
    for name in ("sentence-transformers", "secondpass, auto", "broken", "FlashRank"):
        assert f"| {name} |" in text
    assert r"no \| memory" in text
    assert "### Caches" in text
    plots.draw(speed, folder)
    assert "loop" in (folder / "speed-engines.svg").read_text()


@pytest.mark.parametrize("budget", direct_loop.BUDGETS)
def test_loop_batches_keep_the_budget(budget):
    lengths = [500, 3, 90, 90, 512, 16, 700] * 9
    batches = list(direct_loop.batches(lengths, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(lengths[index] for index in batch)
        assert padded <= budget or len(batch) == 1


def test_workload_of_a_collection(tmp_path):
    documents = [{"id": f"d{n}", "title": "", "text": f"text {n}"} for n in range(4)]
    files = {
        "corpus": documents,
        "queries": [{"id": "q", "text": "a query"}],
        "candidates": [{"query_id": "q", "candidates": documents[::-1]}],
    }
    for name, records in files.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))
    (request,) = workloads.from_collection(tmp_path, 1, 3)
    assert request == workloads.Request("a query", ["text 3", "text 2", "text 1"])
    with pytest.raises(SystemExit, match="0 of 1"):
        workloads.from_collection(tmp_path, 1, 9)
