"""A tiny BERT whose weights are written by hand: its score is the share of a passage's words that
the query has, so that a damaged folder can be told from one of random weights.

Each word has a dimension of its own. In the first layer, each token attends to the token of the
query with the same word, or else to itself, and so learns whether the query has it. In the second
one, all tokens are averaged, the first ones with a little more weight.
"""

from tiny_models import once

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
POSITIONS = 96
_FREE = 12  # dimensions beside those of words
_LARGE, _SAME, _QUERY = 8.0, 60.0, 30.0
_PREFERENCE = 1.0  # of the first positions, in the average


def words_of(texts):
    """The words and signs of texts, as a BERT tokenizer splits them."""
    from tokenizers import normalizers, pre_tokenizers

    normalizer = normalizers.BertNormalizer(lowercase=True)
    split = pre_tokenizers.BertPreTokenizer()
    found = {}
    for text in texts:
        for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text)):
            found[word] = None
    return [*found]


def known_words():
    """The words of the known answers, and a few others."""
    from secondpass.scorers.checks import known_answers

    texts = [text for query, answers in known_answers.requests() for text in (query, *answers)]
    return words_of([*texts, *TEXTS])


TEXTS = [
    "which fruit is rich in potassium ? bananas and oranges are a fruit that is rich in potassium",
    "the cat sat on the mat while a dog ran and no food query yes moon moves around earth",
    "x y z 0 1 2 3",
]

QUERIES = {
    "which fruit is rich in potassium ?": [
        "moon moves around earth . " * 5,
        "bananas are rich in potassium .",
        "fruit rich in potassium : which fruit is ?",
    ],
    "the cat sat on the mat": [
        "dog ran and moves around . " * 4,
        "the cat sat on the mat .",
        "a dog ran and sat on food , no cat .",
    ],
    "who moves around the earth": [
        "the moon moves around the earth",
        "cat and dog and food : no query yes . " * 4,
        "a dog ran around the mat",
    ],
}
"""Queries and passages whose order the model makes by clear differences of its scores."""


@once
def write_overlap(folder, *, words=None, labels=1, positions=POSITIONS):
    """The model as a cross-encoder. ``words`` are those it knows; None: :func:`known_words`."""
    vocabulary = [*SPECIAL, *(known_words() if words is None else words)]
    model = overlap_model(len(vocabulary), labels, positions)
    model.save_pretrained(folder)
    write_tokenizer(folder, vocabulary, positions)
    return folder


def write_tokenizer(folder, vocabulary, positions):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {word: index for index, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=positions,
        model_input_names=["input_ids", "attention_mask", "token_type_ids"],
    ).save_pretrained(folder)


def overlap_model(size, labels=1, positions=POSITIONS):
    """The model for ``size`` tokens, the special ones first."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    width = size + _FREE
    (shared, large, balance, query, passage, near, far, match, unmatch, total, rest, one) = range(
        size, width
    )
    config = BertConfig(
        vocab_size=size,
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=positions,
        num_labels=labels,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.fill_(1.0 if "LayerNorm.weight" in name else 0.0)
        bert = model.bert
        # Vectors have the mean 0 and nearly the same length, so that norms only scale them.
        word = bert.embeddings.word_embeddings.weight
        word[:, :size] = torch.eye(size)
        word[:, shared] = -1
        word[:, large], word[:, balance] = _LARGE, -_LARGE
        types = bert.embeddings.token_type_embeddings.weight
        types[0, query], types[0, passage] = 1, -1
        types[1, query], types[1, passage] = -1, 1
        place = torch.linspace(1, 0, positions) ** 3
        position = bert.embeddings.position_embeddings.weight
        position[:, near], position[:, far] = place, -place
        length = (2 + 2 * _LARGE**2 + 2 + 2 * 0.5) ** 0.5 / width**0.5
        root = width**0.5

        def attention(layer):
            own = bert.encoder.layer[layer].attention
            return own.self.query, own.self.key, own.self.value, own.output.dense

        ask, key, value, out = attention(0)
        strength = (_SAME * root) ** 0.5 * length
        for index in range(len(SPECIAL), size):
            ask.weight[index, index] = key.weight[index, index] = strength
        ask.bias[one] = root
        key.weight[one, query] = _QUERY / 2 * length
        # 1 if the attended token is a word of the query.
        value.weight[match, query] = length / 2
        value.bias[match] = 0.5
        value.weight[match, : len(SPECIAL)] = -length
        out.weight[match, match], out.weight[unmatch, match] = 1 / length, -1 / length

        ask, key, value, out = attention(1)
        ask.weight[one, 2] = length * root  # of the first token, which is read
        key.weight[one, near] = _PREFERENCE * length
        # 1 for a word of the passage that the query has, 0 for all others.
        value.weight[total, match] = length
        value.weight[total, passage] = length / 2
        value.bias[total] = -0.5
        value.weight[total, 0] = length  # nothing for padding
        value.weight[total, 2] = 2 * length  # nor for the two special tokens of the query
        out.weight[total, total], out.weight[rest, total] = 1 / length, -1 / length

        bert.pooler.dense.weight[total, total] = length
        bert.pooler.dense.weight[total, 0] = -length / 2  # nothing sensible, if padding is read
        for label in range(labels):
            model.classifier.weight[label, total] = 20.0 if label == labels - 1 else -20.0
        model.classifier.bias.fill_(-2.0)
    return model


def order_of(scores):
    """Indices, the highest score first."""
    return sorted(range(len(scores)), key=lambda index: -scores[index])


def right_orders(folder):
    """The right order of each query's passages, by an undamaged model in the folder."""
    from secondpass.scorers.cross_encoder import CrossEncoderScorer

    write_overlap(folder)
    scorer = CrossEncoderScorer(str(folder), backend="torch", known_answers=False)
    return {query: order_of(scorer.score_pairs(query, texts)) for query, texts in QUERIES.items()}
