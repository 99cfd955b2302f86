"""The monitor: what it counts, what reaches its files, and that nothing is lost."""

import asyncio
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import secondpass
from fakes import Answering, InOrder, raising
from sampling import examples
from secondpass import Candidate, InputError, MethodError, Reranker
from secondpass.formats.files import lock
from secondpass.monitoring import Monitor, read_days
from secondpass.monitoring.ranking_days import OTHER

TEXTS = ["a passage about owls", "another about cats", "a third"]


def rankings(folder):
    """Number of rankings by status."""
    totals: dict[str, int] = {}
    for counts in read_days(folder).values():
        assert counts.rankings == sum(counts.statuses.values())
        for status, count in counts.statuses.items():
            totals[status] = totals.get(status, 0) + count
    return totals


def python(code):
    """What a process of its own prints."""
    # Of forks with threads, Python 3.12 and later warn.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    ended = subprocess.run(command, timeout=60, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def quiet(scorer=None, **options):
    return Reranker(scorer or InOrder([1, 2, 3]), log_level="debug", **options)


BUSY = Answering(raising(MethodError("busy", code="server_error")))


def test_a_day_of_rankings(tmp_path):
    falling = [Candidate(text, score=score) for text, score in zip(TEXTS, (9, 2, 1), strict=True)]
    with Monitor(tmp_path):
        quiet().rerank("q", TEXTS)
        quiet(when={"margin": {"below": 0.5}}).rerank("q", falling)
        quiet(BUSY).rerank("q", TEXTS)
        quiet(BUSY, fallback=["lexical"]).rerank("owls", TEXTS)
    found = {
        (key.reranker, key.method, key.kind): each for key, each in read_days(tmp_path).items()
    }
    assert found.keys() == {
        ("in-order", "in-order", "unbounded"),
        ("in-order", None, None),
        ("answering", None, None),
        ("answering", "lexical", "unbounded"),
    }
    ok = found["in-order", "in-order", "unbounded"]
    assert ok.statuses == {"ok": 1}
    assert ok.sketches["rerank.highest"].quantile(0.5) == pytest.approx(3, rel=0.005)
    assert found["in-order", None, None].statuses == {"skipped": 1}
    assert found["answering", None, None].statuses == {"unchanged": 1}
    assert found["answering", "lexical", "unbounded"].issues == {"server_error": 1}
    assert {key.version for key in read_days(tmp_path)} == {secondpass.__version__}
    assert {path.name for path in tmp_path.iterdir()} == {
        ".lock",
        time.strftime("%Y-%m-%d.jsonl", time.gmtime()),
    }


def test_it_counts_while_it_is_open_and_can_be_used_again(tmp_path):
    monitor = Monitor(tmp_path)
    for _ in range(3):
        with monitor:
            quiet().rerank("q", TEXTS)
        quiet().rerank("q", TEXTS)
    assert rankings(tmp_path) == {"ok": 3}


def test_it_counts_once_however_often_it_is_registered(tmp_path):
    monitor = Monitor(tmp_path)
    with monitor, pytest.raises(InputError, match="in a with block already"), monitor:
        pass
    with secondpass.observe(monitor), monitor:
        quiet().rerank("q", TEXTS)
        with secondpass.observe(monitor):
            quiet().rerank("q", TEXTS)
    with secondpass.observe(monitor):
        monitor.close()
        quiet().rerank("q", TEXTS)  # ends after the monitor was closed
    assert rankings(tmp_path) == {"ok": 3}


def test_flush(tmp_path):
    monitor = Monitor(tmp_path)
    with monitor:
        for expected in (1, 2):
            quiet().rerank("q", TEXTS)
            monitor.flush()
            assert rankings(tmp_path) == {"ok": expected}


def test_written_from_time_to_time(tmp_path):
    with Monitor(tmp_path, every=0.01):
        quiet().rerank("q", TEXTS)
        until = time.monotonic() + 60
        while not list(tmp_path.glob("*.jsonl")) or rankings(tmp_path) != {"ok": 1}:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_cancelled_rankings(tmp_path):
    async def cancelled():
        started = asyncio.Event()

        async def hang(_messages):
            started.set()
            await asyncio.sleep(3600)

        task = asyncio.create_task(quiet({"type": "graded", "llm": hang}).arerank("q", TEXTS))
        await asyncio.wait_for(started.wait(), 60)
        task.cancel()
        await asyncio.wait([task], timeout=60)

    with Monitor(tmp_path):
        asyncio.run(cancelled())
    assert rankings(tmp_path) == {"cancelled": 1}


@given(query=st.text("αβγδ", min_size=4), text=st.text("κλμν", min_size=4), code=st.text())
@examples(6)
def test_no_text(tmp_path_factory, query, text, code):
    folder = tmp_path_factory.mktemp("monitor")
    answer = raising(MethodError(text, code=text + code))
    candidate = Candidate(text, id=text, score=0.5, metadata={text: text})
    with Monitor(folder):
        quiet().rerank(query, [candidate], instruction=query)
        quiet(Answering(answer)).rerank(query, [candidate])
    (file,) = folder.glob("*.jsonl")
    content = file.read_text(encoding="utf-8")
    assert not set("αβγδκλμν") & set(content.encode().decode("unicode_escape"))
    assert rankings(folder) == {"ok": 1, "unchanged": 1}


# ---------------------------------------------------------------------- many at once


