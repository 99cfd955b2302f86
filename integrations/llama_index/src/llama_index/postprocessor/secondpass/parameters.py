"""Creates the Reranker that LlamaIndex's parameters describe, and keeps keys out of files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llama_index.core.bridge.pydantic import SecretStr
from llama_index.core.llms import LLM
from pydantic import ValidationError

from llama_index.postprocessor.secondpass.llm import OwnedLLM
from secondpass import ConfigurationError, Problem, Reranker
from secondpass.adapters import (
    NO_EQUIVALENT,
    Override,
    Parameters,
    kind_of,
    problems_of,
    with_prompts,
)
from secondpass.config import resolve

_PROMPT = (
    "leave it out, unless you changed it; then put its rules, without documents, query and form of "
    "the reply, into prompts={'instruction_prompt': …}"
)
INSTEAD = {
    **dict.fromkeys(("choice_select_prompt", "rankgpt_rerank_prompt"), _PROMPT),
    "format_node_batch_fn": "use metadata_mode=, or write {'render': {…}}",
    **dict.fromkeys(
        ("raise_on_structured_prediction_failure", "raise_on_error"),
        "use strict=",
    ),
    "gpt_model": "pass the language model as llm=, to {'method': {'type': 'listwise', …}}",
    "provider": "write {'method': {'type': 'decisions', 'api': 'systemone'}} for TypeSafe",
    "tokenizer": "leave it out; cross_encoder uses the tokenizer of its model",
    "timeout_s": "write {'method': {'type': 'decisions', 'timeout': …}}",
    "verbose": "leave it out; rerank_nodes returns a report",
    "mode": "use metadata_mode=; JevRerank's is the question of {'method': {'type': 'decisions'}}",
    "window_size": "use choice_batch_size=, or write {'method': {'type': 'listwise', 'window': …}}",
    **dict.fromkeys(
        (
            *("parse_choice_select_answer_fn", "document_relevance_list_cls"),
            *("context_size", "prompt_mode", "num_gpus", "use_azure_openai"),
            *("num_few_shot_examples", "few_shot_file", "use_logits", "use_alpha"),
            *("variable_passages", "http_client", "httpx_client", "httpx_async_client"),
            "confidence_threshold",
        ),
        NO_EQUIVALENT,
    ),
}
"""Parameter of LlamaIndex's own rerankers -> what to do instead."""
_CROSS_ENCODER_KWARGS = {
    "processor_kwargs": "tokenizer_kwargs",
    "tokenizer_args": "tokenizer_kwargs",
    "automodel_args": "model_kwargs",
    "default_prompt_name": "prompt_name",
}
"""Arguments of sentence-transformers' CrossEncoder -> name of the setting, where that differs."""
_ACTIVATION = "write {'method': {'type': 'cross_encoder', 'activation': 'sigmoid'}}, or 'none'"
_INSTEAD_OF_KWARGS = {
    "model": "use model=",
    "model_name_or_path": "use model=",
    "device": "use device=",
    **dict.fromkeys(("token", "use_auth_token"), "set HF_TOKEN, or name its variable: 'token_env'"),
    **dict.fromkeys(("activation_fn", "default_activation_function"), _ACTIVATION),
    "prompts": "write {'method': {'type': 'cross_encoder', 'prompt': …}}",
    **dict.fromkeys(("num_labels", "model_card_data", "similarity_fn_name"), "leave it out"),
}
"""Arguments of CrossEncoder that are not taken -> what to do instead."""


def resolved(
    reranker: Reranker | Mapping[str, Any] | Path | str,
    parameters: Parameters,
    values: Mapping[str, Any],
) -> Reranker:
    """The Reranker that the parameters describe."""
    llm = values["llm"]
    if llm is not None and not isinstance(llm, LLM):
        message = f"give an LLM of LlamaIndex, not {kind_of(llm)}"
        if isinstance(llm, Mapping):
            message += "; it is never serialised: use from_dict(…, llm=) or from_json(…, llm=)"
        raise ConfigurationError([Problem(("llm",), message)])
    key = values["api_key"]
    if isinstance(key, SecretStr):
        key = key.get_secret_value()
    flat = _of_cross_encoder(values["cross_encoder_kwargs"] or {})
    flat |= parameters.overrides({**values, "api_key": key})
    core = resolve(
        reranker, llm=None if llm is None else OwnedLLM(llm), flat=flat, caller="SecondPassRerank"
    )
    return with_prompts(core, values["prompts"])


def _of_cross_encoder(arguments: object) -> dict[str, Override]:
    """The settings that arguments of CrossEncoder override."""
    name = "cross_encoder_kwargs"
    if not isinstance(arguments, Mapping):
        message = f"give a mapping, not {kind_of(arguments)}"
        raise ConfigurationError([Problem((name,), message)])
    if problems := [
        Problem((name, key), f"is not taken; {_INSTEAD_OF_KWARGS[key]}")
        for key in map(str, arguments)
        if key in _INSTEAD_OF_KWARGS
    ]:
        raise ConfigurationError(problems)
    return {
        f"{name}.{key}": Override(value, (f"method.{_CROSS_ENCODER_KWARGS.get(key, key)}",))
        for key, value in arguments.items()
        if value is not None
    }


@contextmanager
def plain_errors(name: str) -> Iterator[None]:
    """Raise pydantic's errors about the fields of a class in the words of those of the core."""
    try:
        yield
    except ValidationError as error:
        raise ConfigurationError(problems_of(error, lambda _key: ""), name) from None


_KEY = re.compile(
    r"(api_?key|secret|password|credentials?|authorization|bearer|headers|(^|_)token)$", re.I
)


def holds_a_key(value: object) -> bool:
    """Whether the fields of an LLM, or the mappings in them, contain a key."""
    if isinstance(value, Mapping):
        keys = [held for name, held in value.items() if _KEY.search(str(name))]
        if any(isinstance(key, SecretStr | str | Mapping) and len(key) for key in keys):
            return True
        return any(map(holds_a_key, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_a_key, value))
