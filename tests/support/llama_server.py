"""A llama.cpp server on the loopback, and models of half a megabyte for it to serve.

The server is the one inside the package ``xllamacpp``. It runs in a process of its own, so that
neither its threads nor its logs nor a crash of it reach the tests, and ends with them: its standard
input is a pipe whose other end the tests hold.

Run as a script, this file is that process.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def missing_packages(*names: str) -> list[str]:
    """Those of the packages that are not installed; none of them is imported for the answer."""
    return [name for name in names if importlib.util.find_spec(name) is None]


@contextmanager
def serve(
    model: Path,
    *,
    context: int = 8192,
    parallel: int = 1,
    longest_reply: int = 1024,
    rerank: bool = False,
    key: str | None = None,
    port: int = 0,
    threads: int = 1,
) -> Iterator[str]:
    """Serve a GGUF file while the block runs; the base URL, which ends in ``/v1``.

    Args:
        model: the GGUF file.
        context: tokens that one request may have, its reply included.
        parallel: requests that are answered at the same time.
        longest_reply: tokens after which a reply is cut where the request does not say.
        rerank: whether the model is a cross-encoder, for ``/v1/rerank``.
        key: the key that requests must show; none where it is None.
        port: where it listens; a free port where it is 0.
        threads: that work on one reply. Tiny models and busy machines are slower with more.
    """
    options = {
        "model": str(model),
        "context": context,
        "parallel": parallel,
        "longest_reply": longest_reply,
        "rerank": rerank,
        "key": key,
        "port": port,
        "threads": threads,
    }
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    # Whatever else the library prints comes before the address.
                    if line.startswith(b"serving "):
                        break
                else:
                    log.seek(0)
                    output = log.read()[-2000:].decode(errors="replace")
                    raise RuntimeError(f"the server did not start: {output}")
                yield line.split()[1].decode() + "/v1"
            finally:
                process.kill()  # nothing of it is kept, so it need not end in good order


def write_tiny_llama(path: Path, *, seed: int = 0) -> Path:
    """A chat model of random weights that knows bytes, not words.

    Its replies are noise, of the kind that is hardest on readers: brackets, braces, quotes and
    commas are likelier than other characters, and so is the end. Held by a grammar, it takes the
    shortest way: numbers of one digit, and sooner the end of a list than its next element.
    """
    import gguf
    import numpy as np

    width, heads, inner, layers, length = 64, 4, 128, 2, 32768
    letters = [_byte_letter(byte) for byte in range(256)]
    # A byte-level tokenizer must have merges, so it has one.
    tokens = [*letters, "Ġt", "<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    specials = {token: number for number, token in enumerate(tokens) if token.startswith("<|")}
    rng = np.random.default_rng(seed)

    def noise(*shape: int, size: float) -> Any:
        return rng.normal(0, size, shape).astype(np.float32)

    # The first number of every embedding is the same and no layer changes it, so a row of the
    # output that has weight there makes its token likelier everywhere.
    embedding = noise(len(tokens), width, size=1.0)
    embedding[:, 0] = 4.0
    output = noise(len(tokens), width, size=0.25)
    # Others would make replies that are not UTF-8, which this server takes for a fault of its own.
    printed = [len(token) == 1 and " " < token <= "~" for token in tokens]
    output[:, 0] = [0.0 if one else -4.0 for one in printed]
    output[[tokens.index(token) for token in "-.Ee"], 0] = -2.0
    output[[tokens.index(token) for token in '{}[":'], 0] = 1.0
    output[[tokens.index(token) for token in "],"], 0] = 0.5, 1.5
    output[specials["<|im_end|>"], 0] = 0.5

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny random llama")
    writer.add_context_length(length)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_rope_dimension_count(width // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    kinds = (gguf.TokenType.NORMAL, gguf.TokenType.CONTROL)
    writer.add_token_types([kinds[token in specials] for token in tokens])
    writer.add_token_merges(["Ġ t"])
    writer.add_bos_token_id(specials["<|im_start|>"])
    writer.add_eos_token_id(specials["<|im_end|>"])
    writer.add_pad_token_id(specials["<|endoftext|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    writer.add_tensor("output.weight", output)
    for block in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{block}.{name}.weight", np.ones(width, np.float32))
        for name in ("attn_q", "attn_k", "attn_v"):
            writer.add_tensor(f"blk.{block}.{name}.weight", noise(width, width, size=0.1))
        for name in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"blk.{block}.{name}.weight", noise(inner, width, size=0.1))
        for name, columns in (("attn_output", width), ("ffn_down", inner)):
            weights = noise(width, columns, size=0.1)
            weights[0] = 0.0
            writer.add_tensor(f"blk.{block}.{name}.weight", weights)
    return _written(writer, path)


def write_tiny_cross_encoder(path: Path, *, seed: int = 0) -> Path:
    """A BERT with a classification head of one label, of random weights, for ``/v1/rerank``."""
    import gguf
    import numpy as np

    from tiny_models import WORDS

    width, heads, inner, layers, length = 32, 2, 64, 2, 512
    # The WordPiece of llama.cpp marks the start of a word instead of its continuation.
    tokens = [word if word.startswith("[") else f"▁{word}" for word in WORDS]
    rng = np.random.default_rng(seed)

    def noise(*shape: int) -> Any:
        return rng.normal(0, 0.5, shape).astype(np.float32)

    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("tiny random cross-encoder")
    writer.add_context_length(length)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.RANK)
    writer.add_classifier_output_labels(["relevance"])
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")
    writer.add_token_list(tokens)
    kinds = (gguf.TokenType.NORMAL, gguf.TokenType.CONTROL)
    writer.add_token_types([kinds[token.startswith("[")] for token in tokens])
    writer.add_token_type_count(2)
    writer.add_pad_token_id(WORDS.index("[PAD]"))
    writer.add_unk_token_id(WORDS.index("[UNK]"))
    writer.add_bos_token_id(WORDS.index("[CLS]"))
    writer.add_eos_token_id(WORDS.index("[SEP]"))
    writer.add_sep_token_id(WORDS.index("[SEP]"))
    writer.add_mask_token_id(WORDS.index("[MASK]"))

    def linear(name: str, rows: int, columns: int) -> None:
        writer.add_tensor(f"{name}.weight", noise(rows, columns))
        writer.add_tensor(f"{name}.bias", noise(rows))

    def norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(width, np.float32))

    writer.add_tensor("token_embd.weight", noise(len(tokens), width))
    writer.add_tensor("token_types.weight", noise(2, width))
    writer.add_tensor("position_embd.weight", noise(length, width))
    norm("token_embd_norm")
    for block in range(layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            linear(f"blk.{block}.{name}", width, width)
        norm(f"blk.{block}.attn_output_norm")
        linear(f"blk.{block}.ffn_up", inner, width)
        linear(f"blk.{block}.ffn_down", width, inner)
        norm(f"blk.{block}.layer_output_norm")
    linear("cls", width, width)
    linear("cls.output", 1, width)
    return _written(writer, path)


def _written(writer: Any, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _byte_letter(byte: int) -> str:
    """What stands for a byte in byte-level vocabularies: a letter that prints and is no space."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in seen:
        return chr(byte)
    return chr(256 + sorted(set(range(256)) - set(seen)).index(byte))


def _serve_until_the_tests_end(options: dict[str, Any]) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = options["model"]
    params.port = options["port"]
    params.n_parallel = options["parallel"]
    params.n_ctx = options["context"] * options["parallel"]  # it is shared out among them
    params.n_predict = options["longest_reply"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options["threads"]
    params.sampling.seed = 1
    params.ui = params.warmup = params.fit_params = False
    params.cache_prompt = False  # so that a request's reply does not depend on those before it
    params.endpoint_metrics = True
    if options["key"] is not None:
        params.api_keys = [options["key"]]
    if options["rerank"]:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_RANK
    server = xllamacpp.Server(params)
    sys.stdout.write(f"serving {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()
    del server


if __name__ == "__main__":
    _serve_until_the_tests_end(json.loads(sys.argv[1]))