def test_many_threads(tmp_path):
    reranker = quiet()

    def work():
        for _ in range(25):
            reranker.rerank("q", TEXTS)

    with Monitor(tmp_path, every=0.001):
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert rankings(tmp_path) == {"ok": 200}


SCRIPT = """
import sys
import secondpass
from secondpass.monitoring import Monitor

secondpass.observe(Monitor(sys.argv[1], every=float(sys.argv[2])))
reranker = secondpass.Reranker("lexical")
for _ in range(50):
    reranker.rerank("owls", ["owls", "cats"])
"""


def test_many_processes_that_just_end(tmp_path):
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    processes = [subprocess.Popen([*command, str(every)]) for every in (60, 0.02)]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert rankings(tmp_path) == {"ok": 100}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_workers(tmp_path):
    script = f"""
        import multiprocessing, os
        import secondpass
        from secondpass.monitoring import Monitor

        secondpass.observe(Monitor({str(tmp_path)!r}))
        reranker = secondpass.Reranker("lexical")
        reranker.rerank("owls", ["owls", "cats"])

        def work():
            reranker.rerank("owls", ["owls", "cats"])

        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=work) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        if not os.fork():
            work()
            raise SystemExit
        os.wait()
        reranker.rerank("owls", ["owls", "cats"])
    """
    assert python(textwrap.dedent(script)) == ""
    assert rankings(tmp_path) == {"ok": 6}


# ---------------------------------------------------------------------- faults


def test_the_folder_is_locked_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr("secondpass.monitoring.ranking_days._LOCK_WITHIN", 0.05)
    with Monitor(tmp_path):
        quiet().rerank("q", TEXTS)
        with open(tmp_path / ".lock", "a+b") as file:
            lock(file)
            monitor = Monitor(tmp_path)
            with monitor:
                quiet().rerank("q", TEXTS)
                monitor.flush()
                quiet().rerank("q", TEXTS)
            assert rankings(tmp_path) == {"ok": 2}
            assert len(list(tmp_path.glob("*.jsonl"))) == 1
    assert rankings(tmp_path) == {"ok": 5}  # the first monitor saw all three


def test_a_folder_that_cannot_be_written_to(tmp_path, caplog):
    folder = tmp_path / "monitor"
    monitor = Monitor(folder)
    folder.rmdir()
    folder.write_text("")
    with monitor:
        quiet().rerank("q", TEXTS)
        for _ in range(3):
            with pytest.raises(OSError, match=r"."):
                monitor.flush()
        folder.unlink()
        folder.mkdir()
    assert rankings(folder) == {"ok": 1}


def test_errors_of_writing_are_logged_once(tmp_path, caplog):
    folder = tmp_path / "monitor"
    monitor = Monitor(folder, every=0.001)
    folder.rmdir()
    with monitor:
        quiet().rerank("q", TEXTS)
        until = time.monotonic() + 60
        while not caplog.records and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.02)
    messages = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(messages) == 1
    assert f"monitoring cannot write to {folder}: No such file" in messages[0]


def test_whatever_fails_is_logged_and_nothing_is_lost(tmp_path, caplog, monkeypatch):
    with Monitor(tmp_path) as monitor:
        quiet().rerank("q", TEXTS)
        with monkeypatch.context() as patch:
            patch.setattr("secondpass.monitoring.ranking_days.days_to_lines", lambda days: [days])
            monitor.close()
    assert f"monitoring cannot write to {tmp_path}: AttributeError" in caplog.text
    assert rankings(tmp_path) == {"ok": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 0}, "every: must be a number of seconds above 0, not 0"),
        ({"every": "60"}, "every: must be a number of seconds above 0"),
        ({"every": True}, "every: must be"),
        ({"every": float("nan")}, "every: must be"),
        ({"keep": 0}, "keep: must be None or an integer of at least 1, not 0"),
        ({"keep": 1.5}, "keep: must be None or an integer"),
        ({"keep": True}, "keep: must be None or an integer"),
        ({"folder": __file__}, "is a file; give a folder"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        Monitor(**{"folder": tmp_path} | arguments)


def test_the_lines_of_a_day_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("secondpass.monitoring.ranking_days.MOST_LINES", 30)
    for _ in range(2):
        with Monitor(tmp_path):
            for number in range(50):
                scorer = InOrder([1, 2, 3])
                scorer.model_name = f"tenant-{number}"
                quiet(scorer).rerank("q", TEXTS)
    days = read_days(tmp_path)
    assert len(days) == 30 + 1
    (other,) = (counts for key, counts in days.items() if key.reranker == OTHER)
    assert (other.rankings, other.sketches["rerank.highest"].count) == (40, 40)
    assert rankings(tmp_path) == {"ok": 2 * 50}


def test_folders_of_local_models_are_not_in_the_files(tmp_path):
    scorer = Answering(BUSY.answer)
    scorer.model_name = "/home/someone/models/bge-small"
    with Monitor(tmp_path):
        quiet(scorer, fallback=["lexical"]).rerank("owls", TEXTS)
    assert [key.reranker for key in read_days(tmp_path)] == ["bge-small"]
    for path in tmp_path.iterdir():
        assert "someone" not in path.read_text()


def test_importing_it_loads_little():
    code = "import sys, secondpass.monitoring; print({'numpy', 'scipy'} & {*sys.modules})"
    assert python(code) == "set()\n"
