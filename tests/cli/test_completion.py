"""Completion in shells, as they ask for it."""

import os
import subprocess
import sys

import pytest

from secondpass.config import preset_names


def completed(*words):
    """What bash is given for the last of these words."""
    done = subprocess.run(
        [sys.executable, "-m", "secondpass"],
        env={
            **os.environ,
            "_SECONDPASS_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(["secondpass", *words]),
            "COMP_CWORD": str(len(words)),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "beginning"),
    [
        (["rerank", "--preset", "emb"], "emb"),
        (["query", "-p", "l"], "l"),
        (["eval", "suite", "--preset", "embedded", "--preset", "c"], "c"),
        (["presets", "t"], "t"),
        (["config", "show", "--preset", "nosuch"], "nosuch"),
    ],
)
def test_names_of_presets_are_completed(words, beginning):
    assert completed(*words) == [name for name in preset_names() if name.startswith(beginning)]


def test_commands_are_completed():
    assert completed("conf") == ["config"]
    assert completed("config", "v") == ["validate"]
