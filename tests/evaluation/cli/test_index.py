"""``secondpass index``, as it is called."""

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

from secondpass.cli.app import app
from secondpass_evaluation.search.index import open_index
from terminals import SECONDPASS, on_a_terminal


def call(*arguments: object):
    return CliRunner().invoke(app, ["index", *map(str, arguments)])


@pytest.fixture
def docs(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "owls.md").write_text("# Owls\n\nThe owl hunts mice.\n\n## Food\n\nMice, mostly.\n")
    (folder / "ships.txt").write_text("Ships cross the sea.")
    return folder


def test_a_folder_is_indexed_once(docs) -> None:
    done = call("docs", "--into", "index")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("index: 3 passages of 2 files, words and vectors, in ")
    again = call("docs", "--into", "index")
    told = (
        "nothing has changed (3 passages of 2 files, words and vectors); use --force to rebuild it"
    )
    assert (again.exit_code, again.stdout) == (0, f"index: {told}\n")
    (docs / "ships.txt").write_text("Ships cross the ocean.")
    renewed = call("docs", "--into", "index")
    assert "words and vectors, 2 vectors reused, in" in renewed.stdout
    forced = call("docs", "--into", "index", "--force")
    assert "words and vectors, in" in forced.stdout
    assert open_index("index").modes == ("vector", "lexical", "hybrid")


def test_the_summary_as_json(docs) -> None:
    (docs / "picture.png").write_bytes(b"\0")
    done = call("docs", "--into", "index", "--words-only", "--json", "--passage-size", 50)
    told = json.loads(done.stdout)
    assert isinstance(told.pop("seconds"), float)
    assert told == {
        "index": "index",
        "source": "docs",
        "status": "built",
        "files": 2,
        "passages": 3,
        "vectors": 0,
        "vectors_kept": 0,
        "embedder": None,
        "skipped": {"picture.png": "is not text"},
    }
    assert done.stderr == "warning: skipped: picture.png is not text\n"
    again = call("docs", "--into", "index", "--words-only", "--json", "--passage-size", 50)
    assert json.loads(again.stdout)["status"] == "unchanged"


def test_files_are_chosen_by_patterns(docs) -> None:
    (docs / "drafts").mkdir()
    (docs / "drafts" / "owls.md").write_text("# Draft")
    options = ("--words-only", "--include", "*.md", "--exclude", "drafts")
    done = call("docs", "--into", "index", *options)
    assert done.stdout.startswith("index: 2 passages of 1 file, words only, in ")


def test_what_is_no_page_of_a_sphinx_site_is_one_message(docs) -> None:
    (docs / "_sources").mkdir()
    (docs / "_sources" / "owls.md.txt").write_text("# Owls")
    (docs / "searchindex.js").write_text("Search.setIndex({})")
    done = call("docs", "--into", "index", "--words-only")
    assert done.stderr == "left out, not pages of the Sphinx site: _sources/, searchindex.js\n"
    assert "3 passages of 2 files" in done.stdout


def test_many_skipped_files_are_counted(docs) -> None:
    for number in range(13):
        (docs / f"{number:02}.bin").write_bytes(b"\0")
    done = call("docs", "--into", "index", "--words-only")
    assert done.stdout.startswith("index: 3 passages of 2 files, words only, in ")
    assert done.stderr.count("is not text") == 10
    assert "skipped: 3 more files (--json lists all)" in done.stderr


def test_without_the_extra_only_words_are_indexed(docs, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    done = call("docs", "--into", "index")
    assert done.exit_code == 0
    assert "words only" in done.stdout
    assert "vectors are left out" in done.stderr
    assert 'pip install "secondpass[embedded]"' in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("absent", "--into", "index"), 1, "absent: there is no such file or folder"),
        (("docs", "--into", "docs/owls.md"), 1, "docs/owls.md: is a file"),
        (("docs",), 2, "--into"),
        (("--into", "index"), 2, "SOURCE"),
        (("docs", "--into", "index", "--passage-size", "7"), 2, "passage-size"),
    ],
)
def test_faults_are_told_in_a_sentence(docs, arguments, code, told) -> None:
    done = call(*arguments, "--words-only")
    assert done.exit_code == code
    assert told in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert not Path("index").exists()


# ------------------------------------------------------------------ as a process


def test_ctrl_c_leaves_nothing_behind(docs) -> None:
    text = "\n\n".join(f"Owl {number} hunts " + "mice and " * 90 for number in range(2000))
    (docs / "many.txt").write_text(text)
    process = subprocess.Popen(
        [*SECONDPASS, "index", "docs", "--into", "index"], stderr=subprocess.PIPE, text=True
    )
    try:
        while not [*Path().glob("index/parts-*")]:
            assert process.poll() is None
            time.sleep(0.01)
        told = None
        while told is None:
            process.send_signal(signal.SIGINT)
            # Python may swallow one that comes while it imports; then people press it again.
            with suppress(subprocess.TimeoutExpired):
                _, told = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    # Python ends by the signal itself where it had passed a text that was being executed.
    assert process.returncode in {130, -signal.SIGINT}
    assert told.splitlines()[-1] == "secondpass: stopped"
    assert not Path("index").exists()


def test_a_terminal_sees_how_far_it_is(docs) -> None:
    output = on_a_terminal("index", "docs", "--into", "index")
    assert "reading files" in output
    assert "encoding passages" in output
    assert "3/3" in output
    assert "words and vectors, in" in output
