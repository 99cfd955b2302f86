"""Attributes of the component for OpenInference."""

import sys

from secondpass import Reranker


class Traced:
    """Base class of the component: has its model and `top_k` as OpenInference expects them.

    The instrumentor of OpenInference opens a span for each run of a component, named after its
    class and method. It reads the component's `model_name`, but a `top_k` only from the arguments
    of the run: a configured one is added to that span here.
    """

    reranker: Reranker

    @property
    def model_name(self) -> str:
        """The name of the method: a model's name, or for example `listwise by gpt-4.1-mini`."""
        return self.reranker.method.name

    def _trace_top_k(self, top_k: int | None, documents: int) -> None:
        opentelemetry = sys.modules.get("opentelemetry.trace")
        if opentelemetry is None:
            return
        span = opentelemetry.get_current_span()
        name = type(self).__name__
        if getattr(span, "name", None) in (f"{name}.run", f"{name}.run_async"):
            span.set_attribute("reranker.top_k", top_k or self.reranker.top_k or documents)
