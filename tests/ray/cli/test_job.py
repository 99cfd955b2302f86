"""``secondpass job`` on a real Ray, with two workers."""

import gzip
import json
import re

import pytest

from command_requests import json_lines, requests
from fake_provider import INPUT_TOKENS, OUTPUT_TOKENS

pytestmark = pytest.mark.long


@pytest.fixture
def job(secondpass, cluster, tmp_path):
    def run(*arguments, output=tmp_path / "out"):
        return secondpass("job", "--workers", 2, "-o", output, *arguments)

    return run


def rows(folder):
    """The rows in the order of the part files, which is that of the input."""
    lines = [
        line
        for path in sorted(folder.glob("part-*.jsonl"))
        for line in path.read_bytes().splitlines(keepends=True)
    ]
    places = [(record["file"], record["row"]) for record in map(json.loads, lines)]
    assert places == sorted(set(places))
    return lines


def without_identity(lines):
    return b"".join(re.sub(rb'^\{"file": .*?"digest": "\w+", ', b"{", line) for line in lines)


def plain(secondpass, tmp_path, *arguments):
    """What ``secondpass rerank`` writes."""
    told = secondpass("rerank", *arguments, "-o", tmp_path / "plain.jsonl", "--force")
    assert told.code == 0, told.err
    return (tmp_path / "plain.jsonl").read_bytes()


def test_rows_equal_those_of_rerank(secondpass, job, write, tmp_path):
    given = requests(40)
    file = write("in.jsonl", given)
    write("packed/a/in.jsonl.gz", gzip.compress(json_lines(given)))
    write("packed/notes.txt", "not this one")
    arguments = ("-p", "lexical", "--top-k", 3, "--set", "depth=3")
    expected = plain(secondpass, tmp_path, file, *arguments)
    for source, name in ((file, "in.jsonl"), (tmp_path / "packed", "a/in.jsonl.gz")):
        output = tmp_path / f"out-{source.name}"
        told = job("-i", source, *arguments, "--batch", 7, output=output)
        assert (told.code, told.out) == (0, ""), told.err
        assert told.flat.startswith("40 queries in ")
        found = rows(output)
        assert without_identity(found) == expected
        assert {json.loads(line)["file"] for line in found} == {name}
        kinds = {path.name.partition("-")[0] for path in output.iterdir()}
        assert kinds == {"_job.json", "part"}


def test_parquet(secondpass, job, write, tmp_path, cluster):
    import pyarrow
    import pyarrow.parquet

    given = requests(30)
    given[3]["candidates"][0]["score"] = 0.25
    texts = [json.dumps(one) for one in given]
    folder = tmp_path / "in"
    folder.mkdir()
    tables = {
        "a.parquet": pyarrow.Table.from_pylist(given[:10]),
        "b.parquet": pyarrow.table({"request": texts[10:]}),
    }
    for name, table in tables.items():
        pyarrow.parquet.write_table(table, folder / name, row_group_size=4)
    told = job("-i", folder, "-p", "lexical", "--batch", 6)
    assert told.code == 0, told.err
    expected = plain(secondpass, tmp_path, write("in.jsonl", given), "-p", "lexical")
    assert without_identity(rows(tmp_path / "out")) == expected
    wrong = {"c.parquet": b"PAR1", "d.jsonl.gz": gzip.compress(b"{}\n" * 99)[:-9]}
    for name, content in wrong.items():
        (folder / name).write_bytes(content)
        told = job("-i", folder, "-p", "lexical", "--batch", 6)
        assert told.code == 1
        assert f"{name}: is damaged, or not of the format of its name" in told.flat
        assert "what is done is kept" in told.flat
        (folder / name).unlink()


def test_input_and_output_by_uri(secondpass, job, write, tmp_path, cluster):
    file = write("in.jsonl", requests(5))
    address = f"file://{tmp_path}"
    for _ in range(2):
        told = job("-i", f"{address}/in.jsonl", "-p", "lexical", output=f"{address}/out")
        assert told.code == 0, told.err
    expected = plain(secondpass, tmp_path, file, "-p", "lexical")
    assert without_identity(rows(tmp_path / "out")) == expected
    told = job("-i", "s3://name:secret@bucket/in.jsonl", "-p", "lexical")
    assert told.code == 1
    assert "must not hold a user name or a password" in told.flat
    assert "secret" not in told.err
    told = job("-i", "nowhere://bucket/in.jsonl", "-p", "lexical")
    assert (told.code, "nowhere" in told.flat) == (1, True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"--preset": "default"}, "was begun with another configuration; name another folder"),
        ({"--top-k": 2}, "was begun with another choice of options"),
        ({"--id": "query_id"}, "was begun with another --id"),
        ({"--context": "context.json"}, "was begun with another context"),
        ({"--set": "depth=2", "--no-text": None}, "another configuration and another choice"),
        ({"-i": "changed.jsonl"}, "in.jsonl:2: has changed since it was ranked"),
    ],
    ids=["configuration", "options", "id", "context", "two", "input"],
)
def test_another_job_is_not_continued(job, write, tmp_path, change, problem):
    write("context.json", "{}")
    given = requests(2)
    call = {"-i": write("in.jsonl", given), "--preset": "lexical"}
    assert job(*flat(call)).code == 0
    before = rows(tmp_path / "out")
    if "-i" in change:
        write("in.jsonl", [given[0], {**given[1], "query": "another"}])
        change = {}
    paths = {
        key: tmp_path / value if isinstance(value, str) and ".js" in value else value
        for key, value in change.items()
    }
    told = job(*flat({**call, **paths}))
    assert (told.code, problem in told.flat) == (1, True), told.err
    assert rows(tmp_path / "out") == before


