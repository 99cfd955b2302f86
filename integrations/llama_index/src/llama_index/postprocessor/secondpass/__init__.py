"""secondpass as a LlamaIndex node postprocessor."""

from llama_index.postprocessor.secondpass.base import SecondPassRerank
from llama_index.postprocessor.secondpass.events import SecondPassReportEvent
from llama_index.postprocessor.secondpass.llm import LlamaIndexLLM

__all__ = ["LlamaIndexLLM", "SecondPassReportEvent", "SecondPassRerank"]
