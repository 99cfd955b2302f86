"""Passages that are kept, in memory and in a file, and what a scorer makes of them."""

import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
import pytest
from typer.testing import CliRunner

from secondpass import Reranker, StoreError
from secondpass.cli.app import app
from secondpass.scorers.embedded import EmbeddedScorer
from secondpass.scorers.embedding import packing
from secondpass.scorers.embedding.passage_store import KnownPassages, PassageStore
from secondpass.scorers.embedding.similarity import Text

PASSAGES = [
    "The ferry to the island leaves every morning. It returns before dark.",
    "Pensioners travel at half price on every train of the region.",
    "Bananas are rich in potassium, which muscles need.",
    "Tickets are sold at the harbour, and on board if there is room.",
    "The museum shows how salt was made on the coast.",
]
QUERY = "Is there a discount for pensioners on the train?"
SETTINGS = {"threads": 1, "precision": "exact"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "passages.store"


def scorer(path=None, **settings):
    return EmbeddedScorer(**{**SETTINGS, **settings}, store=None if path is None else str(path))


def reranker(path, **settings):
    method = {"type": "embedded", **SETTINGS, "store": str(path)}
    return Reranker.from_config({"method": method, **settings})


def figures(ranking):
    return [(item.text, item.rerank_score, item.final_score, item.span) for item in ranking]


def test_a_ranking_stores_what_it_encodes(path):
    writing = reranker(path)
    first = writing.rerank(QUERY, PASSAGES)
    writing.close()
    again = reranker(path).rerank(QUERY, PASSAGES)
    assert (first.report.usage.known, first.report.usage.encoded) == (0, 5)
    assert (again.report.usage.known, again.report.usage.encoded) == (5, 0)
    assert figures(first) == figures(again)
    assert first.report.status == again.report.status == "ok"


def test_another_process_reads_it(path):
    writing = reranker(path)
    expected = figures(writing.rerank(QUERY, PASSAGES))
    writing.close()
    code = (
        "import sys, json; from test_passage_store import *;"
        "found = reranker(sys.argv[1]).rerank(QUERY, PASSAGES);"
        "print(json.dumps([found.report.usage.known, figures(found)]))"
    )
    folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    run = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": folders},
    )
    known, found = json.loads(run.stdout)
    assert known == 5
    assert [[*row[:3], [*row[3]]] for row in expected] == found


@pytest.mark.parametrize("language", ["ignore", "lean"])
@pytest.mark.parametrize("settings", [{}, {"feedback": 0}, {"idf": False}, {"max_length": 16}])
def test_known_passages_have_the_scores_of_new_ones(path, settings, language):
    kept = scorer(path, language=language, **settings)
    passages = [*PASSAGES, "", "  " + PASSAGES[0], "\u4f60\u597d", PASSAGES[1]]
    new = [*kept.score_lists([(QUERY, passages)], None)][-1][0]
    known = [*kept.score_lists([(QUERY, passages)], None)][-1][0]
    assert new.encoded == len(passages)
    assert known.known == len(passages)
    assert (new.scores, new.order_scores, new.spans) == (
        known.scores,
        known.order_scores,
        known.spans,
    )
    indices = kept.truncated(QUERY, passages)
    kept.close()
    fresh = scorer(path, language=language, **settings)
    assert [*fresh.score_lists([(QUERY, passages)], None)][-1][0].known == len(passages)
    assert fresh.truncated(QUERY, passages) == indices == scorer_truncated(passages, **settings)


def scorer_truncated(passages, **settings):
    plain = scorer(None, **settings)
    plain.score_pairs(QUERY, passages)
    return plain.truncated(QUERY, passages)


def test_packing_moves_scores_by_a_few_hundredths(path):
    plain = scorer().score_pairs(QUERY, PASSAGES)
    assert scorer(path).score_pairs(QUERY, PASSAGES) == pytest.approx(plain, abs=0.05)


def test_memory_alone(tmp_path):
    kept = scorer(memory_mb=1)
    counts = [([*kept.score_lists([(QUERY, PASSAGES)], None)][-1][0].known) for _ in range(2)]
    assert counts == [0, 5]
    assert kept.score_pairs(QUERY, PASSAGES) == scorer(tmp_path / "other").score_pairs(
        QUERY, PASSAGES
    )


def test_the_memory_is_bounded():
    known = KnownPassages({}, 1000, None)
    vector = np.full((1, 384), 384**-0.5, dtype=np.float32)
    text = Text(vector[0], vector, np.ones(1), np.zeros(1), [(0, 1)])
    record = packing.pack(text, "a")
    assert 500 < len(record) < 1000
    known.put_many({"first": record})
    known.put_many({"second": record})
    assert [found is not None for found in known.get_many(["first", "second"])] == [False, True]


