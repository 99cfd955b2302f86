"""What HTTP clients take from the environment: proxies, and certificates of authorities."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

from secondpass.errors import printable
from secondpass.settings.secrets import bare

_UNREAD = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables with certificates for other HTTP clients."""
_MAX_SENTENCE = 200


def environment() -> dict[str, str]:
    """The variables that are set, with their values, or with what is wrong with them."""
    proxies = {name: value or "not a valid address" for name, value in _proxies().values()}
    return {**certificates(), **proxies, **_no_proxy()}


def environment_text() -> str:
    """The same for a message; empty if none is set."""
    return as_text(environment())


def as_text(variables: Mapping[str, str]) -> str:
    """Variables and what is said of each, for a message."""
    return "; ".join(f"{name}: {said}" for name, said in variables.items())


def certificates() -> dict[str, str]:
    """The variable that names certificates, with its value or what is wrong with it."""
    if problem := unreadable(["SSL_CERT_FILE"]):
        return problem
    if name := next(filter(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")), None):
        return {name: printable(os.environ[name])}
    unread = next(filter(os.environ.get, _UNREAD), None)
    return {unread: "is not read; set SSL_CERT_FILE"} if unread else {}


def unreadable(files: Sequence[str]) -> dict[str, str]:
    """The first of these variables that is set, if its file of certificates cannot be read."""
    name = next(filter(os.environ.get, files), None)
    problem = None if name is None else _file_problem(os.environ[name])
    return {name: problem} if name and problem else {}


def proxy_for(url: str) -> str | None:
    """The proxy for requests to an address, and its variable; None if they are sent directly."""
    from urllib.request import proxy_bypass  # costs time to import

    parts = split(url)
    if parts is None:
        return None
    # With the port and without, also without the brackets of an address.
    if proxy_bypass(parts.netloc.rpartition("@")[2]) or proxy_bypass(parts.hostname or ""):
        return None
    known = _proxies()
    variable, address = known.get(parts.scheme) or known.get("all") or ("", "")
    return " ".join(filter(None, ["the proxy", address, f"of {variable}"])) if variable else None


def sentence(error: Exception) -> str:
    """What a client says that cannot be made; only its type if it may hold a password."""
    from urllib.request import getproxies

    name = type(error).__name__
    is_safe = not any("@" in address for address in getproxies().values())
    return f"{name}: {printable(str(error))[:_MAX_SENTENCE]}" if is_safe else name


def _proxies() -> dict[str, tuple[str, str]]:
    """By the scheme of the addresses that a proxy is for, or ``all``: its variable and address."""
    from urllib.request import getproxies

    known = getproxies()
    return {
        scheme: (_variable(f"{scheme}_proxy"), _shown(known[scheme]))
        for scheme in ("http", "https", "all")
        if known.get(scheme)
    }


def _shown(address: str) -> str:
    """The address of a proxy without user and password; empty if it is invalid."""
    parts = split(address if "://" in address else f"http://{address}")
    # A password with one of the characters # / ? ends the host.
    if parts is None or not parts.hostname or "@" in f"{parts.path}{parts.query}{parts.fragment}":
        return ""
    return bare(parts.geturl())


def _no_proxy() -> dict[str, str]:
    from urllib.request import getproxies

    exceptions = getproxies().get("no")
    if not exceptions:
        return {}
    hint = "; write addresses without brackets" if "[" in exceptions else ""
    return {_variable("no_proxy"): f"{printable(exceptions)}{hint}"}


def _file_problem(path: str) -> str | None:
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        return f"{path!r} has no certificates in PEM form, or is damaged"
    except (OSError, ValueError) as error:
        return f"{path!r} cannot be read: {getattr(error, 'strerror', None) or 'invalid path'}"
    return None


def _variable(name: str) -> str:
    """The variable that is set, of any case, as of urllib: that in lower case has precedence."""
    others = (other for other in os.environ if other.lower() == name)
    names = (item for item in (name, *others) if os.environ.get(item))
    return next(names, "the system's settings")


def split(url: str) -> SplitResult | None:
    """The parts of an address; None if it is invalid."""
    if not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts
