"""Functions that run in a forked child."""

import os
import threading

import pytest

NEEDS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


IGNORES_FORKS = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def run_child(act):
    """Run in a forked child; its exit code is 0 if ``act`` returns true."""
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        timer = threading.Timer(20, os._exit, [2])
        timer.daemon = True
        timer.start()
        try:
            os._exit(0 if act() else 1)
        finally:
            os._exit(3)
    return child


def ended_well(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
