"""The environment variables that choose a language model in examples and presets."""

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

MODEL_VARIABLES = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GROQ_API_KEY",
    "LLM_MODEL",
    "TACTICIAN_LLM_MODEL",
    "TACTICIAN_RERANK_LIMIT",
    *_PROXIES,
    *(name.lower() for name in _PROXIES),
)
