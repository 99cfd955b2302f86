"""Clients of other packages, in an environment of their own, and the expected responses.

The environment is under ``build/``, because the clients pin other versions than this checkout; the
first run makes it.
"""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path

from secondpass import Reranker

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "tests" / "server" / "http" / "requirements-clients.txt"
ENVIRONMENT = ROOT / "build" / "serve-clients"
KEY = "sk-test-of-clients"
WORDS = "cats dogs food owl night bird cat tree moon fish".split()
TEXTS = [f"{WORDS[number % 10]} number {number}" for number in range(50)]
TEXTS[7], TEXTS[31] = "cat food is food for a cat", "the cat"
TOP = 12
PACKAGES = {"cohere", "voyage", "infinity", "litellm", "haystack", "llama"}
ALONE = "infinity_client==0.0.78"
"""Installed without its dependencies, as it pins an older httpx than the other clients need."""


def _interpreter() -> Path:
    """The interpreter of the environment, which is made if its requirements have changed."""
    python, made = ENVIRONMENT / "bin" / "python", ENVIRONMENT / ".made"
    wanted = REQUIREMENTS.read_text() + ALONE
    if not made.exists() or made.read_text() != wanted:
        venv.create(ENVIRONMENT, with_pip=True)
        for packages in (["-r", REQUIREMENTS], ["--no-deps", ALONE]):
            # Isolated, as pip would take packages of PYTHONPATH for those of the environment.
            install = [python, "-I", "-m", "pip", "install", "-q", *packages]
            subprocess.run(install, check=True, timeout=1200, capture_output=True)
        made.write_text(wanted)
    return python


def check_clients(url: str, preset: str) -> None:
    """Check that all clients of a server, which accepts `KEY`, get the order of its preset."""
    expected = list(Reranker.from_preset(preset).rerank("cat food", TEXTS, top_k=TOP).order)
    found = subprocess.run(
        [_interpreter(), ROOT / "tests" / "support" / "rerank_clients.py", url, KEY],
        input=json.dumps({"query": "cat food", "documents": TEXTS, "top": TOP}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"PATH": "", "HOME": str(ENVIRONMENT)},
    )
    assert found.returncode == 0, found.stderr[-2000:]
    orders = json.loads(found.stdout.splitlines()[-1])
    wrong = {name: order for name, order in orders.items() if order != expected}
    assert wrong == {}, (wrong, expected)
    assert {name.partition("_")[0].partition(" ")[0] for name in orders} == PACKAGES
