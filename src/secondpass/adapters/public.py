"""The public names of `secondpass.adapters`."""

from __future__ import annotations

from secondpass.adapters.language_models import FrameworkLLM, SavedByAdapter, completion
from secondpass.adapters.parameters import (
    Parameters,
    check_options,
    checked_list,
    whole_number,
)
from secondpass.adapters.prompts import prompts_of, with_prompts
from secondpass.adapters.saving import detached, saved
from secondpass.adapters.scores import naming_kept_keys, results
from secondpass.adapters.shortening import Shortened, shortened
from secondpass.asking.life_cycle import Closing
from secondpass.concurrency.locks import fork_lock
from secondpass.concurrency.threads import in_thread
from secondpass.llms.usage import part
from secondpass.prompts.template import PLACEHOLDERS, unknown_placeholder
from secondpass.ranking.candidates import kind_of
from secondpass.ranking.diagnostics import use_logger
from secondpass.services.provider_errors import error_response
from secondpass.settings.arguments import explained
from secondpass.settings.messages import describe, problems_of, suggestion
from secondpass.settings.overrides import Override
from secondpass.settings.parameter_hints import NO_EQUIVALENT
from secondpass.settings.secrets import OptionalVariables

__all__ = [
    "NO_EQUIVALENT",
    "PLACEHOLDERS",
    "Closing",
    "FrameworkLLM",
    "OptionalVariables",
    "Override",
    "Parameters",
    "SavedByAdapter",
    "Shortened",
    "check_options",
    "checked_list",
    "completion",
    "describe",
    "detached",
    "error_response",
    "explained",
    "fork_lock",
    "in_thread",
    "kind_of",
    "naming_kept_keys",
    "part",
    "problems_of",
    "prompts_of",
    "results",
    "saved",
    "shortened",
    "suggestion",
    "unknown_placeholder",
    "use_logger",
    "whole_number",
    "with_prompts",
]
