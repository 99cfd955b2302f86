"""Settings that all tests share."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# No deadlines: a busy machine must not fail a test. In CI the examples are the same every time.
settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=2000)
settings.register_profile(
    "mutation",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=20,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
)

# Libraries must neither phone home nor look for a hub while tests run.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

# A shell starts what is to run in the background with Ctrl-C ignored, and processes pass that on.
# The tests of Ctrl-C send it themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)

WITHOUT_LONG = ("not long", "not long and not integration")
"""What `-m` is for the quick tests."""

Row = type(pytest.param())

ONE_AUTHORITY = Path(__file__).parent / "tests/support/one_authority.pem"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collecting makes a million objects that all stay: the garbage collector leaves them alone."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    """No items are made of `long` rows that would only be deselected: most rows of matrices are.

    A row without its own id is kept, because the ids of those after it may count it. So is a table
    of which nothing would be left.
    """
    if metafunc.config.option.markexpr not in WITHOUT_LONG:
        return
    parametrize = metafunc.parametrize

    def parametrize_usual(names, rows, *more, ids=None, **settings):
        rows = list(rows)
        if ids is None and not more:
            rows = [row for row in rows if not _is_named_and_long(row)] or rows
        parametrize(names, rows, *more, ids=ids, **settings)

    metafunc.parametrize = parametrize_usual


def _is_named_and_long(row):
    return (
        isinstance(row, Row)
        and row.id is not None
        and any(mark.name == "long" for mark in row.marks)
    )


@pytest.fixture(scope="session", autouse=True)
def certificates(request):
    """One certificate authority: each client that reads those of the system takes 25 ms to do so.

    Tests that use the network need the real ones.
    """
    if any(item.get_closest_marker("integration") for item in request.session.items):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(ONE_AUTHORITY))
        patch.delenv("SSL_CERT_DIR", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_files():
    """On a busy machine, disks and locks take longer than the package waits for them.

    Tests of these limits set their own.
    """
    from secondpass.concurrency import sqlite_connection, sqlite_files
    from secondpass.formats import day_files
    from secondpass.runtime import answer_store

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer_store, "_MAX_WAIT", 60.0)
        patch.setattr(day_files, "_LOCK_WITHIN", 60.0)
        patch.setattr(sqlite_connection, "_FORK_WITHIN", 60.0)
        patch.setattr(sqlite_files, "_OPEN_WITHIN", 60.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def label_secret():
    """Opaque labels are the same in every run: some tests have replies with fixed labels."""
    from secondpass.prompts.labels import replace_secret

    before = replace_secret(b"tests")
    yield
    replace_secret(before)
