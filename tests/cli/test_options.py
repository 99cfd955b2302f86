"""Names of presets, which shells complete as they are typed."""

import os
import subprocess
import sys

import pytest

from secondpass.config import preset_names


def asked(*words):
    """The variables by which bash asks for the last of these words."""
    return {
        "_SECONDPASS_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["secondpass", *words]),
        "COMP_CWORD": str(len(words)),
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["conf"], ["config"]),
        (["config", "v"], ["validate"]),
        *(
            (words, [name for name in preset_names() if name.startswith(words[-1])])
            for words in (
                ["query", "-p", "l"],
                ["eval", "suite", "--preset", "embedded", "--preset", "c"],
                ["presets", "t"],
                ["rerank", "-p", "xical"],
                ["rerank", "-p", "LEX"],
                ["config", "show", "--preset", "nosuch"],
            )
        ),
    ],
    ids=" ".join,
)
def test_commands_and_presets_are_completed(secondpass, monkeypatch, words, expected):
    for name, value in asked(*words).items():
        monkeypatch.setenv(name, value)
    told = secondpass()
    assert (told.code, told.out.split()) == (0, expected), told.err


def test_a_shell_gets_the_names_alone():
    done = subprocess.run(
        [sys.executable, "-m", "secondpass"],
        env={**os.environ, **asked("rerank", "--preset", "emb")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [name for name in preset_names() if name.startswith("emb")]
