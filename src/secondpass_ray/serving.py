"""The application of ``secondpass serve`` on Ray Serve."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from secondpass import ConfigurationError
from secondpass.settings import describe, from_mapping, suggestion
from secondpass.settings.loading import read, states_depth
from secondpass_ray.configurations import check_keys
from secondpass_server.http.settings import ServerSettings

if TYPE_CHECKING:
    from ray.serve import Application

Source: TypeAlias = str | PathLike[str] | Mapping[str, Any]

_RETRY_AFTER = 1.0
"""Seconds after which a client may retry when Serve's proxy is overloaded."""
_TARGET = 16
"""Running requests per replica at which Serve scales. Its default, 2, is for replicas that process
requests one by one; here, running requests share batches."""
_GRACE = 30.0
"""Seconds for running requests to finish before their replica is stopped."""
_SURGE = 25
"""Percentage of replicas, at least one, that a rolling update may start before it stops others.
With Serve's default, 0, a single replica would be stopped before its successor runs."""


def deployment(
    config: Source | None = None,
    *,
    models: Mapping[str, Source] | None = None,
    settings: ServerSettings | Mapping[str, Any] | None = None,
    **options: Any,
) -> Application:
    """The application of ``secondpass serve``, to be run by Ray Serve.

    ::

        from ray import serve
        from secondpass_ray import deployment

        serve.run(deployment("embedded", autoscaling_config={"min_replicas": 1, "max_replicas": 8}))

    Each replica builds its rerankers in its own process, from mappings; it reads keys from its own
    environment. Without keys of clients (`api_key_env` or `api_key_file` in the settings), only
    clients on the machine of the proxy are answered.

    Args:
        config: name of a preset, path of a YAML file, or a configuration. A file is read here.
        models: several of these instead, by the model names that clients send; the first one is
            used for all other names.
        settings: limits, keys and defaults, as for ``secondpass serve``.
        options: arguments of ``ray.serve.deployment``, such as `num_replicas`,
            `autoscaling_config` and `ray_actor_options`. `max_ongoing_requests` (running on a
            replica) and `max_queued_requests` (waiting in each proxy) default to the `max_requests`
            of the settings. Further requests are answered 429 with ``Retry-After``.

    Returns:
        A bound application, for ``serve.run``.

    Raises:
        ConfigurationError: there is no preset or file of that name; a configuration holds a key
            instead of the name of its variable; or a setting is wrong. Errors that only a replica
            can detect, such as a variable that is not set, are in its log.
        MissingExtraError: Ray is not installed.
    """
    from ray import serve

    from secondpass_ray.replica import RerankServer

    if (config is None) == (models is None):
        raise ConfigurationError("give either a configuration or models")
    sources = {_name(config): config} if config is not None else dict(models or {})
    if not sources:
        raise ConfigurationError("models: give at least one")
    configurations = {name: _portable(name, source) for name, source in sources.items()}
    unstated = [name for name, source in sources.items() if not states_depth(source)]
    known = _settings(settings)
    scaling = options.pop("autoscaling_config", None)
    if isinstance(scaling, Mapping):
        scaling = {"target_ongoing_requests": _TARGET, **scaling}
    defaults = {
        "name": "secondpass",
        "max_ongoing_requests": known.max_requests,
        "max_queued_requests": known.max_requests,
        "backpressure_config": {"status_code": 429, "retry_after_s": _RETRY_AFTER},
        "graceful_shutdown_timeout_s": _GRACE,
        "max_surge_percent": _SURGE,
        "logging_config": {"enable_access_log": False},
        **({} if scaling is None else {"autoscaling_config": scaling}),
    }
    kind = serve.deployment(**{**defaults, **options})(RerankServer)
    bound: Application = kind.bind(configurations, dataclasses.asdict(known), unstated)
    return bound


def app_builder(args: dict[str, Any]) -> Application:
    """:func:`deployment` from the ``args`` of an application in a configuration file of Serve.

    ::

        applications:
          - name: rerank
            route_prefix: /
            import_path: secondpass_ray:app_builder
            args:
              config: embedded
              settings: {api_key_env: RERANK_KEYS}

    Args:
        args: parameters of :func:`deployment`. Other options of Serve stand in the file itself,
            under ``deployments``, for the deployment ``secondpass``.

    Raises:
        ConfigurationError: as for :func:`deployment`, or there is no such parameter.
    """
    known = ["config", "models", "settings"]
    for name in args:
        if name not in known:
            raise ConfigurationError(f"args: there is no {name!r}{suggestion(name, known)}")
    return deployment(args.get("config"), models=args.get("models"), settings=args.get("settings"))


def _name(source: Source) -> str:
    """The name of the only model: that of the preset, or of the file without its suffix."""
    return "default" if isinstance(source, Mapping) else Path(fspath(source)).stem


def _portable(name: str, source: Source) -> dict[str, Any]:
    """A configuration with names of variables instead of keys."""
    config, about = read(source)
    check_keys(config, f"{about} of the model {name!r}")
    return config


def _settings(settings: ServerSettings | Mapping[str, Any] | None) -> ServerSettings:
    if settings is None or isinstance(settings, ServerSettings):
        return settings or ServerSettings()
    if not isinstance(settings, Mapping):
        raise ConfigurationError(f"settings: give a mapping, not {describe(settings)}")
    try:
        known: ServerSettings = from_mapping(ServerSettings, settings)
    except ConfigurationError as error:
        problems = [problem.under(("settings",)) for problem in error.problems]
        raise ConfigurationError(problems) from None
    return known
