"""The Dockerfile: what must hold of it, and hadolint where that is installed."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from secondpass.cli.app import app

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "docker" / "Dockerfile"


def instructions():
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def last_stage():
    found = instructions()
    start = max(index for index, (name, _) in enumerate(found) if name == "FROM")
    return dict(found[start:])


def test_runs_as_nobody():
    names = [name for name, _ in instructions()]
    user, group = last_stage()["USER"].split(":")
    assert (user, group) == ("65534", "65534")
    # Nothing is installed or copied after the user has changed.
    assert not {"RUN", "COPY", "ADD"} & set(names[names.index("USER") :])


def test_the_command_and_its_options_exist():
    program, command, *options = json.loads(last_stage()["ENTRYPOINT"])
    assert (program, command) == ("secondpass", "serve")
    known = {
        option
        for parameter in get_command(app).get_command(None, "serve").params
        for option in parameter.opts
    }
    given = options + json.loads(last_stage()["CMD"])
    assert {option for option in given if option.startswith("-")} <= known
    assert options[options.index("--port") + 1] == last_stage()["EXPOSE"]
    assert "--api-key-env" in options, "the address can be reached from other machines"


def test_what_is_copied_exists_and_is_not_ignored():
    ignored = (ROOT / "docker" / "Dockerfile.dockerignore").read_text().split()
    assert ignored[0] == "*"
    copied = [
        name.removeprefix("./")
        for instruction, value in instructions()
        if instruction == "COPY" and "--from" not in value
        for name in value.split()[:-1]
    ]
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name


def test_no_secret_is_built_in():
    for name, value in instructions():
        if name in {"ENV", "ARG", "LABEL"}:
            assert not re.search(r"(?i)key|token|secret|password", value)


def test_signals_and_health():
    stage = last_stage()
    assert stage["STOPSIGNAL"] == "SIGTERM"
    assert "/ready" in stage["HEALTHCHECK"]
    assert stage["ENTRYPOINT"].startswith("["), "a shell would not pass signals on"


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_hadolint():
    found = subprocess.run(
        ["hadolint", DOCKERFILE], capture_output=True, text=True, check=False, timeout=60
    )
    assert found.returncode == 0, found.stdout