def test_the_vectors_of_stored_passages(path):
    kept = scorer(path)
    new = kept.vectors(PASSAGES)
    assert all((one == other).all() for one, other in zip(new, kept.vectors(PASSAGES), strict=True))
    assert np.stack(new) == pytest.approx(np.stack(scorer().vectors(PASSAGES)), abs=0.01)


def test_with_a_deadline_known_passages_are_scored_first(path):
    kept = scorer(path)
    kept.score_pairs(QUERY, PASSAGES[3:])
    first = next(iter(kept.score_lists([(QUERY, PASSAGES)], float("inf"))))[0]
    assert [score is not None for score in first.scores] == [False] * 3 + [True] * 2


# ---------------------------------------------------------------------- filling


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"passages": {"size": 40}},
        {"render": {"fields": ["title", "text"]}},
        {"depth": 1, "dedupe": True, "when": {"words": {"at_least": 1}}},
        {"fallback": [{"type": "lexical"}]},
    ],
)
def test_stored_passages_are_those_that_rankings_ask_for(path, settings):
    filled = reranker(path, **settings)
    candidates = [
        {"text": text, "id": str(number), "title": f"Page {number}"}
        for number, text in enumerate(PASSAGES)
    ]
    stored = filled.store(candidates)
    assert stored.known == 0
    assert stored.encoded >= 5
    assert filled.store(candidates) == (stored.encoded, 0)
    ranking = filled.rerank(QUERY, candidates * 2)
    assert ranking.report.usage.encoded == 0
    filled.forget(candidates)
    assert filled.store(candidates).encoded == stored.encoded


def test_a_stage_of_a_cascade_is_filled(path):
    stages = [{"type": "lexical"}, {"type": "embedded", "store": str(path), "depth": 2}]
    filled = Reranker.from_config({"method": {"type": "cascade", "stages": stages}})
    assert filled.store(PASSAGES).encoded == 5
    assert filled.rerank(QUERY, PASSAGES).report.usage.encoded == 0


def test_a_reranker_without_a_store():
    for method in ("lexical", {"type": "embedded", "memory_mb": 1}):
        with pytest.raises(StoreError, match="no method has a store"):
            Reranker(method).store(PASSAGES)


def test_nothing_is_deleted_for_what_is_stored_ahead(path):
    small = scorer(path=None)
    small = EmbeddedScorer(**SETTINGS, store=PassageStore(str(path), max_mb=1))
    many = [f"{text} Number {number}." for number in range(100) for text in PASSAGES]
    with pytest.raises(StoreError, match="max_mb"):
        small.store_passages(many)
    with sqlite3.connect(path) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM passages")
    first = [*small.score_lists([(QUERY, many[:count])], None)][-1][0]
    assert first.known == count > 60


def test_a_file_that_cannot_be_written_is_an_error_ahead_and_an_issue_later(tmp_path):
    folder = tmp_path / "missing"
    ranking = reranker(folder / "x.store").rerank(QUERY, PASSAGES)
    assert [issue.code for issue in ranking.report.issues] == ["cache_failed"]
    assert ranking.report.usage.encoded == 5
    with pytest.raises(StoreError, match=r"x\.store"):
        reranker(folder / "x.store").store(PASSAGES)


# ---------------------------------------------------------------------- the file


def test_the_key_has_everything_a_record_depends_on(path):
    first = scorer(path)
    first.score_pairs(QUERY, PASSAGES)
    first.close()

    def known(**settings):
        result = [*scorer(path, **settings).score_lists([(QUERY, PASSAGES)], None)]
        return result[-1][0].known

    assert known(threads=2) == 5
    assert known(backend="onnx") == 5
    assert known(feedback=0, idf=False) == 5
    assert known(max_length=64) == 0
    assert known(precision="auto") == 0


def test_no_text_and_no_ids_are_in_the_file(path):
    from secondpass.scorers.embedding.minilm import load_tokenizer

    kept = scorer(path)
    kept.score_pairs(QUERY, PASSAGES)
    kept.close()
    content = path.read_bytes()
    ids = np.array(load_tokenizer().encode(PASSAGES[0]).ids, dtype="<u4")
    for width in ("<u2", "<u4", "<i8"):
        for part in (ids[1:4], np.sort(ids)[:3]):
            assert part.astype(width).tobytes() not in content
    for word in (b"ferry", b"pensioner", b"potassium"):
        assert word not in content.lower()


