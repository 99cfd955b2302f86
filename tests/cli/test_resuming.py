"""Output files: locks, states, and resuming after a kill."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from command_calls import started
from command_requests import LEXICAL, json_lines, requests, small_files
from secondpass import Reranker

shared_folder = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=settings().max_examples // 10,
)


@pytest.mark.parametrize(
    ("name", "option", "output"),
    [
        ("in.jsonl", None, "in.jsonl"),
        ("in.jsonl", None, "link"),
        ("in.jsonl", None, "../{}/in.jsonl"),
        ("out.state", None, "out"),
        ("out.answers.sqlite", None, "out"),
        ("context.json", "--context", "context.json"),
    ],
)
def test_output_does_not_overwrite_input(
    secondpass, write, tmp_path, monkeypatch, name, option, output
):
    monkeypatch.chdir(tmp_path)
    file = write(name, requests(2))
    before = file.read_bytes()
    (tmp_path / "link").symlink_to(file)
    call = [file] if option is None else [option, file]
    told = secondpass(*LEXICAL, *call, "-o", output.format(tmp_path.name), "--force")
    assert (told.code, "is an input file; name another output" in told.flat) == (2, True)
    assert file.read_bytes() == before


@pytest.mark.parametrize("call", [["gone.jsonl"], ["broken.jsonl"]])
def test_output_is_opened_after_the_first_input(secondpass, write, tmp_path, monkeypatch, call):
    monkeypatch.chdir(tmp_path)
    write("broken.jsonl", "{broken")
    assert secondpass(*LEXICAL, *call, "-o", "new").code == 1
    assert not (tmp_path / "new").exists()
    old = write("old", "precious")
    assert secondpass(*LEXICAL, *call, "-o", "old", "--force").code == 1
    assert old.read_text() == "precious"


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
def test_disk_full_output_is_resumed(secondpass, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    stdin = json_lines(requests(9))
    with small_files():
        told = secondpass(*LEXICAL, "-o", cut, "--batch", 1, stdin=stdin)
    assert (told.code, f"{cut}: File too large" in told.err) == (1, True)
    for target in (whole, cut):
        assert secondpass(*LEXICAL, "-o", target, "--batch", 1, "--resume", stdin=stdin).code == 0
    assert cut.read_bytes() == whole.read_bytes()
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"whole", "whole.state", "cut", "cut.state"}


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (1, "stopped after 1 query; continue with --resume"),
        (2, "stopped after 2 queries; continue with --resume"),
        (9, "stopped; nothing was finished yet, so --resume begins again"),
    ],
)
def test_an_interruption_says_what_is_done(secondpass, tmp_path, monkeypatch, batch, message):
    ranked = []
    rank = Reranker.rerank_many

    def stopping(*arguments, **options):
        if ranked or batch == 9:
            raise KeyboardInterrupt
        ranked.append(True)
        return rank(*arguments, **options)

    monkeypatch.setattr(Reranker, "rerank_many", stopping)
    stdin = json_lines(requests(5))
    told = secondpass(*LEXICAL, "-o", tmp_path / "out", "--batch", batch, stdin=stdin)
    assert (told.code, told.err) == (130, f"secondpass: {message}\n")


def test_existing_output_stays_unless_forced(secondpass, tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    call, stdin = [*LEXICAL, "-o", target], json_lines(requests(1))
    for options, message in (
        ([], "already exists; use --force to overwrite it, or --resume to continue it"),
        (["--resume"], "cannot be resumed without its state file, out.jsonl.state"),
    ):
        told = secondpass(*call, *options, stdin=stdin)
        assert (told.code, message in told.flat, target.read_text()) == (1, True, "mine")
    assert secondpass(*call, "--force", stdin=stdin).code == 0
    assert json.loads(target.read_text())["query_id"] == "q0"


@pytest.mark.parametrize("done", [0, 2, 4])
def test_compressed_output_is_resumed(secondpass, tmp_path, done):
    given_, out, whole = requests(6), tmp_path / "out.gz", tmp_path / "whole.gz"
    call = [*LEXICAL, "--batch", 2, "--resume", "-o"]
    secondpass(*call, out, stdin=json_lines(given_[:done]))
    with out.open("ab") as file:
        file.write(b"an incomplete part")
    secondpass(*call, out, stdin=json_lines(given_))
    secondpass(*call, whole, stdin=json_lines(given_))
    assert out.read_bytes() == whole.read_bytes()
    plain = secondpass(*LEXICAL, stdin=json_lines(given_)).out
    assert gzip.decompress(out.read_bytes()).decode() == plain


@shared_folder
@given(
    form=st.sampled_from(["jsonl", "trec", "table"]),
    done=st.integers(0, 9),
    junk=st.binary(max_size=200),
    batch=st.integers(1, 5),
)
def test_resumed_output_is_identical(secondpass, tmp_path, form, done, junk, batch):
    given_ = json_lines(requests(9))
    first = b"".join(given_.splitlines(keepends=True)[:done])
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    call = [*LEXICAL, "-f", form, "--batch", batch]
    assert secondpass(*call, "-o", whole, "--force", stdin=given_).code == 0
    # Without a query, the output is one that can be continued, but no success.
    assert secondpass(*call, "-o", cut, "--force", stdin=first).code == (0 if done else 1)
    with open(cut, "ab") as file:  # what was under way when it was killed
        file.write(junk)
    told = secondpass(*call, "-o", cut, "--resume", stdin=given_)
    assert told.code == 0
    assert cut.read_bytes() == whole.read_bytes()
    now = f"9 queries; of these, ranked now: {9 - done} in " if done else "9 queries in "
    now = f"{cut} is complete: 9 queries, none ranked now; " if done == 9 else now
    assert told.err.startswith(now)
    assert "9 ok" in told.err


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (["--set", "method.k1=2"], requests(4), "was made with another configuration"),
        (["--top-k", "2"], requests(4), "was made with another choice of options"),
        (["-q", "x"], ["a"], "was made with another query"),
        ([], requests(4, seed=1), "its first 4 requests were different"),
        ([], requests(3), "has 4 requests, but the input has only 3"),
    ],
)
def test_an_output_of_something_else_is_not_gone_on_with(
    secondpass, tmp_path, arguments, stdin, told
):
    target = tmp_path / "out"
    assert secondpass(*LEXICAL, "-o", target, stdin=json_lines(requests(4))).code == 0
    before = target.read_bytes()
    outcome = secondpass(*LEXICAL, *arguments, "-o", target, "--resume", stdin=json_lines(stdin))
    assert (outcome.code, f"{told}; use --force to overwrite it" in outcome.flat) == (1, True)
    assert target.read_bytes() == before


@pytest.mark.parametrize(
    "state", ["", "{", "[]", "{}", '{"made_of": 3}', '{"made_of": {}, "requests": 1e999}', "\x00"]
)
def test_broken_state(secondpass, write, tmp_path, state):
    write("out", "an output")
    write("out.state", state)
    outcome = secondpass(*LEXICAL, "-o", tmp_path / "out", "--resume")
    assert (outcome.code, "is not a valid state file" in outcome.flat) == (1, True)


@pytest.mark.parametrize("change", [lambda was: was[:10], lambda was: was[::-1] + b"more"])
def test_changed_output_is_refused(secondpass, tmp_path, change):
    target = tmp_path / "out"
    call, stdin = [*LEXICAL, "-o", target], json_lines(requests(2))
    secondpass(*call, stdin=stdin)
    changed = change(target.read_bytes())
    target.write_bytes(changed)
    outcome = secondpass(*call, "--resume", stdin=stdin)
    assert (outcome.code, "was changed since it was written" in outcome.flat) == (1, True)
    assert target.read_bytes() == changed


def killed_half_way(lines, target, *options, before=lambda: None):
    """Begin to rank, and kill the process when about half is done, after a call of `before`."""
    run = started(*LEXICAL, "-o", target, *options)
    state = target.with_name(f"{target.name}.state")
    half = len(lines) // 2
    run.stdin.write(b"".join(lines[:half]))
    run.stdin.flush()
    until = time.monotonic() + 120
    while not (state.exists() and json.loads(state.read_text())["requests"] > half // 2):
        assert time.monotonic() < until
        assert run.poll() is None
        time.sleep(0.02)
    before()
    assert run.poll() is None
    run.kill()
    run.communicate()
    assert run.returncode == -signal.SIGKILL


def test_the_only_writer_is_killed_and_its_output_resumed(secondpass, write, tmp_path):
    file = write("in.jsonl", requests(40))
    whole, cut = tmp_path / "whole", tmp_path / "cut"

    def write_too():
        for option in ("--resume", "--force"):
            second = secondpass(*LEXICAL, file, "-o", cut, option, "--batch", 3)
            assert (second.code, "another process is writing to it" in second.flat) == (1, True)

    lines = file.read_bytes().splitlines(keepends=True)
    killed_half_way(lines, cut, "--batch", "3", before=write_too)
    assert secondpass(*LEXICAL, file, "-o", whole, "--batch", 3).code == 0
    assert cut.read_bytes() != whole.read_bytes()
    assert secondpass(*LEXICAL, file, "-o", cut, "--resume", "--batch", 3).code == 0
    assert cut.read_bytes() == whole.read_bytes()


MEASURED = """
import atexit, sys
from secondpass.cli import main
def told():
    peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    print(*peak, file=sys.stderr)
atexit.register(told)
main()
"""


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_large_run_takes_constant_memory_and_survives_a_kill(write, tmp_path):
    """The whole process stays under 250 MB, whatever the size of the input (here 50 MB)."""
    file = write("in.jsonl", requests(1000, candidates=100, words=120))
    whole, cut = tmp_path / "whole", tmp_path / "cut"

    def measured(*arguments):
        run = subprocess.run(
            [sys.executable, "-c", MEASURED, *LEXICAL, str(file), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(run.stderr.rpartition("VmHWM:")[2].split()[0])

    assert measured("-o", whole) < 250_000
    killed_half_way(file.read_bytes().splitlines(keepends=True), cut)
    assert measured("-o", cut, "--resume") < 250_000
    assert cut.read_bytes() == whole.read_bytes()
