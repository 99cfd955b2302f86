"""Rerankers with a response cache."""

import asyncio
import json
import os
import re
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from fakes import Model, always, graded, numbered, ranked, shown_in, task_of
from scripted_services import ranked_by
from secondpass import Candidate, ConfigurationError, Reranker
from secondpass.asking.response_cache import LAYOUT, ResponseCache
from secondpass.errors import LLMError
from secondpass.limits import Limits
from secondpass.questions import Completion
from secondpass.ranking.ledger import Ledger
from secondpass.ranking.methods import to_method
from secondpass.storage import files as storage_files
from secondpass.storage.store import Store
from secondpass.storage.store_file import StoreFile

TEXTS = numbered([3, 1, 2, 5, 4, 9, 7, 8])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.sqlite"


def model(reply=graded, **members):
    return Model(reply, **{"cache_key": "model 1", **members})


def grading(llm, cache, method=None, **settings):
    return Reranker({"type": "graded", "llm": llm, **(method or {})}, cache=cache, **settings)


def codes(ranking):
    return [issue.code for issue in ranking.report.issues]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_an_answer_is_asked_for_once(path, asynchronous):
    llm = model()
    reranker = grading(llm, path, {"batch_size": 3}, limits={"calls": 3, "tokens": 100_000})
    first = ranked_by(reranker, asynchronous, TEXTS)
    again = ranked_by(reranker, asynchronous, TEXTS)
    assert len(llm.prompts) == 3
    assert again.items == first.items
    usage = again.report.usage
    assert (usage.calls, usage.rounds, usage.pairs, usage.cached) == (0, 0, 0, 3)
    assert (usage.input_tokens, usage.output_tokens, usage.cost) == (None, None, None)
    assert (first.report.usage.calls, first.report.usage.cached) == (3, 0)
    assert again.report.to_dict()["usage"]["cached"] == 3
    assert (codes(first), codes(again), again.report.status) == ([], [], "ok")


# ---------------------------------------------------------------------- what is stored


def test_a_repaired_answer_is_stored(path):
    llm = model([always("nonsense"), graded])
    first = grading(llm, path).rerank("q", TEXTS)
    again = grading(llm, path).rerank("q", TEXTS)
    assert (first.report.usage.repairs, first.report.usage.calls) == (1, 2)
    assert (again.report.usage.cached, again.order, codes(again)) == (1, first.order, [])


def cut_off(shown):
    return Completion(graded(shown)[:-8], cut=True)


def explained(shown):
    return Completion(f"{graded(shown)}\n\nThe first is", cut=True)


def outside(shown):
    return json.dumps(dict.fromkeys(shown, 99))


NOT_STORED = {
    "not usable": always("nonsense"),
    "an error": always(LLMError("no", "server_error")),
    "cut off": cut_off,
    "explained until it was cut off": explained,
    "another scale": outside,
    "another scale, repaired": [outside, graded],
}


@pytest.mark.parametrize("replies", NOT_STORED.values(), ids=NOT_STORED)
def test_what_is_not_stored(path, replies):
    grading(model(replies), path).rerank("q", TEXTS)
    llm = model()
    ranking = grading(llm, path).rerank("q", TEXTS)
    assert (len(llm.prompts), ranking.report.usage.cached) == (1, 0)


def test_answers_beside_one_on_another_scale_are_not_stored(path):
    """Theirs may be within the range by chance."""
    settings = {"batch_size": 4}
    llm = model([graded, outside, outside])
    assert codes(grading(llm, path, settings).rerank("q", TEXTS)) == ["score_out_of_range"]
    again = model()
    grading(again, path, settings).rerank("q", TEXTS)
    assert len(again.prompts) == 2


def test_answers_about_shortened_passages_are_not_stored(path):
    too_long = always(LLMError("too long", "too_long", too_long=True))
    llm = model([too_long, graded])
    first = grading(llm, path).rerank("q", [f"{text} " + "x" * 99 for text in TEXTS])
    assert (first.report.usage.retries, codes(first)) == (1, ["asked_again"])
    assert grading(model(), path).rerank("q", TEXTS).report.usage.cached == 0


