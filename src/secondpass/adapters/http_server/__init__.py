"""An HTTP server in front of rerankers, with the rerank APIs that clients already speak."""
