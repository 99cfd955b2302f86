"""Your own provider of language models: Ollama's native API, in forty lines.

    pip install -e ".[remote,evaluation]"
    python examples/recipes/own_provider.py --scripted
    python examples/recipes/own_provider.py --model qwen3:8b

Ollama also has an OpenAI-compatible API, which needs no code (``local_servers/ollama.yaml``). Only
the native API can set the model's context window for each request (``num_ctx``). The server's
default is small, and a longer prompt is truncated silently.

A provider defines how to connect, which parameters to send, and how to read a reply. Retries,
deadlines, budgets, keys, the fallback from a JSON Schema to plain text, and error messages without
passages are in the base class. A provider works with every strategy.

Register it in the ``pyproject.toml`` of your package to use it by name (``own_provider.yaml``)::

    [project.entry-points."secondpass.llms"]
    ollama = "own_provider:Ollama"

With ``--scripted``, a scripted server with Ollama's API replaces that of OLLAMA_HOST (default:
http://localhost:11434).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripted_model.py

import handbook
from scripted_model import ScriptedModel, announce

from secondpass import Ranking, Reranker
from secondpass.extend import (
    Completion,
    Connection,
    Form,
    Listwise,
    LLMError,
    Prompt,
    Provider,
    StatusError,
    configurable,
    connect,
    parse_json,
    token_count,
)


@configurable
class Ollama(Provider):
    """A model behind Ollama's ``/api/chat``; settings as in :class:`Provider`.

    ``base_url`` is required, since Ollama runs where you run it, and needs no key.
    ``context_window`` is sent as ``num_ctx``.
    """

    package = "httpx"
    extra = "remote"
    key_variables = ("OLLAMA_API_KEY",)
    forms = ("json_schema", "json_object", "text")

    def _connect(self, key: str) -> Connection:
        return connect(key, self.timeout)

    def _parameters(self) -> dict[str, Any]:
        named = {
            "temperature": self.temperature,
            "num_predict": self.max_tokens,
            "num_ctx": self.context_window,
        }
        parameters = {name: value for name, value in named.items() if value is not None}
        return {**parameters, **(self.options or {})}

    async def _send(self, client: Any, prompt: Prompt, form: Form) -> Completion:
        messages = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        if prompt.system:
            messages.insert(0, {"role": "system", "content": prompt.system})
        body = {
            "model": self.model,
            "messages": messages,
            "stream": False,
            "options": self._sent(),
        }
        if form != "text":
            body["format"] = prompt.schema if form == "json_schema" else "json"
        response = await client.post(f"{self.base_url}/api/chat", json=body)
        if response.status_code != 200:
            raise StatusError(response)
        reply = parse_json(response.text)
        message = reply.get("message") if isinstance(reply, dict) else None
        text = message.get("content") if isinstance(message, dict) else None
        if not isinstance(text, str):
            raise LLMError("the response has no message", "bad_response")
        return Completion(
            text,
            reply.get("done_reason") == "length",
            token_count(reply.get("prompt_eval_count")),
            token_count(reply.get("eval_count")),
        )


def rank(base_url: str, model: str, question: str) -> Ranking:
    """The handbook's passages about the display, ordered by the model."""
    found = [one for one in handbook.passages() if "display" in one.metadata["title"].casefold()]
    llm = Ollama(model, base_url=base_url, context_window=8192)
    with closing(Reranker(Listwise(llm))) as reranker:
        return reranker.rerank(question, found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Rank three passages."""
    parser = argparse.ArgumentParser(description="Rerank with Ollama's native API.")
    parser.add_argument("--model", default="qwen3:8b", help="a model that Ollama has pulled")
    parser.add_argument("--scripted", action="store_true", help="start a scripted server instead")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        base_url = os.environ.get("OLLAMA_HOST") or "http://localhost:11434"
        if options.scripted:
            announce("as requested")
            base_url = stack.enter_context(ScriptedModel()).address
        elif "://" not in base_url:
            base_url = f"http://{base_url}"  # OLLAMA_HOST is often a host and a port
        handbook.show(rank(base_url, options.model, "The screen says E71, what now?"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
