"""Configurations as the other packages read, write and show them."""

from secondpass.settings.environment import fill
from secondpass.settings.keys import literal_keys, may_name_key, with_hidden_keys
from secondpass.settings.loading import read
from secondpass.settings.messages import reworded
from secondpass.settings.registry import dump_settings, names
from secondpass.settings.yaml_text import NotYAMLError
from secondpass.settings.yaml_text import write as to_yaml
