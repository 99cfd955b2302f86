"""Reranks passages of the handbook with a local model server.

    pip install -e ".[embedded,evaluation,openai,remote]"
    python examples/recipes/local_servers/run.py ollama
    python examples/recipes/local_servers/run.py llama_cpp --scripted

README.md has the servers and their configurations. ``--scripted`` needs no server.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # handbook.py
sys.path.insert(0, str(Path(__file__).parents[2]))  # scripted_model.py

import handbook
from scripted_model import ScriptedModel, announce

from secondpass import Reranker
from secondpass_evaluation import HybridRetriever

HERE = Path(__file__).parent
VARIABLES = {"ollama": "OLLAMA_URL", "vllm": "VLLM_URL", "llama_cpp": "LLAMA_CPP_URL"}
"""The variable of each server's address."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Search with BM25, rerank with the server."""
    names = sorted(path.stem for path in HERE.glob("*.yaml"))
    parser = argparse.ArgumentParser(description="Rerank with a local model server.")
    parser.add_argument("server", choices=names, help="a configuration of this folder")
    parser.add_argument(
        "question", nargs="?", default="The screen says E71, what now?", help="default: %(default)s"
    )
    parser.add_argument("--scripted", action="store_true", help="start a scripted server instead")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        if options.scripted:
            announce("as requested")
            address = stack.enter_context(ScriptedModel()).address
            path = "" if options.server in {"vllm", "llama_cpp"} else "/v1"
            os.environ[VARIABLES[options.server.removesuffix("_chat")]] = address + path
        found = HybridRetriever(handbook.passages()).retrieve(options.question, 10, "lexical")
        reranker = Reranker.from_config(HERE / f"{options.server}.yaml")
        stack.callback(reranker.close)
        handbook.show(reranker.rerank(options.question, found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
