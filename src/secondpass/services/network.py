"""What HTTP clients take from the environment, proxies and certificates, and what is wrong with it.

Read as httpx reads it: a proxy for each scheme of an address, with the exceptions of NO_PROXY, and
certificates from a file, else from a folder.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from secondpass.concurrency.lazy import is_installed
from secondpass.errors import causes
from secondpass.settings.secrets import bare

_SOCKS = ("socks5", "socks5h")
_SCHEMES = ("http", "https", *_SOCKS)
"""Schemes of proxies."""
_PORTS = {"http": 80, "https": 443}
_FILE, _FOLDER = "SSL_CERT_FILE", "SSL_CERT_DIR"
_UNREAD = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables with certificates for other HTTP clients."""
_KEY_LOG = "SSLKEYLOGFILE"
"""A file to which Python's TLS writes the keys of sessions."""
_CLIENTS = frozenset({"httpx", "httpx2", "requests", "botocore"})
"""Packages of HTTP clients."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy of the environment, and the variable that names it."""

    variable: str
    value: str = field(repr=False)
    """Its address, which may contain a password."""

    def __str__(self) -> str:
        return " ".join(filter(None, ["the proxy", self.address, f"of {self.variable}"]))

    @property
    def address(self) -> str:
        """Without user and password; empty if it is invalid, as any part may be the password."""
        return "" if self._parts is None else bare(self.value)

    @property
    def problem(self) -> str | None:
        """What is wrong with it; None if a client can be made with it."""
        scheme = self.value.partition("://")[0].lower()
        if scheme not in _SCHEMES:
            named = repr(scheme) if re.fullmatch(r"[a-z][a-z0-9.+-]*", scheme) else "this"
            return f"{named} is not the scheme of a proxy; write one of {', '.join(_SCHEMES)}"
        if self._parts is None:
            special = "; in a password, write # / ? as %23 %2F %3F" if "@" in self.value else ""
            return f"it is not a valid address, such as http://HOST:PORT{special}"
        if scheme in _SOCKS and not is_installed("socksio"):
            return "a SOCKS proxy needs the package socksio: pip install socksio"
        return None

    @property
    def _parts(self) -> SplitResult | None:
        """The parts of the address; None if it is invalid, or if a password ends its host."""
        parts = split(self.value)
        if parts is None or not parts.hostname:
            return None
        ends_in_password = "@" in f"{parts.path}{parts.query}{parts.fragment}"
        return None if ends_in_password else parts


