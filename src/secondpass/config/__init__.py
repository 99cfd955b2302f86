"""Configurations: YAML, mappings and presets to rerankers and back, and their JSON Schema."""

from secondpass.config.files import merged, preset, preset_purpose, presets, read_yaml
from secondpass.config.language_model import with_llm
from secondpass.config.loading import dump, load, resolve
from secondpass.config.schema import json_schema
from secondpass.settings.registry import preset_names

__all__ = [
    "dump",
    "json_schema",
    "load",
    "merged",
    "preset",
    "preset_names",
    "preset_purpose",
    "presets",
    "read_yaml",
    "resolve",
    "with_llm",
]
