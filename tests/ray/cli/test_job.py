"""``secondpass job`` on a real Ray, with two workers."""

import gzip
import json

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
    """The rows in the order of the parts, which is that of their numbers."""
    lines = [
        line
        for path in sorted(folder.glob("part-*.jsonl"))
        for line in path.read_bytes().splitlines(keepends=True)
    ]
    assert [json.loads(line)["row"] for line in lines] == [*range(len(lines))]
    return lines


def without_numbers(lines):
    return b"".join(b"{" + line.partition(b", ")[2] for line in lines)


def plain(secondpass, tmp_path, *arguments):
    """What ``secondpass rerank`` writes."""
    told = secondpass("rerank", *arguments, "-o", tmp_path / "plain.jsonl", "--force")
    assert told.code == 0, told.err
    return (tmp_path / "plain.jsonl").read_bytes()


def test_rows_equal_those_of_rerank(secondpass, job, write, tmp_path):
    given = requests(40)
    file = write("in.jsonl", given)
    write("packed/in.jsonl.gz", gzip.compress(json_lines(given)))
    arguments = ("-p", "lexical", "--top-k", 3, "--set", "depth=3")
    expected = plain(secondpass, tmp_path, file, *arguments)
    for source in (file, tmp_path / "packed"):
        told = job("-i", source, *arguments, "--block", 7, "--force")
        assert (told.code, told.out) == (0, ""), told.err
        assert told.flat.startswith("40 queries in ")
        assert without_numbers(rows(tmp_path / "out")) == expected
    assert {path.name.partition("-")[0] for path in (tmp_path / "out").iterdir()} == {
        "job.json",
        "part",
    }


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
    told = job("-i", folder, "-p", "lexical", "--block", 6)
    assert told.code == 0, told.err
    expected = plain(secondpass, tmp_path, write("in.jsonl", given), "-p", "lexical")
    assert without_numbers(rows(tmp_path / "out")) == expected
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"]}), folder / "c.parquet")
    told = job("-i", folder, "-p", "lexical", "--force")
    assert told.code == 1
    assert "c.parquet: needs the columns 'query' and 'candidates', or 'request'" in told.flat
    (folder / "c.parquet").write_bytes(b"PAR1")
    assert "is not a Parquet file, or damaged" in job("-i", folder, "--force").flat


def test_input_and_output_by_uri(secondpass, job, write, tmp_path, cluster):
    file = write("in.jsonl", requests(5))
    # fsspec's name for this machine's files: pyarrow does not know it.
    for scheme in ("file", "local"):
        address = f"{scheme}://{tmp_path}"
        call = ("-i", f"{address}/in.jsonl", "-p", "lexical")
        for resume in ([], ["--resume"]):
            told = job(*call, *resume, output=f"{address}/{scheme}")
            assert told.code == 0, told.err
        expected = plain(secondpass, tmp_path, file, "-p", "lexical")
        assert without_numbers(rows(tmp_path / scheme)) == expected
    told = job("-i", "s3://name:secret@bucket/in.jsonl", "-p", "lexical")
    assert told.code == 1
    assert "must not hold a user name or a password" in told.flat
    assert "secret" not in told.err
    told = job("-i", "nowhere://bucket/in.jsonl", "-p", "lexical")
    assert (told.code, "nowhere" in told.flat) == (1, True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"--preset": "default"}, "was begun with another configuration"),
        ({"--top-k": 2}, "was begun with another choice of options"),
        ({"-i": "other.jsonl"}, "was begun with another input"),
        ({"--context": "context.json"}, "was begun with another context"),
        ({"--set": "depth=2", "--no-text": None}, "another configuration and another choice"),
    ],
    ids=["configuration", "options", "input", "context", "two"],
)
def test_refused_resumes(job, write, tmp_path, change, problem):
    write("other.jsonl", requests(3))
    write("context.json", "{}")
    call = {"-i": write("in.jsonl", requests(2)), "--preset": "lexical"}
    assert job(*flat(call)).code == 0
    before = rows(tmp_path / "out")
    paths = {
        key: tmp_path / value if isinstance(value, str) and ".js" in value else value
        for key, value in change.items()
    }
    told = job(*flat({**call, **paths}), "--resume")
    assert (told.code, problem in told.flat) == (1, True), told.err
    assert "use --force to start again" in told.flat
    told = job(*flat(call))
    assert "already has a job; use --resume to continue it, or --force" in told.flat
    assert rows(tmp_path / "out") == before
    assert job(*flat({**call, **paths}), "--force").code == 0


