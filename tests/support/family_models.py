"""Tiny random models of described families, and their authors' formulas for the scores.

Each formula is a transcription of the authors' code, by the source that it names. It takes one
passage at a time, unpadded.
"""

import json
from functools import cache

from checkpoint_folders import edit
from tiny_models import TINY_CAUSAL, once

CHAT = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|embed_token|>", "<|rerank_token|>")
THINK = ("<think>", "</think>")
_CORPUS = (
    "yes\nno\nYes\nNo\n1\n0\nthe cat sat on the mat\ncats and dogs are animals\n"
    "query: document: instruction: passage relevance ranking expert system user assistant\n"
) * 30
LONG = "the cat sat on a mat, and dogs ran. " * 30


@cache
def _bytes_tokenizer():
    """A byte-level tokenizer whose answers are single tokens, as JSON."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS.splitlines(), trainer)
    return tokenizer.to_str()


def bytes_tokenizer(special=CHAT, added=THINK):
    """As Qwen's, with its control tokens."""
    from tokenizers import AddedToken, Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer.from_str(_bytes_tokenizer())
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    tokenizer.add_tokens([AddedToken(token, special=False) for token in added])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=special[0], eos_token=special[-1]
    )


def _sizes(tokenizer):
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 1024}
    return {**TINY_CAUSAL, **sizes, "pad_token_id": tokenizer.pad_token_id}


@once
def write_causal_family(folder, kind, auto_map=""):
    """A causal language model of a class of transformers, such as ``Qwen3``, with a tokenizer."""
    import torch
    import transformers

    special = ("<pad>", "<bos>", "<eos>") if kind == "Gemma" else CHAT
    tokenizer = bytes_tokenizer(special)
    if kind == "Gemma":
        tokenizer.bos_token = "<bos>"
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**_sizes(tokenizer))
    getattr(transformers, f"{kind}ForCausalLM")(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if auto_map:
        edit(folder, "config.json", auto_map={"AutoConfig": auto_map})
    return folder


CHAT_TEMPLATE = (
    "<|im_start|>system\n"
    "{% set system = messages | selectattr('role', 'eq', 'system') | first | default(none) %}"
    "{{ system['content'] if system else 'Judge.' }}<|im_end|>\n<|im_start|>user\n"
    "<Query>: {{ (messages | selectattr('role', 'eq', 'query') | first)['content'] }}\n"
    "<Document>: {{ (messages | selectattr('role', 'eq', 'document') | first)['content'] }}"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)


@once
def write_chat_reranker(folder):
    """A causal reranker with a chat template, as sentence-transformers stores Qwen3-Reranker.

    It reads 192 tokens.
    """
    from sentence_transformers import CrossEncoder

    base = write_causal_family(folder.with_name("base"), "Qwen3")
    edit(base, "tokenizer_config.json", model_max_length=192)
    (base / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    CrossEncoder(str(base), device="cpu").save_pretrained(str(folder))
    return folder


@once
def write_converted(folder, true, false=None, kind="Qwen3"):
    """The causal model as a classifier, whose head is the row of a token, or a difference of two.

    The causal model is beside it, in ``causal``.
    """
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    causal = write_causal_family(folder / "causal", kind)
    tokenizer = AutoTokenizer.from_pretrained(causal)
    model = AutoModelForCausalLM.from_pretrained(causal)
    rows = model.get_output_embeddings().weight
    head = rows[0 if true == "0" else tokenizer.convert_tokens_to_ids(true)]
    if false is not None:
        head = head - rows[tokenizer.convert_tokens_to_ids(false)]
    config = getattr(transformers, f"{kind}Config").from_pretrained(causal, num_labels=1)
    converted = getattr(transformers, f"{kind}ForSequenceClassification")(config)
    converted.model.load_state_dict(model.model.state_dict())
    with torch.no_grad():
        converted.score.weight.copy_(head[None])
    converted.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@once
def write_bidirectional(folder):
    """llama-nemotron-rerank's form: a causal model that reads both ways, and a head on its mean."""
    import torch
    from transformers import LlamaConfig, LlamaForSequenceClassification

    tokenizer = bytes_tokenizer(("<pad>", "<bos>", "<eos>"), ())
    torch.manual_seed(0)
    config = LlamaConfig(**_sizes(tokenizer), num_labels=1)
    LlamaForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    edit(
        folder,
        "config.json",
        architectures=["LlamaBidirectionalForSequenceClassification"],
        auto_map={"AutoModelForSequenceClassification": "llama_bidirectional_model.Own"},
        model_type="llama_bidirec",
        pooling="avg",
        temperature=0.25,
    )
    return folder


@once
def write_t5(folder, kind="T5", answers="▁true ▁false"):
    """A sequence to sequence model, T5 or MT5, with a tokenizer of pieces."""
    import torch
    import transformers
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = [*answers.split(), *"▁the ▁cat ▁sat ▁Query ▁Document ▁Relevant : .".split()]
    letters = [*"▁abcdefghijklmnopqrstuvwxyzDQR?!,.ç<>/|"]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    vocabulary += [(word, -1.0) for word in words]
    vocabulary += [(letter, -3.0) for letter in letters if letter not in words]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    tokenizer.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    marks = [word for word in words if word.startswith("<")]
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>", *marks])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(vocabulary),
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=2,
        num_heads=2,
        initializer_factor=3.0,
        decoder_start_token_id=0,
    )
    getattr(transformers, f"{kind}ForConditionalGeneration")(config).save_pretrained(folder)
    return folder


@once
def write_rankllama(folder):
    """RankLLaMA's form when it is merged: a one-label classifier, and Llama's pairs."""
    import torch
    from tokenizers import processors
    from transformers import LlamaConfig, LlamaForSequenceClassification

    tokenizer = bytes_tokenizer(("<pad>", "<s>", "</s>"), ())
    start = ("<s>", tokenizer.convert_tokens_to_ids("<s>"))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[start]
    )
    torch.manual_seed(0)
    config = LlamaConfig(**_sizes(tokenizer), num_labels=1)
    LlamaForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


