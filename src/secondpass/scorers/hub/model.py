"""Models by name: whether the hub can be reached, and errors of models that cannot be loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secondpass.errors import (
    ConfigurationError,
    ModelLoadError,
    Problem,
    SecondPassError,
    causes,
)
from secondpass.services.network import environment_text
from secondpass.settings import first_set, variables

_WITHOUT_HUB = (
    "set `model` to a folder with its files, `cache_folder` to a cache that has it, or HF_ENDPOINT "
    "to a mirror; the preset `embedded` needs no hub"
)
"""What to do where the hub does not answer."""

_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True)
class HubModel:
    """A model by its name on the Hugging Face hub, or a local folder.

    Attributes:
        name: the name or the folder.
        revision: branch, tag or commit.
        cache_folder: where downloaded models are stored; None is Hugging Face's own setting.
        token: a hub token; None is Hugging Face's own setting.
        token_source: where the token was given, in words.
        local_files_only: never contact Hugging Face.
    """

    name: str
    revision: str | None = None
    cache_folder: str | None = None
    token: str | None = field(default=None, repr=False)
    local_files_only: bool = False
    token_source: str = "the setting token"

    @property
    def cache(self) -> str | None:
        """The cache folder, or that of sentence-transformers' variable; None is the hub's own."""
        return self.cache_folder or os.environ.get("SENTENCE_TRANSFORMERS_HOME")

    @property
    def is_local(self) -> bool:
        """Whether the name is a local path that exists."""
        return Path(self.name).exists()

    def stamp(self) -> tuple[tuple[str, int, int], ...]:
        """Names, sizes and times of the files in a local folder; empty for a model of the hub."""
        stamps = []
        for path in self.entries():
            try:
                status = path.stat()
            except OSError:  # a link to nothing, or removed meanwhile
                continue
            stamps.append((str(path), status.st_size, status.st_mtime_ns))
        return tuple(stamps)

    def entries(self) -> list[Path]:
        """The paths in a local folder and its subfolders, sorted; empty for a model of the hub."""
        folder = Path(self.name)
        return sorted((*folder.glob("*"), *folder.glob("*/*"))) if self.is_local else []

    def is_offline(self) -> bool:
        """Whether loaders are told to stay offline: the cache has to do, or the hub has no answer.

        For a folder it is the setting ``local_files_only`` alone, since loaders find all in it.
        Loaders try again for up to ten minutes where the hub is overloaded or does not answer. So
        it is asked first, once for each of the two services that they use. If it refuses a model
        that is not in the cache, that is a ModelLoadError.
        """
        if self.local_files_only or self.is_local:
            return self.local_files_only
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

        cached = self._is_cached()
        has_config = False
        try:
            self._ask_for_config()
            has_config = True
            if cached:
                self._ask_for_info()
        except EntryNotFoundError:  # modules in folders below, or an adapter
            return False
        except HfHubHTTPError as error:
            if not cached and (reason := self._refusal(error)) is not None:
                raise ModelLoadError(self._message(reason)) from error
            # Mirrors may have files only. Other errors are reported by the loader.
            bare_404 = type(error) is HfHubHTTPError and error.response.status_code == 404
            return cached and not (has_config and bare_404)
        except Exception:
            return True
        return False

    def why_offline(self) -> str:
        """Why the model had to be in the cache, with what its client takes from the environment."""
        from huggingface_hub import constants

        if self.local_files_only:
            return "the hub was not contacted, as local_files_only is set"
        if constants.HF_HUB_OFFLINE:
            return "the hub was not contacted, as HF_HUB_OFFLINE is set"
        return "; ".join(filter(None, ["the hub did not answer", environment_text(), _WITHOUT_HUB]))

    def _ask_for_config(self) -> None:
        """Ask for the headers of the model's ``config.json``, without another attempt."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import (  # type: ignore[attr-defined]
            build_hf_headers,
            get_session,
            hf_raise_for_status,
        )

        address = hf_hub_url(self.name, "config.json", revision=self.revision)
        headers = build_hf_headers(token=self.token)
        hf_raise_for_status(get_session().head(address, headers=headers, timeout=_TIMEOUT))

    def _ask_for_info(self) -> None:
        """Ask for the description of the model, without another attempt."""
        import huggingface_hub

        huggingface_hub.model_info(
            self.name, revision=self.revision, token=self.token, timeout=_TIMEOUT
        )

    def loader_arguments(
        self, options: Mapping[str, Any], *, device: str, precision: str, offline: bool
    ) -> dict[str, Any]:
        """Arguments for the models of sentence-transformers, besides the name.

        Options are copied, because the constructors change mappings. The precision holds unless
        ``model_kwargs`` has a dtype; ``exact`` is float32, ``checkpoint`` that in which weights are
        stored.
        """
        import torch

        copies = {
            key: dict(value) if isinstance(value, Mapping) else value
            for key, value in options.items()
        }
        model_kwargs = copies["model_kwargs"] = copies.get("model_kwargs") or {}
        if not model_kwargs.keys() & {"dtype", "torch_dtype"}:
            dtypes = {"checkpoint": "auto", "exact": torch.float32}
            model_kwargs["dtype"] = dtypes.get(precision) or getattr(torch, precision)
        return {
            "device": None if device == "auto" else device,
            "cache_folder": self.cache_folder,
            "revision": self.revision,
            "local_files_only": offline,
            "token": self.token,
            **copies,
        }

    @contextmanager
    def loading(self, offline: bool) -> Iterator[None]:
        """Whatever is wrong with the model's files in this block is a ModelLoadError."""
        try:
            yield
        except SecondPassError:
            raise
        except Exception as error:
            raise self.load_error(error, offline) from error

    def load_error(self, error: Exception, offline: bool) -> ModelLoadError:
        """The error to raise instead of a loader's; it contains no token."""
        if not self.is_local and not _is_valid(self.name):
            reason = "no such folder, and no valid name of a model on the hub"
        else:
            reason = self._absence(error, offline) or first_line(error, self.token)
        return ModelLoadError(self._message(reason))

    def _message(self, reason: str) -> str:
        from secondpass.settings.name_hints import hub_name, in_words, rerank_api  # for errors

        hint = ""
        if self.is_local:
            pass
        elif on_hub := hub_name(self.name):
            hint = f"; on the hub its name is {on_hub!r}"
        elif (api := rerank_api(self.name)) is not None:
            method = in_words({"type": "endpoint", **api})
            hint = f"; if it is a model of that rerank API, use the method {method}"
        return f"the model {self.name!r} cannot be loaded: {reason}{hint}"

    def _absence(self, error: Exception, offline: bool) -> str | None:
        """Why there is no model of the hub; None if another error occurred."""
        if self.is_local or not isinstance(error, OSError):
            return None
        refusal = next(filter(None, map(self._refusal, causes(error))), None)
        if refusal is not None or not offline or self._is_cached():
            return refusal
        if self._has_cached_revisions():
            return (
                f"its revision {self.revision or 'main'!r} is not in the cache, and "
                f"{self.why_offline()}"
            )
        return f"no such folder, and {self.why_offline()}"

    def _refusal(self, error: BaseException) -> str | None:
        """What an answer of the hub means; None if it is not one of these."""
        from huggingface_hub.errors import (
            GatedRepoError,
            HfHubHTTPError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )

        token = "HF_TOKEN, or the variable that token_env names"
        if isinstance(error, RevisionNotFoundError):
            return f"it has no revision {self.revision or 'main'!r} on the hub"
        if isinstance(error, GatedRepoError):
            return (
                "its terms have to be accepted: accept them on its page on the hub, and set"
                f" {token}, to a token of that account"
            )
        if isinstance(error, RepositoryNotFoundError):
            absent = "no such folder, and no such model on the hub"
            return f"{absent}, or it needs a token: set {token}"
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
        if status in (401, 403):
            source = self._source_of_token()
            check = f"check the token of {source}" if source else f"set {token}, to a token"
            return f"the hub refused access with status {status}: {check}"
        if status == 429 or status >= 500:
            return f"the hub is overloaded or out of order, with status {status}; try again later"
        return None

    def _source_of_token(self) -> str:
        """Where the token came from that the hub was sent, in words; empty if there is none."""
        if self.token:
            return self.token_source
        from huggingface_hub import constants, get_token

        name = next(filter(os.environ.get, ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")), "")
        if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN or not get_token():
            return ""
        return f"the variable {name}" if name else f"the file {constants.HF_TOKEN_PATH}"

    def _is_cached(self) -> bool:
        from huggingface_hub import try_to_load_from_cache

        try:
            paths = [
                try_to_load_from_cache(
                    self.name, name, cache_dir=self.cache, revision=self.revision
                )
                for name in ("config.json", "modules.json", "adapter_config.json")
            ]
        except Exception:  # not a valid name
            return False
        return any(isinstance(path, str) for path in paths)

    def _has_cached_revisions(self) -> bool:
        from huggingface_hub.constants import HF_HUB_CACHE
        from huggingface_hub.file_download import repo_folder_name

        try:
            folder = repo_folder_name(repo_id=self.name, repo_type="model")
        except ValueError:  # not a valid name
            return False
        return any(Path(self.cache or HF_HUB_CACHE, folder, "snapshots").glob("*"))


def check_token(scorer: Any) -> None:
    """Check that a scorer names one source of its hub token."""
    if scorer.token is not None and scorer.token_env is not None:
        raise ConfigurationError("token, token_env: give one of them")
    _check_is_hub_token(scorer)
    if "token" in (scorer.model_kwargs or {}):
        raise ConfigurationError("model_kwargs.token: name its variable in token_env instead")


_VARIABLES_OF_HUB = frozenset({"HF_API_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
_TOKEN_OF_HUB = "hf_"
"""How tokens of the hub begin."""


def _check_is_hub_token(scorer: Any) -> None:
    """Check that a key that may be that of an API is not sent to the hub.

    It may be one if the model is that of a rerank API or a language model by its name, such as
    ``rerank-v3.5``, and the key is not known to be a token of the hub.
    """
    names, key = variables(scorer.token_env), _TOKEN_OF_HUB
    if scorer.token is not None:
        names = variables(scorer.token.variable)
        key = scorer.token.reveal() if not names else key
    if not (names or scorer.token) or Path(scorer.model).exists():
        return
    if _VARIABLES_OF_HUB.issuperset(names) and key.startswith(_TOKEN_OF_HUB):
        return
    from secondpass.settings.name_hints import language_model, of_key, rerank_api

    if rerank_api(scorer.model) is None and language_model(scorer.model) is None:
        return
    message = f"{scorer.model!r} is the name of an API's model, so the token is not sent to the hub"
    raise ConfigurationError([Problem(("model",), f"{message}; {of_key(scorer.model)}")])


def source_of(scorer: Any) -> HubModel:
    """The model that a scorer's settings name."""
    token, source = None, HubModel.token_source
    for name in variables(scorer.token_env):
        if token := first_set([name]):
            source = f"the variable {name}"
            break
    if scorer.token is not None:
        token = scorer.token.reveal()
        source = f"the variable {name}" if (name := scorer.token.variable) else source
    return HubModel(
        scorer.model, scorer.revision, scorer.cache_folder, token, scorer.local_files_only, source
    )


def _is_valid(name: str) -> bool:
    """Whether a model of the hub can have that name; True if the hub's package is missing."""
    try:
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

        validate_repo_id(name)
    except ImportError:
        return True
    except ValueError:
        return False
    return True


def first_line(error: Exception, token: str | None = None) -> str:
    """The class and the first line of a loader's error. It holds no query and no passage."""
    lines = str(error).strip().splitlines()
    message = lines[0][:200] if lines else ""
    if token:
        message = message.replace(token, "***")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