def test_a_row_of_another_question_is_not_accepted(path):
    reranker = grading(model(), path)
    reranker.rerank("q", TEXTS)
    for value in ('{"values": [1]}', "[]", "null", "no JSON", '{"places": [0, 0], "doubled": 0}'):
        with closing(sqlite3.connect(path)) as connection:
            [(key,)] = connection.execute("SELECT key FROM answers")
        with closing(Store(path, LAYOUT, 10**9)) as store:
            store.put_many({key: value.encode()})
        llm = model()
        ranking = grading(llm, path).rerank("q", TEXTS)
        assert (len(llm.prompts), ranking.report.status) == (1, "ok")


def test_nothing_readable_is_in_the_file(path):
    llm = model(name="gpt-secret")
    texts = [f"{number} passage-secret" for number in range(8)]
    candidates = [Candidate(text, id=f"id-secret-{text[0]}") for text in texts]
    reranker = grading(llm, path, {"prompt": {"criteria": ["criterion-secret"]}})
    reranker.rerank("query-secret", candidates, context="context-secret")
    labels = shown_in(llm.prompts[0])
    reranker.close()
    stored = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"values" in stored
    assert b"secret" not in stored
    assert not [label for label in labels if f'"{label}"'.encode() in stored]


def test_the_event_loop_is_not_blocked(path, monkeypatch):
    """The file is read and written in threads."""
    threads = set()
    for name in ("get_many", "put_many"):
        method = getattr(StoreFile, name)

        def recorded(self, *args, method=method):
            threads.add(threading.current_thread())
            return method(self, *args)

        monkeypatch.setattr(StoreFile, name, recorded)

    async def act():
        await grading(model(), path).arerank("q", TEXTS)
        return threading.current_thread()

    here = asyncio.run(act())
    assert threads
    assert here not in threads


# ---------------------------------------------------------------------- when it fails


def damage(path, start, content):
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


def fill(path):
    """A cache with an answer."""
    with closing(grading(model(), path)) as reranker:
        reranker.rerank("q", TEXTS)