ADAPTED = ("self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj")


def write_rankllama_adapter(folder, base):
    """RankLLaMA's form as its authors publish it: LoRA of Llama, with a head, and no tokenizer.

    As peft 0.4 wrote it: without ``modules_to_save``, the head among the weights.
    """
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    write_rankllama(base)
    config = LlamaConfig.from_pretrained(base)
    torch.manual_seed(1)
    LlamaForCausalLM(config).save_pretrained(base)
    edit(base, "config.json", id2label=None, label2id=None)
    torch.manual_seed(2)
    weights = {"base_model.model.score.weight": torch.randn(1, config.hidden_size)}
    for layer in range(config.num_hidden_layers):
        for place in ADAPTED:
            size = config.intermediate_size if "mlp" in place else config.hidden_size
            name = f"base_model.model.model.layers.{layer}.{place}"
            weights[f"{name}.lora_A.weight"] = torch.randn(4, config.hidden_size) / 4
            weights[f"{name}.lora_B.weight"] = torch.randn(size, 4) / 4
    settings = {
        "base_model_name_or_path": str(base),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "lora_alpha": 8,
        "lora_dropout": 0.1,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": 4,
        "target_modules": [place.rpartition(".")[2] for place in ADAPTED],
        "task_type": "SEQ_CLS",
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    return folder


def write_merged(folder, adapter):
    """The base of an adapter with W + (alpha / r) B A in place of each W: Hu et al., 2021."""
    import shutil
    from pathlib import Path

    from safetensors.torch import load_file, save_file

    settings = json.loads((adapter / "adapter_config.json").read_text())
    changes = load_file(adapter / "adapter_model.safetensors")
    base = Path(settings["base_model_name_or_path"])
    shutil.copytree(base, folder)
    weights = load_file(base / "model.safetensors")
    weights.pop("lm_head.weight", None)
    scale = settings["lora_alpha"] / settings["r"]
    for key, change in changes.items():
        name = key.removeprefix("base_model.model.")
        if name.endswith("lora_A.weight"):
            other = changes[key.replace("lora_A", "lora_B")]
            weights[name.replace(".lora_A", "")] += scale * other @ change
        elif "lora_B" not in name:
            weights[name] = change
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    kinds = {"architectures": ["LlamaForSequenceClassification"], "id2label": {"0": "LABEL_0"}}
    edit(folder, "config.json", **kinds, label2id={"LABEL_0": 0})
    return folder


@once
def write_listwise(folder, *, sliding=False):
    """jina-reranker-v3's form: a causal model without its head, and a projector.

    With ``sliding`` v3.5's, half of whose layers read the last tokens alone.
    """
    import torch
    from safetensors.torch import load_file, save_file

    write_causal_family(folder, "Qwen3")
    longest = 32_768 if sliding else 8192  # more than a passage may have
    edit(folder, "config.json", max_position_embeddings=longest)
    edit(folder, "tokenizer_config.json", model_max_length=longest)
    weights = {
        key: value
        for key, value in load_file(folder / "model.safetensors").items()
        if not key.startswith("lm_head")
    }
    torch.manual_seed(1)
    weights["projector.0.weight"] = torch.randn(16, 32)
    weights["projector.2.weight"] = torch.randn(8, 16)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    edit(
        folder,
        "config.json",
        architectures=["JinaForRanking"],
        auto_map={"AutoModel": "modeling.JinaForRanking"},
    )
    if sliding:
        layers = ["sliding_attention", "full_attention"]
        sizes = {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0}
        edit(folder, "config.json", layer_types=layers, **sizes)
    return folder


# ---------------------------------------------------------------------- the authors' formulas


def converted(formula):
    """The formula of the causal model that a classifier is converted from."""
    return lambda folder, *values, **settings: formula(folder / "causal", *values, **settings)


def _causal(folder):
    """The model, and its tokenizer."""
    import transformers

    [name] = json.loads((folder / "config.json").read_text())["architectures"]
    model = getattr(transformers, name).from_pretrained(folder).eval()
    return model, transformers.PreTrainedTokenizerFast.from_pretrained(folder)


def _last(model, ids):
    """The logits after the last token."""
    import torch

    with torch.no_grad():
        return model(torch.tensor([[*ids]])).logits[0, -1].float()


def qwen3(folder, query, passages, instruction=None, max_length=8192):
    """The model card of Qwen/Qwen3-Reranker-0.6B: ``process_inputs`` and ``compute_logits``."""
    model, tokenizer = _causal(folder)
    task = instruction or (
        "Given a web search query, retrieve relevant passages that answer the query"
    )
    prefix = tokenizer.encode(
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        'and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
        "<|im_start|>user\n",
        add_special_tokens=False,
    )
    suffix = tokenizer.encode(
        "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", add_special_tokens=False
    )
    yes, no = map(tokenizer.convert_tokens_to_ids, ("yes", "no"))
    scores = []
    for passage in passages:
        ids = tokenizer(
            f"<Instruct>: {task}\n<Query>: {query}\n<Document>: {passage}",
            truncation="longest_first",
            max_length=min(max_length, 1024) - len(prefix) - len(suffix),
        )["input_ids"]
        logits = _last(model, prefix + ids + suffix)
        scores.append((logits[yes] - logits[no]).item())
    return scores


def zerank(folder, query, passages):
    """zeroentropy/zerank-1-small, modeling_zeranker.py, ``predict``, before its sigmoid."""
    return _zerank(folder, query[:2000].strip(), [text[:10_000].strip() for text in passages])


def zerank_2(folder, query, passages, instruction=None):
    """vLLM's examples/pooling/score/template/zerank2.jinja."""
    if instruction:
        query = f"<query>{query}</query>\n<instruction>{instruction}</instruction>"
    return _zerank(folder, query, passages)


def _zerank(folder, query, passages):
    model, tokenizer = _causal(folder)
    yes = tokenizer.encode("Yes", add_special_tokens=False)[0]
    scores = []
    for passage in passages:
        text = (
            f"<|im_start|>system\n{query}<|im_end|>\n<|im_start|>user\n{passage}<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
        scores.append(_last(model, tokenizer(text)["input_ids"])[yes].item() / 5)
    return scores


def ctxl(folder, query, passages, instruction=None):
    """The model card of ContextualAI/ctxl-rerank-v2-instruct-multilingual-1b."""
    model, tokenizer = _causal(folder)
    asked = f" {instruction}" if instruction else ""
    scores = []
    for passage in passages:
        text = (
            "Check whether a given document contains information helpful to answer the query.\n"
            f"<Document> {passage}\n<Query> {query}{asked} ??"
        )
        scores.append(_last(model, tokenizer(text)["input_ids"])[0].item())
    return scores


def _encoder(tokenizer):
    """Tokens of a text without special ones, at most so many."""
    return lambda text, most=None: tokenizer(text, add_special_tokens=False)["input_ids"][:most]


def mxbai(folder, query, passages, instruction=None, max_length=8192):
    """mxbai-rerank 0.1.6, mxbai_rerank_v2.py, ``prepare_inputs`` and ``forward``."""
    model, tokenizer = _causal(folder)
    encode = _encoder(tokenizer)
    prefix = encode(
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant."
        "<|im_end|>\n<|im_start|>user\n"
    )
    suffix = encode("<|im_end|>\n<|im_start|>assistant\n")
    separator = encode("\n")
    task = encode(
        "You are a search relevance expert who evaluates how well documents match search queries. "
        "For each query-document pair, carefully analyze the semantic relationship between them, "
        "then provide your binary relevance judgment (0 for not relevant, 1 for relevant).\n"
        "Relevance:"
    )
    predefined = len(prefix) + len(task) + len(suffix) + len(separator)
    if max_length + predefined > 1024:
        max_length = 1024 - predefined
    asked = f"instruction: {instruction}\nquery: {query}" if instruction else f"query: {query}"
    first = encode(asked, max_length * 3 // 4)
    most = min(1024 - len(first) - predefined, max_length)
    scores = []
    for passage in passages:
        second = separator + encode(f"document: {passage}", most)
        second = second[: max(0, max_length - len(first))]
        logits = _last(model, prefix + first + second + separator + task + suffix)
        scores.append((logits[encode("1")[0]] - logits[encode("0")[0]]).item())
    return scores


def gemma(folder, query, passages, max_length=512):
    """FlagEmbedding 1.4.2, inference/reranker/decoder_only/base.py, ``BaseLLMReranker``."""
    model, tokenizer = _causal(folder)
    encode = _encoder(tokenizer)
    separator = encode("\n")
    prompt = encode(
        "Given a query A and a passage B, determine whether the passage contains an answer to the "
        "query by providing a prediction of either 'Yes' or 'No'."
    )
    first = [tokenizer.bos_token_id, *encode(f"A: {query}", max_length * 3 // 4)]
    most = max_length + len(separator) + len(prompt)
    scores = []
    for passage in passages:
        second = separator + encode(f"B: {passage}", max_length)
        second = second[: max(0, most - len(first))]
        logits = _last(model, first + second + separator + prompt)
        scores.append(logits[encode("Yes")[0]].item())
    return scores


def _first_written(model, tokenizer, text):
    """The logits of the first token that a sequence to sequence model writes."""
    import torch

    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        return model(**inputs, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]


def monot5(folder, query, passages):
    """rank-llm 0.25.7, rerank/pointwise/monot5.py, as the log-odds of its probability."""
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = T5ForConditionalGeneration.from_pretrained(folder).eval()
    true, false = (
        tokenizer.encode(word, add_special_tokens=False)[0] for word in ("true", "false")
    )
    room = 512 - len(tokenizer.encode(f"Query: {query} Document:  Relevant: ")) - 64
    scores = []
    for passage in passages:
        kept = tokenizer.encode(passage, truncation=True, max_length=room)
        text = passage
        if len(kept) == room:  # decoding brings no other tokens back in the real tokenizer
            offsets = tokenizer(passage, return_offsets_mapping=True)["offset_mapping"]
            text = passage[: offsets[room - 2][1]]
        logits = _first_written(model, tokenizer, f"Query: {query} Document: {text} Relevant: ")
        scores.append((logits[true] - logits[false]).item())
    return scores


def rankt5(folder, query, passages):
    """google-research/rax, examples: "Query: … Document: …", the logit of the target
    ``<extra_id_10>`` at the first step; Zhuang et al., arXiv 2210.10634, section 3."""
    from transformers import AutoTokenizer, T5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = T5ForConditionalGeneration.from_pretrained(folder).eval()
    target = tokenizer.convert_tokens_to_ids("<extra_id_10>")
    room = 512 - len(tokenizer(f"Query: {query} Document: ")["input_ids"])
    scores = []
    for passage in passages:
        words = tokenizer(passage, add_special_tokens=False, return_offsets_mapping=True)
        text = passage
        if len(words["input_ids"]) > room:
            text = passage[: words["offset_mapping"][room - 1][1]]
        logits = _first_written(model, tokenizer, f"Query: {query} Document: {text}")
        scores.append(logits[target].item())
    return scores


def rankllama(folder, query, passages):
    """The model card of castorini/rankllama-v1-7b-lora-passage, after ``merge_and_unload``."""
    import torch
    from transformers import AutoTokenizer, LlamaForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = LlamaForSequenceClassification.from_pretrained(folder).eval()
    scores = []
    for passage in passages:
        inputs = tokenizer(f"query: {query}", f"document: {passage}", return_tensors="pt")
        kept = {key: inputs[key][:, :1024] for key in ("input_ids", "attention_mask")}
        with torch.no_grad():
            scores.append(model(**kept).logits[0][0].item())
    return scores


def mt5(folder, query, passages):
    """pygaggle, rerank/transformer.py, ``MonoT5``, as the log-odds of its probability."""
    from transformers import AutoTokenizer, MT5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = MT5ForConditionalGeneration.from_pretrained(folder).eval()
    yes, no = (tokenizer.get_vocab()[word] for word in ("▁yes", "▁no"))
    room = 512 - len(tokenizer(f"Query: {query} Document:  Relevant: ")["input_ids"])
    scores = []
    for passage in passages:
        words = tokenizer(passage, add_special_tokens=False, return_offsets_mapping=True)
        text = passage
        if len(words["input_ids"]) > room:  # its own cut would take the end of the prompt
            text = passage[: words["offset_mapping"][room - 1][1]]
        logits = _first_written(model, tokenizer, f"Query: {query} Document: {text} Relevant: ")
        scores.append((logits[yes] - logits[no]).item())
    return scores


def nemotron(folder, query, passages):
    """The model's llama_bidirectional_model.py, ``pool`` and ``forward``; its card has the text."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, LlamaConfig, LlamaModel

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = LlamaModel.from_pretrained(folder, config=LlamaConfig.from_pretrained(folder)).eval()
    [head] = load_file(folder / "model.safetensors")["score.weight"]
    scores = []
    for passage in passages:
        ids = tokenizer(f"question:{query} \n \n passage:{passage}")["input_ids"][:1024]
        mask = torch.zeros(1, 1, len(ids), len(ids))  # each token reads all
        with torch.no_grad():
            states = model(torch.tensor([ids]), attention_mask=mask).last_hidden_state[0]
        scores.append((states.mean(0) @ head).item() / 0.25)
    return scores


def monobert(folder, query, passages):
    """pygaggle, rerank/transformer.py, ``MonoBERT``, as the log-odds of its probability."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    longest = min(512, tokenizer.model_max_length)
    scores = []
    for passage in passages:
        inputs = tokenizer(query, passage, max_length=longest, truncation=True, return_tensors="pt")
        with torch.no_grad():
            logs = torch.log_softmax(model(**inputs).logits, 1)[0]
        scores.append((logs[1] - logs[0]).item())
    return scores


def jina_v35(folder, query, passages, instruction=None):
    """As :func:`jina_v3`, with what jinaai/jina-reranker-v3.5's modeling.py at e8a93f33 changes.

    By github.com/jundot/omlx/pull/2494, which was compared with it: a mark after the query in the
    head, too, of which the last is read; 1,024 tokens of a query, 8,192 of a passage.
    """
    settings = {"early": "<|rerank_token|>", "lengths": (1024, 8192)}
    return jina_v3(folder, query, passages, instruction, **settings)


def jina_v3(folder, query, passages, instruction=None, *, early="", lengths=(512, 2048)):
    """jinaai/jina-reranker-v3, modeling.py, ``rerank``."""
    import numpy as np
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer, Qwen3Model

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = Qwen3Model.from_pretrained(folder).eval()
    weights = load_file(folder / "model.safetensors")
    first, second = weights["projector.0.weight"], weights["projector.2.weight"]
    marks = {name: tokenizer.convert_tokens_to_ids(name) for name in CHAT[3:]}
    most = tokenizer.model_max_length

    def cut(text, length):
        ids = tokenizer(text, truncation=True, max_length=length)["input_ids"]
        return (tokenizer.decode(ids) if len(ids) >= length else text), len(ids)

    def clean(text):
        for mark in marks:
            text = text.replace(mark, "")
        return text

    def block(docs):
        asked = f"<instruct>\n{instruction}\n</instruct>\n" if instruction else ""
        listed = "\n".join(
            f'<passage id="{index}">\n{clean(doc)}<|embed_token|>\n</passage>'
            for index, doc in enumerate(docs)
        )
        text = (
            "<|im_start|>system\nYou are a search relevance expert who can determine a ranking of "
            "the passages based on how relevant they are to the query. If the query is a question, "
            "how relevant a passage is depends on how well it answers the question. If not, try to "
            "analyze the intent of the query and assess how well each passage satisfies the "
            "intent. If an instruction is provided, you should follow the instruction when "
            "determining the ranking.<|im_end|>\n<|im_start|>user\n"
            f"I will provide you with {len(docs)} passages, each indicated by a numerical "
            "identifier. Rank the passages based on their relevance to query: "
            f"{clean(query)}{early}\n{asked}{listed}\n"
            f"<query>\n{clean(query)}<|rerank_token|>\n</query>"
            "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        )
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        with torch.no_grad():
            hidden = model(ids).last_hidden_state[0]
            ends = [
                torch.relu(hidden[ids[0] == mark] @ first.T) @ second.T for mark in marks.values()
            ]
        return ends[0].numpy(), ends[1].numpy()[-1:]

    query_length, passage_length = lengths
    query, size = cut(query, query_length)
    vectors, queries, shares = [], [], []
    waiting = []
    room = most - 2 * size

    def flush():
        documents, own = block(waiting)
        cosines = (documents @ own[0]) / (
            np.linalg.norm(documents, axis=1) * np.linalg.norm(own[0])
        )
        vectors.extend(documents)
        queries.append(own[0])
        shares.append(((1 + cosines) / 2).max())
        waiting.clear()

    for passage in passages:
        text, length = cut(passage, passage_length)
        waiting.append(text)
        room -= length
        if len(waiting) >= 125 or room <= passage_length:
            flush()
            room = most - 2 * size
    if waiting:
        flush()
    average = np.average(queries, axis=0, weights=shares)
    matrix = np.array(vectors)
    lengths = np.linalg.norm(average) * np.linalg.norm(matrix, axis=1)
    return (matrix @ average / lengths).tolist()
