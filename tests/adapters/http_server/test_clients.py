"""Clients of other packages, unmodified, get the order of the reranker in the process.

They are in an environment of their own under ``build/``, because they pin other versions; it is
made by the first run.
"""

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from secondpass import Reranker

ROOT = Path(__file__).resolve().parents[3]
REQUIREMENTS = Path(__file__).parent / "requirements-clients.txt"
ENVIRONMENT = ROOT / "build" / "serve-clients"
KEY = "sk-test-of-clients"
WORDS = "cats dogs food owl night bird cat tree moon fish".split()
TEXTS = [f"{WORDS[number % 10]} number {number}" for number in range(50)]
TEXTS[7], TEXTS[31] = "cat food is food for a cat", "the cat"
TOP = 12
PACKAGES = {"cohere", "voyage", "litellm", "haystack", "llama"}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def python():
    """The interpreter of the environment."""
    interpreter = ENVIRONMENT / "bin" / "python"
    made = ENVIRONMENT / ".made"
    if not made.exists() or made.read_text() != REQUIREMENTS.read_text():
        venv.create(ENVIRONMENT, with_pip=True)
        install = [interpreter, "-m", "pip", "install", "-q", "-r", REQUIREMENTS]
        subprocess.run(install, check=True, timeout=1200, capture_output=True)
        made.write_text(REQUIREMENTS.read_text())
    return interpreter


@pytest.mark.parametrize("preset", ["embedded", "lexical"])
def test_orders(preset, python, serving, monkeypatch):
    monkeypatch.setenv("CLIENT_KEYS", KEY)
    reranker = Reranker.from_preset(preset)
    expected = list(reranker.rerank("cat food", TEXTS, top_k=TOP).order)
    server = serving(reranker, api_key_env="CLIENT_KEYS")
    script = ROOT / "tests" / "support" / "rerank_clients.py"
    found = subprocess.run(
        [python, script, server.url, KEY],
        input=json.dumps({"query": "cat food", "documents": TEXTS, "top": TOP}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"PATH": "", "HOME": str(ENVIRONMENT)},
    )
    assert found.returncode == 0, found.stderr[-2000:]
    orders = json.loads(found.stdout.splitlines()[-1])
    assert orders == dict.fromkeys(orders, expected)
    assert {name.partition("_")[0].partition(" ")[0] for name in orders} == PACKAGES
    assert sys.executable != str(python)
