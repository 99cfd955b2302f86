"""Settings that the tests of the component share."""

from haystack.document_stores.in_memory import InMemoryDocumentStore

# Its finalizer waits for its threads. The collector may call it anywhere, so in a thread that has
# just begun and holds a lock of `threading`, for which that wait then waits forever. The threads
# end without it too, as soon as the executor that they belong to is collected.
if hasattr(InMemoryDocumentStore, "__del__"):
    del InMemoryDocumentStore.__del__
