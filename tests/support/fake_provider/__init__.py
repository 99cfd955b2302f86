"""A provider of language models and rerank APIs on the loopback interface, with faults by script.

It speaks OpenAI Chat Completions, Anthropic Messages, Gemini ``generateContent``, and the rerank
APIs (:mod:`rerank_dialects`). All are served by one port, each under the first part of its path::

    with FakeProvider() as provider:
        provider.play(status(500), good())          # the last step is repeated
        client = openai.OpenAI(base_url=provider.base_url("openai"), api_key="k")

A *step* is a function of one request that yields what goes over the wire: bytes as they are, a
:class:`Pause`, or an :class:`End`. So every fault of a transport can be written down. Good replies
are computed from the request: the labels of its ``<doc id="...">`` fences, graded by a function of
their text, in the form that its schema asks for.
"""

# Every public name of the parts.
# ruff: noqa: F403
from __future__ import annotations

from fake_provider.contents import *
from fake_provider.errors import *
from fake_provider.logprobs import *
from fake_provider.replies import *
from fake_provider.requests import *
from fake_provider.server import *
from fake_provider.steps import *
from fake_provider.transport import *
