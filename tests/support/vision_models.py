"""Tiny random models that read pictures beside texts, as sentence-transformers stores them."""

from family_models import CHAT, bytes_tokenizer
from tiny_models import TINY, TINY_CAUSAL, once

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
)
_SIDE = 16
"""Of a picture, in pixels."""


def _write_base(folder):
    """A Llava: a language model that reads the patches of pictures, too, and a chat template."""
    import torch
    import transformers

    tokenizer = bytes_tokenizer((*CHAT[:-1], "<image>", CHAT[-1]))
    # Version 5 has one that needs no torchvision.
    pictures = getattr(transformers, "CLIPImageProcessorPil", transformers.CLIPImageProcessor)(
        size={"shortest_edge": _SIDE}, crop_size={"height": _SIDE, "width": _SIDE}
    )
    processor = transformers.LlavaProcessor(
        pictures,
        tokenizer,
        patch_size=_SIDE // 2,
        vision_feature_select_strategy="default",
        chat_template=_TEMPLATE,
        num_additional_image_tokens=1,
    )
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "max_position_embeddings": 4096}
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(
            **TINY, image_size=_SIDE, patch_size=_SIDE // 2
        ),
        text_config=transformers.Qwen3Config(
            **TINY_CAUSAL, **sizes, pad_token_id=tokenizer.pad_token_id
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    transformers.LlavaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@once
def write_vision_model(folder, kind):
    """One of ``CrossEncoder``, ``SentenceTransformer`` and ``MultiVectorEncoder``, or ``Router``:
    a cross-encoder that selects its first module."""
    import sentence_transformers
    import torch
    from sentence_transformers.base.modules import Dense, Router, Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sentence_transformer.modules import Pooling

    base = str(_write_base(folder.with_name("base")))
    if kind == "CrossEncoder":
        module = Transformer(base, transformer_task="any-to-any")
        answers = map(module.tokenizer.convert_tokens_to_ids, ("yes", "no"))
        modules = [module, LogitScore(*answers)]
    elif kind == "MultiVectorEncoder":
        modules = [Transformer(base), MultiVectorMask()]
    else:
        modules = [Transformer(base), Pooling(32, "mean")]
    if kind == "Router":
        kind = "CrossEncoder"
        torch.manual_seed(0)
        head = Dense(32, 1, activation_function=torch.nn.Identity(), module_output_name="scores")
        modules = [Router({"any": modules}, default_route="any"), head]
    model = getattr(sentence_transformers, kind)(modules=modules, device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    return folder
