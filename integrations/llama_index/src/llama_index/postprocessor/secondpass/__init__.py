"""secondpass as a LlamaIndex node postprocessor."""

from llama_index.postprocessor.secondpass.base import SecondPassRerank

__all__ = ["SecondPassRerank"]
