"""The fixtures of tests of the command, and commands that serve in processes of their own."""

import contextlib
import re
import subprocess
import sys

import pytest

from command_fixtures import *  # noqa: F403


@contextlib.contextmanager
def _running(*arguments):
    command = [sys.executable, "-m", "secondpass", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        match = re.search(r"http://\S+", line)
        assert match, line + process.stderr.read()
        yield process, match[0]
    finally:
        process.kill()
        process.wait(60)
        process.stderr.close()


@pytest.fixture
def running():
    """Start a command: its process, which is killed at the end of the block, and its URL."""
    return _running