@dataclass(frozen=True, slots=True)
class NoProxy:
    """The exceptions from proxies: names and addresses to which requests are sent directly."""

    variable: str
    entries: tuple[str, ...]

    @property
    def problem(self) -> str | None:
        """The entry that httpx rejects; None if there is none."""
        if "*" in self.entries or not is_installed("httpx"):  # httpx2 ignores what it cannot read
            return None
        import httpx

        for entry in self.entries:
            if "://" in entry or _is_address(entry):
                continue
            try:
                httpx.URL(f"all://*{entry}")
            except httpx.InvalidURL:
                hint = "write the address without brackets" if "[" in entry else "leave it out"
                return f"{entry!r} cannot be read; {hint}"
        return None

    def includes(self, url: SplitResult) -> bool:
        """Whether requests to an address are sent directly."""
        return "*" in self.entries or any(_matches(entry, url) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The file or folder with the certificates of authorities, and the variable that names it."""

    variable: str
    path: str

    @property
    def problem(self) -> str | None:
        """What is wrong with it; a folder without certificates prevents no client."""
        return _folder_problem(self.path) if self.variable == _FOLDER else _file_problem(self.path)


def proxies() -> dict[str, Proxy]:
    """The proxies in use, by the scheme of the addresses that they are for, or ``all``."""
    from urllib.request import getproxies  # costs time to import

    if "*" in no_proxy().entries:
        return {}
    addresses = getproxies()
    in_use: dict[str, Proxy] = {}
    for scheme in ("http", "https", "all"):
        if address := addresses.get(scheme):
            if "://" not in address:
                address = f"http://{address}"
            in_use[scheme] = Proxy(_variable(f"{scheme}_proxy"), address)
    return in_use


def no_proxy() -> NoProxy:
    """The exceptions from proxies."""
    from urllib.request import getproxies

    entries = map(str.strip, getproxies().get("no", "").split(","))
    return NoProxy(_variable("no_proxy"), tuple(filter(None, entries)))


def proxy_for(url: str) -> Proxy | None:
    """The proxy for requests to an address; None if they are sent directly."""
    parts = split(url)
    if parts is None or no_proxy().includes(parts):
        return None
    known = proxies()
    return known.get(parts.scheme) or known.get("all")


def certificates(variables: Sequence[str] = (_FILE, _FOLDER)) -> Certificates | None:
    """Where certificates are, by the first of these variables that is set; None if none is."""
    name = next(filter(os.environ.get, variables), None)
    return None if name is None else Certificates(name, os.environ[name])


def unread_certificates() -> str | None:
    """A variable with certificates that httpx does not read; None if it reads another."""
    return None if certificates() else next(filter(os.environ.get, _UNREAD), None)


def client_problem(files: Sequence[str] = (_FILE,)) -> str | None:
    """Why an HTTP client cannot be made or used here: a variable, and what is wrong with it.

    Args:
        files: variables in which this client looks for a file of certificates, in turn.
    """
    return next(_client_problems(files), None)


def explanation(error: BaseException, files: Sequence[str] = (_FILE,)) -> str:
    """:func:`client_problem` for the end of a message about an HTTP client's error, or nothing."""
    for link in causes(error):
        for frame, _ in traceback.walk_tb(link.__traceback__):
            package = str(frame.f_globals.get("__name__")).partition(".")[0]
            if package in _CLIENTS:
                problem = client_problem(files)
                return f"; {problem}" if problem else ""
    return ""


def _client_problems(files: Sequence[str]) -> Iterator[str]:
    for source in (certificates(files), *proxies().values(), no_proxy()):
        if source is not None and (problem := source.problem):
            yield f"{source.variable}: {problem}"
    if (path := os.environ.get(_KEY_LOG)) and not _is_writable(path):
        yield f"{_KEY_LOG}: {path!r} cannot be written"


def _file_problem(path: str) -> str | None:
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        return f"{path!r} has no certificates in PEM form, or is damaged"
    except (OSError, ValueError) as error:
        return f"{path!r} cannot be read: {getattr(error, 'strerror', None) or 'invalid path'}"
    return None


def _folder_problem(path: str) -> str | None:
    names: list[str] = []
    for folder in path.split(os.pathsep):
        try:
            names += os.listdir(folder)
        except OSError as error:
            return f"{folder!r} cannot be read: {error.strerror}"
    if not any(re.fullmatch(r"[0-9a-f]{8}\.\d+", name) for name in names):
        return f"{path!r} has no certificates with the names that 'openssl rehash' gives"
    return None


def _is_writable(path: str) -> bool:
    folder = os.path.dirname(path) or "."
    return os.access(path if os.path.exists(path) else folder, os.W_OK) and not os.path.isdir(path)


def _matches(entry: str, url: SplitResult) -> bool:
    """Whether an entry of NO_PROXY is about an address."""
    host = url.hostname or ""
    with suppress(ValueError):
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    wanted = split(entry if "://" in entry else f"all://{entry.removeprefix('*')}")
    if wanted is None or not wanted.hostname or wanted.scheme not in ("all", url.scheme):
        return False
    if _port(wanted) not in (None, _port(url)):
        return False
    name = wanted.hostname
    exact = "://" in entry or name == "localhost"
    ending = name if name.startswith(".") else f".{name}"
    return host == name or (not exact and host.endswith(ending))


def _port(url: SplitResult) -> int | None:
    """The port of an address; None for that of its scheme."""
    return None if url.port == _PORTS.get(url.scheme) else url.port


def _is_address(entry: str) -> bool:
    try:
        ip_address(entry)
    except ValueError:
        return False
    return True


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
