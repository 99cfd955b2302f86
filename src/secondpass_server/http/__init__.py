"""An HTTP server for rerankers with the rerank APIs of existing clients."""
