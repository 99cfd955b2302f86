"""The Haystack component that stores documents ahead, for indexing pipelines."""

from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.core.serialization import component_to_dict
from haystack.utils.deserialization import deserialize_component_inplace

from haystack_integrations.components.rankers.secondpass.ranker import (
    LOGGER_NAME,
    SecondPassRanker,
    candidates,
    checked_documents,
)
from secondpass import ConfigurationError, Problem
from secondpass.adapters import describe, explained, use_logger


@component
class SecondPassStorer:
    """Encodes documents while they are indexed, so that no query has to.

    The documents pass through unchanged. What is stored is what the ranker asks for: give it a
    ranker with the parameters of that in the query pipeline, whose method has a `store`.

    ### Usage example

    ```python
    from haystack import Document
    from haystack_integrations.components.rankers.secondpass import (
        SecondPassRanker,
        SecondPassStorer,
    )

    method = {"type": "embedded", "store": "passages.store"}
    storer = SecondPassStorer(SecondPassRanker({"method": method}))
    result = storer.run(documents=[Document(content="Paris is in France.")])
    print(result["stored"])  # {'known': 0, 'encoded': 1}
    ```
    """

    @explained()
    def __init__(self, ranker: SecondPassRanker) -> None:
        """Create a SecondPassStorer. Nothing is loaded yet.

        :param ranker:
            The ranker whose method has the store.
        :raises secondpass.ConfigurationError:
            If it is no SecondPassRanker.
        """
        if not isinstance(ranker, SecondPassRanker):
            message = f"give a SecondPassRanker, not {describe(ranker)}"
            raise ConfigurationError([Problem(("ranker",), message)], "SecondPassStorer")
        self.ranker = ranker

    @component.output_types(documents=list[Document], stored=dict[str, int])
    @explained()
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Store documents. Those that are stored already are not encoded again.

        :param documents:
            The documents, as the retriever will return them.
        :returns:
            A dictionary with the following keys:
            - `documents`: the same documents.
            - `stored`: number of texts that were `known`, and that were `encoded`.
        :raises secondpass.StoreError:
            If the ranker has no store, or not all documents could be stored.
        :raises ValueError:
            If an argument is of the wrong kind.
        """
        checked = checked_documents(documents)
        with use_logger(LOGGER_NAME):
            stored = self.ranker._reranker.store(candidates(checked))
        return {"documents": documents, "stored": stored._asdict()}

    def warm_up(self) -> None:
        """Load the model, unless it is loaded."""
        self.ranker.warm_up()

    def close(self) -> None:
        """Close the model and the store; they are opened again when they are needed."""
        self.ranker.close()

    def to_dict(self) -> dict[str, Any]:
        """Serialize this component to a dictionary.

        :returns:
            Dictionary with serialized data.
        """
        return default_to_dict(self, ranker=component_to_dict(self.ranker, "ranker"))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Deserialize this component from a dictionary.

        :param data:
            The dictionary to deserialize from.
        :returns:
            The deserialized component.
        """
        deserialize_component_inplace(data["init_parameters"], key="ranker")
        return default_from_dict(cls, data)
