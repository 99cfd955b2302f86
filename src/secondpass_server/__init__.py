"""Serving a reranker: HTTP, MCP, and packing it."""
