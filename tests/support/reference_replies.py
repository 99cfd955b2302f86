"""Replies for the reference systems, and their log messages."""

import fake_provider as fake


def says(text):
    """A step: the model's reply is this text."""
    return lambda request: [fake.http(200, fake.envelope(request, text))]


def logged(caplog):
    return [record for record in caplog.records if record.name == "secondpass"]
