"""Settings that all tests share."""

import asyncio
import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# No deadlines: a busy machine must not fail a test. Usually the examples are the same in every run
# and on every machine, so that nobody meets a failure that CI has not seen; `long` draws new ones.
settings.register_profile("default", deadline=None, max_examples=50, derandomize=True)
settings.register_profile(
    "long", deadline=None, max_examples=2000, derandomize=False, print_blob=True
)
settings.register_profile(
    "mutation",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=20,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "default")

# Libraries must not send telemetry or contact a model hub while tests run.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

# A shell starts background jobs with Ctrl-C ignored, which child processes inherit.
# The tests of Ctrl-C send the signal themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)

WITHOUT_LONG = ("not long", "not long and not integration")
"""Values of `-m` that deselect long tests."""

Row = type(pytest.param())

ONE_AUTHORITY = Path(__file__).parent / "tests/support/one_authority.pem"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect without garbage collection: a million objects are created, and all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter):
    """Say what installs the packages that failed tests did not find."""
    stats = terminalreporter.stats
    failed = [*stats.get("failed", ()), *stats.get("error", ())]
    if any("MissingExtraError" in report.longreprtext for report in failed):
        terminalreporter.write_line("Packages are missing: `make venv` installs all for the tests.")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    """Create no items for `long` rows that would only be deselected, as most rows of matrices are.

    A row without its own id is kept, because the generated ids of later rows count it. If all rows
    are `long`, all are kept.
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
    """Use a single certificate authority: loading those of the system takes 25 ms per client.

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
    from secondpass.storage import files
    from secondpass.storage import store as storing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storing, "_MAX_WAIT", 60.0)
        patch.setattr(files, "_FORK_WITHIN", 60.0)
        patch.setattr(files, "_OPEN_WITHIN", 60.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def trusted_models():
    """Most models of tests are random, and known answers would make their reports degraded."""
    from secondpass.scorers.checks import known_answers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_answers, "doubt", lambda *_: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def label_secret():
    """Make opaque labels the same in every run, because some tests have fixed labels in replies."""
    from secondpass.prompts.labels import replace_secret

    before = replace_secret(b"tests")
    yield
    replace_secret(before)


@pytest.fixture(params=["sync", "async"])
def rank(request):
    """Ranks in both ways."""
    if request.param == "sync":
        return lambda reranker, *arguments, **options: reranker.rerank(*arguments, **options)
    return lambda reranker, *arguments, **options: asyncio.run(
        reranker.arerank(*arguments, **options)
    )