def flat(options):
    return [part for key, value in options.items() for part in (key, value) if part is not None]


def test_only_what_is_missing_is_ranked(job, write, tmp_path):
    given = [*requests(20), "not a request"]
    call = ("-p", "lexical", "--batch", 3)
    told = job("-i", write("in.jsonl", given), *call)
    assert (told.code, "not requests: 1 row" in told.flat) == (1, True), told.err
    expected = rows(tmp_path / "out")
    parts = sorted((tmp_path / "out").glob("part-*.jsonl"))
    times = {path: path.stat().st_mtime_ns for path in parts}
    for path in parts[1:4]:
        path.unlink()
    (tmp_path / "out" / ".part-x.0123").write_text("a part that was not finished")
    told = job("-i", write("in.jsonl", [*given, *requests(2)]), *call)
    assert told.code == 1
    assert "22 queries; of these, ranked now: 11 in" in told.flat
    assert "not requests: 1 row" in told.flat
    assert rows(tmp_path / "out")[:21] == expected
    same = [path for path in parts if path.stat().st_mtime_ns == times[path]]
    assert same == [parts[0], *parts[4:]]
    told = job("-i", tmp_path / "in.jsonl", *call)
    assert "22 queries, none ranked now" in told.flat


def test_equal_rows_stay_two_and_ids_move(job, write, tmp_path):
    one, two = requests(2)
    file = write("in.jsonl", [one, one, two])
    assert job("-i", file, "-p", "lexical").code == 0
    first, second, _ = rows(tmp_path / "out")
    assert without_identity([first]) == without_identity([second])
    by_id = {"output": tmp_path / "ids"}
    write("in.jsonl", [one, two])
    assert job("-i", file, "-p", "lexical", "--id", "query_id", **by_id).code == 0
    write("in.jsonl", [two, {**one, "query_id": "new"}, one])
    told = job("-i", file, "-p", "lexical", "--id", "query_id", **by_id)
    assert told.code == 0, told.err
    assert "ranked now: 1 in" in told.flat
    write("in.jsonl", [{**one, "query_id": f"other {number}"} for number in range(2)])
    told = job("-i", file, "-p", "lexical", "--id", "query_id", **by_id)
    assert "ranked now: 2 in" in told.flat
    parts = (path.read_text() for path in sorted((tmp_path / "ids").glob("part-*")))
    ids = [json.loads(line)["id"] for part in parts for line in part.splitlines()]
    assert sorted(ids) == sorted([one["query_id"], two["query_id"], "new", "other 0", "other 1"])
    write("in.jsonl", [two, {**one, "query_id": "twice"}, {**one, "query_id": "twice"}])
    told = job("-i", file, "-p", "lexical", "--id", "query_id", **by_id)
    assert (told.code, "ids of --id must be unique" in told.flat) == (1, True), told.err


def test_a_budget_is_kept_and_continued(job, write, tmp_path, provider, graded):
    call = ("-i", write("in.jsonl", requests(12)), "-c", graded, "--set", "limits.repair=0")
    call += ("--batch", 2)
    told = job(*call, "--max-tokens", 1000)
    assert told.code == 1, told.err
    done = [*(tmp_path / "out").glob("part-*.jsonl")]
    first = provider.calls
    assert 0 < first < 12
    spent = json.loads((tmp_path / "out" / "_spent.json").read_text())
    assert spent["tokens"] == first * (INPUT_TOKENS + OUTPUT_TOKENS) <= 1000
    assert f"the budget is used up; not ranked: {12 - first} rows" in told.flat
    told = job(*call, "--max-tokens", int(spent["tokens"]) + 100)
    assert (told.code, provider.calls) == (1, first)
    assert "the budget is used up" in told.flat
    told = job(*call, "--max-cost", 1_000_000)
    assert (told.code, provider.calls) == (0, 12), told.err
    assert len(rows(tmp_path / "out")) == 12
    assert all(path.exists() for path in done)
    # What was ranked without a budget counts, too.
    told = job(*call, "--max-tokens", 12 * (INPUT_TOKENS + OUTPUT_TOKENS) + 1)
    assert (told.code, provider.calls) == (0, 12), told.err


def test_neither_keys_nor_texts_reach_logs(job, write, tmp_path, graded, logs):
    given = [{**request, "query": "a confidential query"} for request in requests(4)]
    told = job("-i", write("in.jsonl", given), "-c", graded)
    assert told.code == 0, told.err
    logged = logs()
    for secret in (b"sk-hidden", b"confidential"):
        assert secret not in logged
        assert secret.decode() not in told.err
    told = job("-i", tmp_path / "in.jsonl", "--set", "method.llm.api_key=sk-hidden-01")
    assert told.code == 1
    assert "sk-hidden" not in told.err


def test_files_of_others(job, write, tmp_path):
    file = write("in.jsonl", requests(2))
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "part-0.jsonl").write_text("{}\n")
    told = job("-i", file, "-p", "lexical")
    assert (told.code, "has part-0.jsonl, but no _job.json" in told.flat) == (1, True)
    (folder / "part-0.jsonl").unlink()
    assert job("-i", file, "-p", "lexical").code == 0
    (folder / "part-0.jsonl").write_text("{}\n")
    told = job("-i", file, "-p", "lexical")
    assert told.code == 1
    assert "part-0.jsonl: is not a part file of a job; delete it" in told.flat
