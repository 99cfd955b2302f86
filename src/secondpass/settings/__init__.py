"""Settings: the same validation for Python and YAML, kinds by name, and environment variables."""

from secondpass.settings.messages import counted, describe, suggestion
from secondpass.settings.secrets import (
    SECRET,
    OptionalVariables,
    Secret,
    Variables,
    first_set,
    is_variable,
    variable,
    variables,
)
from secondpass.settings.signature import (
    Nested,
    OneOrMore,
    changed,
    configurable,
    definition,
    from_mapping,
    model_of,
    nested,
    not_serializable,
    parameters_of,
    show_types,
    to_mapping,
)

__all__ = [
    "SECRET",
    "Nested",
    "OneOrMore",
    "OptionalVariables",
    "Secret",
    "Variables",
    "changed",
    "configurable",
    "counted",
    "definition",
    "describe",
    "first_set",
    "from_mapping",
    "is_variable",
    "model_of",
    "nested",
    "not_serializable",
    "parameters_of",
    "show_types",
    "suggestion",
    "to_mapping",
    "variable",
    "variables",
]
