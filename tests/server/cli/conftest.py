"""The fixtures of tests of the command."""

from command_fixtures import *  # noqa: F403