def another_application(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE notes (text)")


UNUSABLE = {
    # what there is; why it cannot be used
    "a file of the user": (
        lambda path: path.write_text('{"text": "of the user"}\n' * 50),
        "it is not a file of secondpass",
    ),
    "damaged first bytes": (
        lambda path: (fill(path), damage(path, 0, b"\0" * 16)),
        "it is not a file of secondpass",
    ),
    "a damaged mark": (
        lambda path: (fill(path), damage(path, 68, b"\xff" * 4)),
        "it is another application's file",
    ),
    "another application": (another_application, "it is another application's file"),
    "a folder": (lambda path: path.mkdir(), "it is a folder"),
    "a pipe": (os.mkfifo, "it is not a file"),
    "a link to nothing": (
        lambda path: path.symlink_to(path / "nothing"),
        "links",
    ),
}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("create", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_a_cache_stops_no_program(path, create, reason, asynchronous):
    """It is not touched: nobody can know whose file it is."""
    create(path)
    before = _content_and_time_of_change(path)
    llm = model()
    with closing(grading(llm, path)) as reranker:
        for _ in range(2):
            ranking = ranked_by(reranker, asynchronous, TEXTS)
            assert ranking.report.status == "ok"
            assert codes(ranking) == ["cache_failed"]
            message = ranking.report.issues[0].message
            assert message.startswith("the response cache 'answers.sqlite' cannot be used: ")
            assert reason in message
    assert len(llm.prompts) == 2
    assert _content_and_time_of_change(path) == before


def _content_and_time_of_change(path):
    """Without the time of access, which reading the file sets."""
    state = path.lstat()
    content = path.is_file() and path.read_bytes()
    return state.st_ino, state.st_mode, state.st_mtime_ns, content, [*path.parent.iterdir()]


def test_a_run_that_can_be_resumed_takes_no_file_of_another(path):
    path.write_text("of the user")
    with pytest.raises(ConfigurationError, match=r"of secondpass; it was not touched$"):
        ResponseCache.of_run(path)
    assert path.read_text() == "of the user"


def test_a_file_that_may_not_be_read(path, monkeypatch):
    fill(path)

    def refuse(*_args, **_settings):
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(storage_files, "connect", refuse)
    ranking = grading(model(), path).rerank("q", TEXTS)
    assert (ranking.report.status, codes(ranking)) == ("ok", ["cache_failed"])


def test_a_cache_of_another_user_is_not_used(path, monkeypatch):
    grading(model(), path).rerank("q", TEXTS)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    llm = model()
    ranking = grading(llm, path).rerank("q", TEXTS)
    assert codes(ranking) == ["cache_failed"]
    assert "it belongs to another user" in ranking.report.issues[0].message
    assert len(llm.prompts) == 1


def test_without_threads_the_model_is_asked(path, monkeypatch):
    def none_left(_call):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("secondpass.concurrency.threads.start", none_left)
    ranking = grading(model(), path).rerank("q", TEXTS)
    assert (codes(ranking), ranking.report.status) == (["cache_failed"], "ok")
    assert "no thread could be started" in ranking.report.issues[0].message


@pytest.mark.parametrize(("waiting", "found"), [(True, {0}), (False, set())])
def test_rankings_that_wait_for_others_look_up_too(path, waiting, found):
    """Their clock has not started, so their deadline has not passed."""
    llm = model()
    grading(llm, path).rerank("q", TEXTS)
    effect = next(to_method({"type": "graded", "llm": llm}).judge(task_of(TEXTS, "q")))
    ledger = Ledger(Limits(deadline=1e-9), waiting=waiting)
    cache = ResponseCache(str(path))
    assert asyncio.run(cache.find(llm, effect.questions, ledger)).keys() == found
    assert ledger.cached == len(found)
    cache.close()


def test_an_interruption_loses_no_answer(path):
    """Answers are stored as they come, not at the end of their round."""

    class Slow(Model):
        async def complete(self, prompt):
            if len(self.prompts) == self.stops_at:
                await asyncio.sleep(60)
            return await super().complete(prompt)

    async def interrupted():
        reranker = grading(Slow(cache_key="model 1", stops_at=2), path, {"batch_size": 2})
        task = asyncio.ensure_future(reranker.arerank("q", TEXTS))
        with closing(StoreFile(path, LAYOUT, 10**9)) as file:
            for _ in range(1200):
                await asyncio.sleep(0.05)
                if file._run(0, count) == 2:
                    break
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def count(connection):
        return connection.execute("SELECT count(*) FROM answers").fetchone()[0]

    asyncio.run(interrupted())
    llm = Slow(cache_key="model 1", stops_at=None)
    ranking = grading(llm, path, {"batch_size": 2}).rerank("q", TEXTS)
    assert (ranking.report.usage.cached, ranking.report.usage.calls) == (2, 2)


# ---------------------------------------------------------------------- services and values


def test_answers_of_unnamed_models_are_not_stored_and_the_report_says_so(path):
    llm, other = model(), Model(ranked, name="unnamed")
    stages = [
        {"type": "graded", "llm": llm, "depth": 8},
        {"type": "listwise", "llm": other, "depth": 3},
    ]
    reranker = Reranker({"type": "cascade", "stages": stages}, cache=path)
    for asked in (1, 2):
        ranking = reranker.rerank("q", TEXTS)
        assert (len(llm.prompts), len(other.prompts)) == (1, asked)
        assert codes(ranking) == ["not_cached"]
    message = ranking.report.issues[0].message
    assert message == "the answers of 'unnamed' are not stored: it has no cache_key"


def function(messages):
    return graded(shown_in(messages))


LOCAL = [
    {"method": "lexical"},
    {"method": {"type": "graded", "llm": function}},
    {"method": {"type": "graded", "llm": Model(cache_key=object())}},
    {"method": "lexical", "fallback": [{"type": "graded", "llm": function}]},
]


@pytest.mark.parametrize("settings", LOCAL)
def test_a_cache_that_would_store_nothing_is_an_error(path, settings):
    with pytest.raises(ConfigurationError, match="cache: cannot be set: no method asks a service"):
        Reranker(**settings, cache=path)
    assert not path.exists()


def test_a_fallback_is_enough(path):
    Reranker("lexical", fallback=[{"type": "graded", "llm": model()}], cache=path)


# ---------------------------------------------------------------------- settings


def test_forms_of_the_setting(path, monkeypatch):
    llm = {"type": "openai", "model": "m"}
    method = {"type": "graded", "llm": llm}
    monkeypatch.setenv("ANSWERS", str(path))
    whole = {"path": str(path), "max_mb": 1, "max_age_days": None}
    for value in (str(path), whole, {"env": "ANSWERS"}):
        reranker = Reranker.from_config({"method": method, "cache": value})
        assert reranker.cache.path == str(path)
        again = Reranker.from_config(reranker.to_config())
        assert vars(again.cache).keys() == vars(reranker.cache).keys()
        assert again.to_config() == reranker.to_config()
    assert Reranker.from_config({"method": method, "cache": whole}).to_config()["cache"] == whole
    assert Reranker(method, cache=path).cache.path == str(path)
    assert Reranker(method, cache=ResponseCache(str(path))).cache.max_mb == 256
    assert Reranker.from_preset("accurate", cache=str(path)).cache.path == str(path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "cache: give a path, a mapping or a ResponseCache, not 3"),
        ("", "path: "),
        ({}, "path: is required"),
        ({"path": "a", "max_mb": 0}, "max_mb"),
        ({"path": "a", "max_age_days": 0}, "max_age_days"),
        ({"path": "a", "max_mbs": 1}, "did you mean 'max_mb'"),
    ],
)
def test_wrong_settings(value, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        grading(model(), value)


def test_a_relative_path_is_that_of_the_beginning(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = ResponseCache("answers.sqlite")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    grading(model(), cache).rerank("q", TEXTS)
    cache.close()
    assert (tmp_path / "answers.sqlite").exists()
    cache.delete()
    assert not (tmp_path / "answers.sqlite").exists()


def test_a_closed_reranker_opens_its_file_again(path):
    llm = model()
    reranker = grading(llm, path)
    reranker.rerank("q", TEXTS)
    reranker.close()
    assert not path.with_name(f"{path.name}-wal").exists()
    assert reranker.rerank("q", TEXTS).report.usage.cached == 1


def test_a_cache_for_a_while(path):
    llm = model()
    reranker = grading(llm, None)
    cache = ResponseCache.of_run(path)
    with reranker.storing_answers(cache) as storing:
        storing.rerank("q", TEXTS)
        assert storing.rerank("q", TEXTS).report.usage.cached == 1
        assert reranker.rerank("q", TEXTS).report.usage.cached == 0
    assert reranker.cache is None  # it is no part of the configuration
    cache.delete()
    assert not list(path.parent.iterdir())


def test_nested_and_parallel_blocks_have_their_own_caches(path):
    reranker = grading(model(), None)
    caches = [ResponseCache.of_run(path.with_name(name)) for name in ("a", "b", "c")]

    def cached(storing, query):
        return [storing.rerank(query, TEXTS).report.usage.cached for _ in range(2)]

    with reranker.storing_answers(caches[0]) as outer:
        with reranker.storing_answers(caches[1]) as inner:
            assert cached(inner, "q") == [0, 1]
            with inner.storing_answers(caches[2]) as same:
                assert same.cache is caches[1]
        assert cached(outer, "q") == [0, 1]
    with ThreadPoolExecutor(2) as pool, ExitStack() as stack:
        blocks = [stack.enter_context(reranker.storing_answers(cache)) for cache in caches[:2]]
        assert [*pool.map(cached, blocks, ["r", "r"])] == [[0, 1], [0, 1]]
    assert not path.with_name("c").exists()


def test_a_run_does_not_find_its_own_answers(path):
    llm = model()
    reranker = grading(llm, None)
    for name, before, asked in [("a", 0.0, 2), ("b", None, 3), ("a", None, 3)]:
        cache = ResponseCache.of_run(path, name, before=before)
        with reranker.storing_answers(cache) as storing:
            for _ in range(2):
                storing.rerank("q", TEXTS)
        assert len(llm.prompts) == asked
