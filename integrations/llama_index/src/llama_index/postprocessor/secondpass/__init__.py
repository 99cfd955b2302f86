"""secondpass as a LlamaIndex node postprocessor."""

from llama_index.postprocessor.secondpass.base import SecondPassRerank
from llama_index.postprocessor.secondpass.events import SecondPassReportEvent
from llama_index.postprocessor.secondpass.llm import LlamaIndexLLM
from llama_index.postprocessor.secondpass.storing import SecondPassStore

__all__ = ["LlamaIndexLLM", "SecondPassReportEvent", "SecondPassRerank", "SecondPassStore"]