def test_what_is_forgotten_is_not_in_the_file(path):
    kept = scorer(path)
    kept.score_pairs(QUERY, PASSAGES)
    kept.close()
    with sqlite3.connect(path) as connection:
        records = [row[0] for row in connection.execute("SELECT value FROM passages")]
    connection.close()
    assert all(record[200:300] in path.read_bytes() for record in records)
    kept.forget_passages(PASSAGES[:2])
    kept.close()
    left = [record for record in records if record[200:300] in path.read_bytes()]
    assert len(left) == 3
    assert not path.with_name(f"{path.name}-wal").exists()


def test_a_damaged_row_is_encoded_again_and_replaced(path):
    kept = scorer(path)
    expected = kept.score_pairs(QUERY, PASSAGES)
    kept.close()
    with sqlite3.connect(path) as connection:
        query = "SELECT checksum, value FROM passages WHERE rowid < 3 ORDER BY rowid DESC"
        exchanged = connection.execute(query).fetchall()
        for rowid, row in enumerate(exchanged, 1):
            change = "UPDATE passages SET checksum = ?, value = ? WHERE rowid = ?"
            connection.execute(change, (*row, rowid))
        connection.execute("UPDATE passages SET value = 7 WHERE rowid = 3")
    connection.close()
    for known in (2, 5):
        result = [*kept.score_lists([(QUERY, PASSAGES)], None)][-1][0]
        assert result.known == known
        assert kept.cache_issues() == []
        kept.close()
    assert kept.score_pairs(QUERY, PASSAGES) == expected


def test_a_relative_path_is_that_of_the_folder_in_which_it_was_given(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        kept = scorer("passages.store")
        assert kept.store_passages(PASSAGES) == (0, 5)
        monkeypatch.chdir(tmp_path)
        assert (tmp_path / name / "passages.store").exists()
        kept.close()


def test_the_first_writer_wins(path):
    stores = [PassageStore(str(path)).open() for _ in range(2)]
    for store, value in zip(stores, (b"first", b"second"), strict=True):
        store.put_many({b"key": value})
    assert [store.get_many([b"key"]) for store in stores] == [{b"key": b"first"}] * 2


def test_eight_threads_read_side_by_side(path):
    store = PassageStore(str(path)).open()
    store.put_many({bytes([number]): bytes(8000) for number in range(100)})
    keys = [bytes([number]) for number in range(100)]
    barrier = threading.Barrier(8, timeout=60)
    found = []

    def read():
        barrier.wait()
        found.extend(len(store.get_many(keys)) for _ in range(20))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [100] * 160


@pytest.mark.parametrize("content", [b"a user's notes", b"SQLite format 3\0" + bytes(5000)])
def test_a_file_of_something_else_is_left_alone(path, content):
    path.write_bytes(content)
    ranking = reranker(path).rerank(QUERY, PASSAGES)
    assert [issue.code for issue in ranking.report.issues] == ["cache_failed"]
    with pytest.raises(StoreError, match=r"passages\.store"):
        reranker(path).store(PASSAGES)
    assert path.read_bytes() == content


# ---------------------------------------------------------------------- two users

OTHER_USER = 65_534
ROOT_ONLY = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be another user"
)


def as_other_user(function):
    """The result of a function in a child of another user, who has the group of the files."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([0])
            os.setgid(0)
            os.setuid(OTHER_USER)
            os.write(writing, repr(function()).encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        result = pipe.read().decode()
    os.waitpid(child, 0)
    return result


@pytest.fixture
def open_path():
    """A path that other users can reach, unlike the folders of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "passages.store"


@ROOT_ONLY
@pytest.mark.parametrize("writer_is_open", [False, True])
@pytest.mark.parametrize("mode", [0o750, 0o755])
def test_another_user_of_the_group_reads(open_path, writer_is_open, mode):
    writer = PassageStore(str(open_path), readers="group").open()
    writer.put_many({b"key": b"value"})
    writer.close()
    if writer_is_open:  # a store closes its file before a fork
        other = sqlite3.connect(open_path)
        other.execute("UPDATE passages SET used = used")
        other.commit()
    open_path.parent.chmod(mode)
    before = sorted(os.listdir(open_path.parent))

    def read():
        reader = PassageStore(str(open_path), readers="group").open()
        found = reader.get_many([b"key"])
        reader.put_many({b"other": b"value"})
        result = found, [issue.message for issue in reader.issues()]
        reader.close()
        return result

    assert as_other_user(read) == repr(({b"key": b"value"}, []))
    assert sorted(os.listdir(open_path.parent)) == before
    assert open_path.stat().st_mode & 0o777 == 0o640
    assert writer.get_many([b"other"]) == {}
    if writer_is_open:
        other.close()


