"""Reranking on Ray: large jobs on Ray Data, and the server on Ray Serve."""
