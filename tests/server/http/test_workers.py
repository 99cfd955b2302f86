"""What worker processes share: a folder of metrics. `../cli/test_serve.py` has the processes."""

import logging
import os
from pathlib import Path

import pytest

from secondpass_server.http import workers
from secondpass_server.http.metrics import FOLDER_VARIABLE


def test_metrics_are_kept_in_a_folder_that_ends_or_in_that_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    with workers._metrics_folder():
        folder = Path(os.environ[FOLDER_VARIABLE])
        assert folder.is_dir()
    assert FOLDER_VARIABLE not in os.environ
    assert not folder.exists()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with workers._metrics_folder():
        assert os.environ[FOLDER_VARIABLE] == str(tmp_path)
    assert tmp_path.is_dir()


@pytest.fixture
def logger():
    logger = logging.getLogger("secondpass")
    before = logger.handlers[:], logger.propagate
    yield logger
    logger.handlers[:], logger.propagate = before


def test_logs_go_to_stderr_once(logger, capsys):
    for _ in range(2):
        workers.log_to_stderr()
    logger.error("a worker ended")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" ERROR a worker ended")
