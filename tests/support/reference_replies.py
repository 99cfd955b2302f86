"""Replies to the reference systems, and what is logged about them."""

import fake_provider as fake


def says(text):
    """A step: the model's reply is this text."""
    return lambda request: [fake.http(200, fake.envelope(request, text))]


def logged(caplog):
    return [record for record in caplog.records if record.name == "secondpass"]