def flat(options):
    return [part for key, value in options.items() for part in (key, value) if part is not None]


def test_only_what_is_missing_is_ranked(job, write, tmp_path):
    call = ("-i", write("in.jsonl", requests(20)), "-p", "lexical", "--block", 3)
    assert job(*call).code == 0
    expected = rows(tmp_path / "out")
    parts = sorted((tmp_path / "out").glob("part-*.jsonl"))
    times = {path: path.stat().st_mtime_ns for path in parts}
    for path in parts[1:4]:
        path.unlink()
    (tmp_path / "out" / ".secondpass-job-0123").write_text("a part that was not finished")
    told = job(*call, "--resume")
    assert (told.code, told.flat.startswith("20 queries in ")) == (0, True), told.err
    assert rows(tmp_path / "out") == expected
    same = [path for path in parts if path.stat().st_mtime_ns == times[path]]
    assert same == [parts[0], *parts[4:]]
    assert not [*(tmp_path / "out").glob(".secondpass*")]


def test_a_budget_is_kept_and_continued(job, write, tmp_path, provider, graded):
    call = ("-i", write("in.jsonl", requests(12)), "-c", graded, "--set", "limits.repair=0")
    call += ("--block", 4, "--batch", 2)
    told = job(*call, "--max-tokens", 1000)
    assert told.code == 1, told.err
    done = [*(tmp_path / "out").glob("part-*.jsonl")]
    first = provider.calls
    assert 0 < first < 12
    spent = json.loads((tmp_path / "out" / "spent.json").read_text())
    assert spent["tokens"] == first * (INPUT_TOKENS + OUTPUT_TOKENS) <= 1000
    assert f"the budget is used up, and {12 - first} rows are not ranked" in told.flat
    told = job(*call, "--resume", "--max-tokens", int(spent["tokens"]) + 100)
    assert (told.code, provider.calls) == (1, first)
    assert "the budget is used up" in told.flat
    told = job(*call, "--resume", "--max-cost", 1_000_000)
    assert (told.code, provider.calls) == (0, 12), told.err
    assert len(rows(tmp_path / "out")) == 12
    assert all(path.exists() for path in done)
    assert f"tokens: {12 * INPUT_TOKENS:,} in" in told.flat


def test_neither_keys_nor_texts_reach_logs(job, write, tmp_path, graded, logs):
    given = [{**request, "query": "a confidential query"} for request in requests(4)]
    told = job("-i", write("in.jsonl", given), "-c", graded)
    assert told.code == 0, told.err
    logged = logs()
    for secret in (b"sk-hidden", b"confidential"):
        assert secret not in logged
        assert secret.decode() not in told.err
    told = job("-i", tmp_path / "in.jsonl", "--force", "--set", "method.llm.api_key=sk-hidden-01")
    assert told.code == 1
    assert "sk-hidden" not in told.err


def test_a_part_of_copied_lines_that_is_deleted_is_ranked_again(job, write, tmp_path):
    packed = write("in.jsonl.gz", gzip.compress(json_lines(requests(9))))
    call = ("-i", packed, "-p", "lexical", "--block", 3)
    assert job(*call).code == 0
    expected = rows(tmp_path / "out")
    next((tmp_path / "out").glob("part-000000000003-*.jsonl")).unlink()
    told = job(*call, "--resume")
    assert (told.code, rows(tmp_path / "out")) == (0, expected), told.err
