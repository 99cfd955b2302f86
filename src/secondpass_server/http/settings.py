"""Settings of the server."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from secondpass import ConfigurationError
from secondpass.settings import Variables, configurable

if TYPE_CHECKING:
    from annotated_types import Ge, Gt


@configurable
@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server: limits, keys and defaults.

    Attributes:
        api_key_env: environment variables that hold the keys of clients; each may hold several,
            separated by commas or white space. None, without ``api_key_file``: no key is needed.
        api_key_file: path of a file with a key per line. It is read again when it changes.
        local_names: whether only requests from this machine, to ``localhost`` and loopback
            addresses, are answered. Without keys, this keeps web pages in a local browser out (DNS
            rebinding).
        strict_models: whether a model name that is not served is an error; otherwise the first
            reranker answers.
        forgiving: whether requests whose documents could not be ranked at all are answered with the
            order of the request, instead of an error (status 503, or 504 at the deadline). Clients
            may choose per request, by the header ``Secondpass-Strict``.
        issue_messages: whether clients get the messages of issues, which may name internal
            addresses, variables and paths; otherwise their codes and positions, and the last part
            of a local model's path.
        deadline: seconds for a request, from its arrival; at the deadline the best order so far is
            the answer. Clients may set a shorter one, by the header ``Secondpass-Deadline``.
        max_requests: maximum number of running requests; further ones are answered 429.
        max_total_bytes: maximum bytes of the bodies of all running requests; a request beyond is
            answered 429.
        max_bytes: maximum bytes of a body.
        max_candidates: maximum number of candidates in a request.
        max_query_characters: maximum number of characters of a query, and of an instruction.
        max_text_characters: maximum number of characters of a candidate.
        body_timeout: seconds in which the body of a request must arrive.
    """

    api_key_env: Variables = None
    api_key_file: str | None = None
    local_names: bool = False
    strict_models: bool = False
    forgiving: bool = False
    issue_messages: bool = False
    deadline: Annotated[float, Gt(0)] | None = None
    max_requests: Annotated[int, Ge(1)] = 256
    max_total_bytes: Annotated[int, Ge(1)] = 128 * 2**20
    max_bytes: Annotated[int, Ge(1)] = 8 * 2**20
    max_candidates: Annotated[int, Ge(1)] = 1000
    max_query_characters: Annotated[int, Ge(1)] = 20_000
    max_text_characters: Annotated[int, Ge(1)] = 200_000
    body_timeout: Annotated[float, Gt(0)] = 30.0

    def check_host(self, host: str) -> None:
        """Check that other machines cannot reach an address, unless clients must send a key."""
        if not self.demands_key and not is_loopback(host):
            raise ConfigurationError(
                f"--host {host}: other machines can reach it, so clients must send a key: set "
                "--api-key-env or --api-key-file"
            )

    @property
    def demands_key(self) -> bool:
        """Whether clients must send a key."""
        return self.api_key_env is not None or self.api_key_file is not None


def is_loopback(host: str) -> bool:
    """Whether a host name or address is reachable from this machine only."""
    if host.lower() in {"localhost", "localhost."}:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
