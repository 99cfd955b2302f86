"""The built-in kinds, by import path, so that none is imported before it is used."""

from __future__ import annotations

from collections.abc import Mapping

from secondpass.settings.registry import Family

KINDS: Mapping[Family, Mapping[str, str]] = {
    "methods": {
        "cross_encoder": "secondpass.scorers.cross_encoder:CrossEncoderScorer",
        "embedded": "secondpass.scorers.embedded:EmbeddedScorer",
        "embedded_multilingual": (
            "secondpass.scorers.embedded_multilingual:EmbeddedMultilingualScorer"
        ),
        "lexical": "secondpass.ranking.lexical:LexicalScorer",
        "decisions": "secondpass.apis.decisions:Decisions",
        "endpoint": "secondpass.apis.endpoint:Endpoint",
        "graded": "secondpass.strategies.graded:Graded",
        "pointwise": "secondpass.strategies.pointwise:Pointwise",
        "listwise": "secondpass.strategies.listwise:Listwise",
        "blocks": "secondpass.strategies.blocks:Blocks",
        "cascade": "secondpass.strategies.cascade:Cascade",
    },
    "llms": {
        "openai": "secondpass.llms.openai:OpenAIChat",
        "anthropic": "secondpass.llms.anthropic:AnthropicMessages",
        "google": "secondpass.llms.google:GoogleGenAI",
    },
    "orderings": {
        "diverse": "secondpass.orderings.diversity:Diverse",
        "tiers": "secondpass.ranking.ordering:Tiers",
        "lost_in_the_middle": "secondpass.ranking.ordering:LostInTheMiddle",
    },
    "terms": {
        "recency": "secondpass.ranking.terms:Recency",
        "number": "secondpass.ranking.terms:Number",
        "value": "secondpass.ranking.terms:Value",
    },
    "contexts": {"project": "secondpass.prompts.context:ProjectContext"},
}
