"""ModernBERT with modules that score its first token, such as Ettin, as an ONNX graph.

Such a model has no file that scores in another form than torch's: the usual export is of its
encoder only. So the graph is written from its weights when it is loaded, without torch. Whatever
is not known to be computed as sentence-transformers computes it is refused, for torch to run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secondpass.scorers.runtimes.onnx_graph import FLOAT, MASKED, GraphWriter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LARGEST = 1_000_000_000
"""Bytes of the weights in float32. The graph is in memory several times, and has 2 GB at most."""
_ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": "",
    "torch.nn.modules.activation.GELU": "Gelu",
    "torch.nn.modules.activation.Tanh": "Tanh",
}
"""Operators of torch's activations; sentence-transformers takes other names as Tanh."""
_READS = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
_NAME_OF_STATE = "token_embeddings"
_HARMLESS = {"max_seq_length", "unpad_inputs"}
"""Further settings of the encoder that are taken into account, or change no score."""
_POOLING = {
    "pooling_mode",
    "pooling_mode_cls_token",
    "embedding_dimension",
    "word_embedding_dimension",
    "include_prompt",
}
_CHANGES = ("rope_scaling", "sliding_window", "head_dim", "quantization_config")
"""Settings in config.json that change what transformers computes."""
_SIZES = (
    "num_attention_heads",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "max_position_embeddings",
    "vocab_size",
)
"""Names in config.json."""
_WORDS = "embeddings.tok_embeddings.weight"
_THETAS = {
    "full_attention": ("global_rope_theta", 160_000.0),
    "sliding_attention": ("local_rope_theta", 10_000.0),
}
"""Older names of the positions' bases, and their defaults."""
_DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Types of safetensors as numpy reads them."""


def build(read: Callable[[str], Any], find: Callable[[str], Path | None]) -> bytes:
    """The ONNX model of a model's scores.

    ``read`` and ``find`` give the content of a JSON file and the path of a file; None if there is
    none.

    Returns:
        The model. Its inputs are ``input_ids`` and ``attention_mask``, int64 of the shape (batch,
        tokens); its output is the score, float32 of the shape (batch, 1).

    Raises:
        ValueError: it computes something else; the message says what.
        KeyError: a weight is missing.
    """
    config, modules = read("config.json") or {}, read("modules.json") or []
    _check_form(config, modules, read, find)
    kinds = [_kind(module) for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or {*kinds[2:]} - {"Dense", "LayerNorm"}:
        raise ValueError(f"has the modules {', '.join(map(str, kinds))}")
    folders = [str(module["path"]) for module in modules]
    if folders[0]:
        raise ValueError("has its encoder in a folder of its own")
    settings = [read(f"{folder}/config.json") or {} for folder in folders[1:]]
    used = {key for key, value in settings[0].items() if value}
    if settings[0].get("pooling_mode") != "cls" or used - _POOLING:
        raise ValueError("does not pool its first token")
    tensors = _tensors(find, "")
    layers = config.get("num_hidden_layers")
    if any(key.startswith(f"layers.{layers}.") for key in tensors):
        raise ValueError("has more layers than its config.json says")
    graph = _Graph(config, tensors)
    _check_reading(read("sentence_bert_config.json") or {}, graph.longest)
    _check_tokens(read("tokenizer.json") or {}, config, graph.words)
    state, width = graph.encoded(), graph.width
    for kind, folder, options in zip(kinds[2:], folders[2:], settings[1:], strict=True):
        tensors = _tensors(find, folder)
        try:
            if kind == "Dense":
                output = "scores" if folder == folders[-1] else "sentence_embedding"
                state, width = graph.dense(state, options, tensors, width, output)
            elif options != {"dimension": width} or {*tensors} - {"norm.weight", "norm.bias"}:
                raise ValueError
            else:
                weights = [_weight(tensors, f"norm.{key}", (width,)) for key in ("weight", "bias")]
                state = graph.normalization(state, weights, 1e-5)
        except ValueError:
            raise ValueError(f"has another form of the module {folder}") from None
    if kinds[-1] != "Dense" or width != 1:
        raise ValueError("does not end with one score")
    return graph.model(state, ("batch", 1))


def _check_form(
    config: Mapping[str, Any],
    modules: Sequence[Any],
    read: Callable[[str], Any],
    find: Callable[[str], Path | None],
) -> None:
    """Check that the model is a CrossEncoder of modules, the first of them a ModernBERT."""
    if config.get("auto_map") or config.get("model_type") != "modernbert":
        raise ValueError("is no ModernBERT")
    own = read("config_sentence_transformers.json") or {}
    if own.get("model_type") != "CrossEncoder":
        raise ValueError("was not saved as a CrossEncoder")
    if find("adapter_config.json") is not None:
        raise ValueError("has an adapter")
    if not all(
        isinstance(module, Mapping) and isinstance(module.get("path"), str) for module in modules
    ):
        raise ValueError("has modules without a path")


def _check_reading(options: Mapping[str, Any], longest: int) -> None:
    """Check that ``sentence_bert_config.json`` has the encoder read texts as the graph does."""
    used = {
        key: value
        for key, value in options.items()
        if value is not None and value is not False and value != {}
    }
    name = used.pop("module_output_name", None)
    reads = used.pop("modality_config", None)
    if used.pop("transformer_task", "feature-extraction") != "feature-extraction" or (
        (reads, name) not in ((_READS, _NAME_OF_STATE), (None, _NAME_OF_STATE), (None, None))
    ):
        raise ValueError("does not read the state of its encoder")
    if not options or {*used} - _HARMLESS:
        names = ", ".join(sorted({*used} - _HARMLESS)) or "none"
        raise ValueError(f"has settings of its own for its encoder: {names}")
    length = used.get("max_seq_length", 1)
    if type(length) is not int or not 0 < length <= longest:
        raise ValueError("reads more tokens than it has positions")


def _check_tokens(tokenizer: Mapping[str, Any], config: Mapping[str, Any], words: int) -> None:
    """Check that each token has a vector: a runtime may read zeros in place of a missing one."""
    vocabulary = (tokenizer.get("model") or {}).get("vocab") or ()
    ids = [*vocabulary.values()] if isinstance(vocabulary, Mapping) else [len(vocabulary) - 1]
    ids += [token.get("id", 0) for token in tokenizer.get("added_tokens") or ()]
    if max([*ids, config.get("pad_token_id") or 0]) >= words:
        raise ValueError("has tokens without a vector")


def _kind(module: Mapping[str, Any]) -> str:
    """The class of a module of sentence-transformers; others keep their whole name."""
    name = str(module.get("type"))
    return name.rpartition(".")[2] if name.startswith("sentence_transformers.") else name


class _Graph(GraphWriter):
    """The encoder, and the operations of its modules."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        super().__init__()
        self.config = config
        parts = ("embeddings.", "layers.", "final_norm.")
        if any(key.startswith("model.") for key in tensors) and any(
            key.startswith(parts) for key in tensors
        ):
            raise ValueError("has the weights of two encoders")
        self.tensors = {key.removeprefix("model."): value for key, value in tensors.items()}
        sizes = [size for name in _SIZES if type(size := config.get(name)) is int and size > 0]
        if len(sizes) < len(_SIZES):
            raise ValueError("has sizes that its config.json does not name")
        self.heads_count, self.width, self.inner, self.layers, self.longest, self.words = sizes
        self.size = self.width // self.heads_count
        if self.width % self.heads_count or self.size % 2:
            raise ValueError("has sizes that do not fit its heads")
        if config.get("hidden_activation", "gelu") != "gelu":
            raise ValueError("has another activation")
        if changes := [name for name in _CHANGES if config.get(name) is not None]:
            raise ValueError(f"sets {', '.join(changes)} in its config.json")
        biases = [config.get(f"{part}_bias", False) for part in ("norm", "attention", "mlp")]
        if not all(isinstance(bias, bool) for bias in biases):
            raise ValueError("has biases that its config.json does not name")
        self.norm_bias, self.attention_bias, self.mlp_bias = biases
        self.epsilon = config.get("norm_eps", 1e-5)
        if not isinstance(self.epsilon, float):
            raise ValueError("has a norm_eps that is no float")

    def encoded(self) -> str:
        """The state of the first token, of the shape (batch, width)."""
        import numpy as np

        node = self.node
        words = self.constant(_weight(self.tensors, _WORDS, (self.words, self.width)))
        state = self._normalized(node("Gather", words, "input_ids"), "embeddings.norm")
        everywhere = self.mask()
        # The positions of the rows and of the columns of a window around each token.
        positions = self.first_rows(np.arange(self.longest))
        ends = [node("Unsqueeze", positions, self.ints(axis)) for axis in (1, 0)]
        window = self.constant(np.array(_whole(self.config, "local_attention", 128) // 2))
        far = node("Greater", node("Abs", node("Sub", *ends)), window)
        near = node("Mul", node("Cast", far, to=FLOAT), self.number(MASKED))
        masks = {"full_attention": everywhere, "sliding_attention": node("Add", everywhere, near)}
        angles = {kind: self._angles(kind) for kind in masks}
        for layer, kind in enumerate(self._kinds()):
            if kind not in masks:
                raise ValueError("has other kinds of attention")
            state = self._layer(layer, state, masks[kind], angles[kind])
        first = node("Gather", state, self.constant(np.array(0)), axis=1)
        return self._normalized(first, "final_norm")

    def _kinds(self) -> Sequence[Any]:
        """The kind of attention of each layer."""
        every = _whole(self.config, "global_attn_every_n_layers", 3)
        kinds: Sequence[Any] = self.config.get("layer_types") or [
            "sliding_attention" if layer % every else "full_attention"
            for layer in range(self.layers)
        ]
        if len(kinds) != self.layers:
            raise ValueError("has other kinds of attention")
        return kinds

    def _layer(self, layer: int, state: str, mask: str, angles: tuple[str, str]) -> str:
        node, name, width, inner_width = self.node, f"layers.{layer}", self.width, self.inner
        # The first layer reads what was just normalized.
        read = self._normalized(state, f"{name}.attn_norm") if layer else state
        asking, turned = read, angles
        if layer == self.layers - 1:  # only the first token is read
            mask = self._first(mask, axis=2)
            asking, state = self._first(read, axis=1), self._first(state, axis=1)
            cosine, sine = angles
            turned = self._first(cosine, axis=0), self._first(sine, axis=0)
        # Scaling the queries' weights saves scaling the products.
        query, key, value = (
            self.heads(
                self._linear(
                    f"{name}.attn.Wqkv",
                    source,
                    (3 * width, width),
                    bias=self.attention_bias,
                    part=(number, 3),
                    scale=scale,
                ),
                self.heads_count,
                self.size,
            )
            for number, (source, scale) in enumerate(
                [(asking, self.size**-0.5), (read, 1.0), (read, 1.0)]
            )
        )
        query = self._turned(query, *turned)
        key = node("Transpose", self._turned(key, *angles), perm=(0, 1, 3, 2))
        mixed = self.attention(query, key, value, mask, width)
        mixed = self._linear(f"{name}.attn.Wo", mixed, (width, width), bias=self.attention_bias)
        state = node("Add", state, mixed)
        read = self._normalized(state, f"{name}.mlp_norm")
        inner, gate = (
            self._linear(
                f"{name}.mlp.Wi", read, (2 * inner_width, width), bias=self.mlp_bias, part=(part, 2)
            )
            for part in (0, 1)
        )
        inner = node("Mul", self.gelu(inner), gate)
        output = self._linear(f"{name}.mlp.Wo", inner, (width, inner_width), bias=self.mlp_bias)
        return node("Add", state, output)

    def _first(self, values: str, axis: int) -> str:
        return self.node("Slice", values, self.ints(0), self.ints(1), self.ints(axis))

    def _angles(self, kind: str) -> tuple[str, str]:
        """Cosine and sine of the positions, of the shape (tokens, size)."""
        import numpy as np

        every = self.config.get("rope_parameters") or {}
        if not all(isinstance(value, Mapping) for value in every.values()):
            raise ValueError("has scaled positions")
        rope = every.get(kind, {})
        older, default = _THETAS[kind]
        theta = rope.get("rope_theta", self.config.get(older, default))
        if (
            {*every} - {*_THETAS}
            or {*rope} - {"rope_type", "type", "rope_theta"}
            or {rope.get("rope_type", "default"), rope.get("type", "default")} != {"default"}
            or type(theta) not in (int, float)
            or theta <= 0
        ):
            raise ValueError("has scaled positions")
        steps = 1 / theta ** (np.arange(0, self.size, 2, dtype=np.float32) / self.size)
        positions = np.arange(self.longest, dtype=np.float32)
        angles = np.tile(np.outer(positions, steps.astype(np.float32)), 2)
        return self.first_rows(np.cos(angles)), self.first_rows(np.sin(angles))

    def _turned(self, state: str, cosine: str, sine: str) -> str:
        """Queries or keys with their positions, in the operators that OpenVINO recognises."""
        node, half = self.node, self.size // 2
        first, second = (
            node("Slice", state, self.ints(start), self.ints(end), self.ints(3))
            for start, end in ((0, half), (half, self.size))
        )
        other = node("Concat", node("Neg", second), first, axis=-1)
        return node("Add", node("Mul", state, cosine), node("Mul", other, sine))

    def dense(
        self,
        state: str,
        options: Mapping[str, Any],
        tensors: Mapping[str, NDArray[Any]],
        width: int,
        output: str,
    ) -> tuple[str, int]:
        """A module of the class Dense, and the size of its output; ValueError for another form."""
        bias, outputs = options.get("bias", True), options.get("out_features")
        activation = options.get("activation_function")
        if (
            activation not in _ACTIVATIONS
            or options.get("use_residual")
            or options.get("module_input_name") != "sentence_embedding"
            or options.get("module_output_name") != output
            or options.get("in_features") != width
            or not isinstance(outputs, int)
            or not isinstance(bias, bool)
            or {*tensors} - {"linear.weight", "linear.bias"}
            or ("linear.bias" in tensors and not bias)
        ):
            raise ValueError
        state = self._linear("linear", state, (outputs, width), tensors, bias=bias)
        if operator := _ACTIVATIONS[activation]:
            state = self.gelu(state) if operator == "Gelu" else self.node(operator, state)
        return state, outputs

    def _linear(
        self,
        name: str,
        state: str,
        shape: tuple[int, int],
        tensors: Mapping[str, NDArray[Any]] | None = None,
        *,
        bias: bool,
        part: tuple[int, int] = (0, 1),
        scale: float = 1.0,
    ) -> str:
        """A product; of one of several parts of the outputs."""
        import numpy as np

        tensors = self.tensors if tensors is None else tensors
        index, count = part

        def own(kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
            weight = np.split(_weight(tensors, f"{name}.{kind}", shape), count)[index]
            return weight * np.float32(scale)

        matrix = np.ascontiguousarray(own("weight", shape).T)
        return self.product(state, matrix, own("bias", shape[:1]) if bias else None)

    def _normalized(self, state: str, name: str) -> str:
        parts = ("weight", "bias") if self.norm_bias else ("weight",)
        weights = [_weight(self.tensors, f"{name}.{part}", (self.width,)) for part in parts]
        return self.normalization(state, weights, self.epsilon)


def _weight(tensors: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """A weight, which must have the shape that the configuration says."""
    weight = tensors[name]
    if weight.shape != shape:
        raise ValueError("has a checkpoint of other sizes than its config.json")
    return weight


def _whole(config: Mapping[str, Any], name: str, default: int) -> int:
    value = config.get(name, default)
    if type(value) is not int or value < 1:
        raise ValueError(f"has a {name} that is no number of tokens or layers")
    return value


def _tensors(find: Callable[[str], Path | None], folder: str) -> dict[str, NDArray[np.float32]]:
    """The weights of a module, from ``model.safetensors`` in its folder."""
    import numpy as np

    path = find(f"{folder}/model.safetensors" if folder else "model.safetensors")
    if path is None:
        raise ValueError("has no model.safetensors for each module")
    tensors: dict[str, NDArray[np.float32]] = {}
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(size, path.stat().st_size)))
            header.pop("__metadata__", None)
            large = sum(4 * math.prod(entry["shape"]) for entry in header.values()) > _LARGEST
            data = b"" if large else file.read()
        for name, entry in () if large else header.items():
            first, last = entry["data_offsets"]
            numbers = np.frombuffer(data[first:last], _DTYPES[entry["dtype"]])
            if entry["dtype"] == "BF16":  # the upper half of a float32
                numbers = (numbers.astype("<u4") << 16).view("<f4")
            tensors[name] = numbers.astype(np.float32).reshape(entry["shape"])
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError("has weights that cannot be read without torch") from None
    if large:
        raise ValueError("is too large for a graph in memory")
    return tensors
