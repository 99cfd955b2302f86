"""Texts of characters of all sizes, and spans of rerank APIs."""

from hypothesis import strategies as st

TEXTS = st.text(
    st.sampled_from("ab é́\u0300ßñ漢字🦉👍🏽\u200d\n") | st.characters(codec="utf-8"), min_size=1
)


def span(start, end, score=0.5, **more):
    return {"start": start, "end": end, "score": score, **more}