@ROOT_ONLY
def test_a_reader_sees_what_is_written_later(open_path):
    writer = PassageStore(str(open_path), readers="group").open()
    writer.put_many({b"1": b"value"})
    writer.close()

    def read():
        reader = PassageStore(str(open_path), readers="group").open()
        first = sorted(reader.get_many([b"1", b"2"]))
        os.write(ready, b"x")
        os.read(go, 1)
        return first, sorted(reader.get_many([b"1", b"2"])), reader.issues()

    waiting, ready = os.pipe()
    go, start = os.pipe()

    def write():
        os.read(waiting, 1)
        writer.put_many({b"2": b"value"})
        writer.close()
        os.write(start, b"x")

    thread = threading.Thread(target=write)
    thread.start()
    found = as_other_user(read)
    thread.join(60)
    assert found == repr(([b"1"], [b"1", b"2"], []))


@ROOT_ONLY
def test_by_default_no_other_user_reads(open_path):
    writer = PassageStore(str(open_path)).open()
    writer.put_many({b"key": b"value"})
    writer.close()

    def read():
        reader = PassageStore(str(open_path)).open()
        return reader.get_many([b"key"]), [issue.code for issue in reader.issues()]

    assert as_other_user(read) == repr(({}, ["cache_failed"]))


# ---------------------------------------------------------------------- killed processes

WRITER = """
import hashlib, random, sys
from secondpass.scorers.embedding.passage_store import PassageStore
store = PassageStore(sys.argv[1], max_mb=2).open()
while True:
    names = [b"%d" % random.randrange(2000) for _ in range(20)]
    store.put_many({name: hashlib.shake_128(name).digest(3000) for name in names})
"""


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.long)])
def test_writers_that_are_killed_leave_a_whole_file(path, kills):
    """Two write more than fits, one of them is killed at a random moment and replaced."""
    random = Random(kills)
    reader = PassageStore(str(path), max_mb=2).open()
    names = [b"%d" % number for number in range(2000)]

    def writer():
        return subprocess.Popen([sys.executable, "-c", WRITER, str(path)])

    writers = [writer(), writer()]
    try:
        until = time.monotonic() + 60
        while len(reader.get_many(names)) < 100:
            assert time.monotonic() < until
            time.sleep(0.05)
        for _ in range(kills):
            time.sleep(0.3 + random.random() / 2)
            killed = writers.pop(0)
            killed.kill()
            killed.wait(60)
            writers.append(writer())
            found = reader.get_many(names)
            assert len(found) >= 100
            for name, value in found.items():
                assert value == hashlib.shake_128(name).digest(3000)
            assert reader.issues() == []
    finally:
        for running in writers:
            running.kill()
            running.wait(60)
    assert [one.name for one in path.parent.iterdir() if "set-aside" in one.name] == []


def test_a_copy_as_the_docs_say_is_whole_while_others_write(path):
    docs = Path(__file__).parents[3] / "docs/how-to/caching-and-concurrency.md"
    (statement,) = re.findall(r'`sqlite3 passages.store "(VACUUM INTO .*)"`', docs.read_text())
    stop = threading.Event()
    stores = [PassageStore(str(path)).open() for _ in range(2)]
    written = [0, 0]

    def write(number):
        while not stop.is_set():
            key = b"%d-%d" % (number, written[number])
            stores[number].put_many({key: key * 500})
            written[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for copied in range(12):
            until = time.monotonic() + 60
            while min(written) < 2 * copied:
                assert time.monotonic() < until
                time.sleep(0.005)
            before, copy = [*written], path.with_name(f"copy{copied}.store")
            with closing(sqlite3.connect(path, timeout=60)) as connection:
                connection.execute(statement.replace("copy.store", str(copy)))
            opened = PassageStore(str(copy)).open()
            keys = [b"%d-%d" % (number, at) for number in range(2) for at in range(before[number])]
            assert opened.get_many(keys) == {key: key * 500 for key in keys}
            assert opened.issues() == []
            opened.close()
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert [issue for store in stores for issue in store.issues()] == []
    for store in stores:
        store.close()


def test_doctor_says_what_a_store_holds(path):
    kept = scorer(path)
    kept.store_passages(PASSAGES)
    kept.close()
    setting = f"method.store={path}"
    run = CliRunner().invoke(app, ["doctor", "--preset", "embedded", "--set", setting, "--json"])
    [held] = json.loads(run.stdout)["reranker"]["stores"]
    assert (held["path"], held["rows"], held["writable"]) == (str(path), 5, True)
    assert 0 < held["bytes"] < held["max_bytes"]
    with sqlite3.connect(path) as connection:  # its own sentences are gone again
        assert connection.execute("SELECT count(*) FROM passages").fetchone() == (5,)
    connection.close()
