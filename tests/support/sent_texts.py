"""A request with a key, and the ways in which servers write its texts in their errors."""

import html
import json
from urllib.parse import quote

from secondpass.services.diagnosis import Sent

KEY = "sk-proj-Ab9xQ7LmZ2wK4tR8"
QUERY = "where do the zebras sleep at night"
PASSAGE = 'The wombats of 1899 dug "deep" burrows & tunnels\nin Ärger, 100% dark'
SENT = Sent([QUERY, f'<doc id="k7">{html.escape(PASSAGE, quote=False)}</doc>', PASSAGE], [KEY])

ESCAPES = {
    "plain": str,
    "json": json.dumps,
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "json, not ascii": lambda text: json.dumps(text, ensure_ascii=False),
    "every character": lambda text: "".join(f"\\u{ord(one):04x}" for one in text),
    "repr": repr,
    "repr of bytes of UTF-8": lambda text: repr(text.encode()),
    "octal": lambda text: "".join(
        chr(one) if one < 128 else f"\\{one:03o}" for one in text.encode()
    ),
    "Rust": lambda text: "".join(f"\\u{{{ord(one):x}}}" for one in text),
    "repr of bytes": lambda text: repr(text.encode("latin-1")),
    "html": html.escape,
    "html, twice": lambda text: html.escape(html.escape(text)),
    "html, by numbers": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "html, by hexadecimal numbers": lambda text: "".join(f"&#x{ord(one):x};" for one in text),
    "url": quote,
    "url, with plus": lambda text: quote(text).replace("%20", "+"),
    "url of html": lambda text: quote(html.escape(text)),
    "upper case": str.upper,
    "white space": lambda text: "\n\t ".join(text.split()),
    "no white space": lambda text: "".join(text.split()),
    "hyphens": lambda text: "-".join(text.split()),
}
