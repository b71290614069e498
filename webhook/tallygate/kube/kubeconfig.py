"""The contexts of a kubeconfig, the namespace that a command uses by default, and whom the user impersonates.

All are chosen as kubectl chooses them. The file is parsed here because the import of the official client takes longer
than a check, and because that client passes over impersonation.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tallygate.errors import TallygateError
from tallygate.kube.impersonation import Impersonation, parse_impersonation

_DEFAULT_NAMESPACE = "default"
_POD_NAMESPACE_VARIABLE = "POD_NAMESPACE"
_SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class KubeconfigError(TallygateError):
    """A kubeconfig that cannot be read."""


def find_default_namespace(kubeconfig: Path | None = None, context: str | None = None, *, in_cluster: bool) -> str:
    """Return the namespace of the context, that of the pod with `in_cluster`, or `default` (client-go, clientcmd).

    Raises:
        KubeconfigError: if a kubeconfig cannot be read.
    """
    if in_cluster:
        return _find_pod_namespace()
    settings = _find_context(list(_read_kubeconfigs(kubeconfig)), context)
    return _get_text(settings, "namespace") or _DEFAULT_NAMESPACE


def find_impersonation(kubeconfig: Path | None = None, context: str | None = None) -> Impersonation:
    """Return whom the user of the context impersonates.

    Raises:
        KubeconfigError: if a kubeconfig cannot be read.
        ImpersonationError: if a field of the user has another type than in Kubernetes.
    """
    configs = list(_read_kubeconfigs(kubeconfig))
    chosen = _get_text(_find_context(configs, context), "user")
    users = (user for name, user in _iterate_entries(configs, "users", "user") if name == chosen)
    return parse_impersonation(next(users, {}))


def list_contexts(kubeconfig: Path | None = None) -> list[str]:
    """Return the names of the contexts, in the order of the files.

    Raises:
        KubeconfigError: if a kubeconfig cannot be read.
    """
    configs = list(_read_kubeconfigs(kubeconfig))
    return list(dict.fromkeys(name for name, _ in _iterate_entries(configs, "contexts", "context")))


def _read_kubeconfigs(kubeconfig: Path | None) -> Iterator[Mapping[str, Any]]:
    """Yield the files of `kubeconfig`, $KUBECONFIG or ~/.kube/config that exist; the first one has priority."""
    names = os.environ.get("KUBECONFIG", "").split(os.pathsep) if kubeconfig is None else [str(kubeconfig)]
    for path in [Path(name) for name in names if name] or [Path.home() / ".kube" / "config"]:
        try:
            content = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
            raise KubeconfigError(
                f"kubeconfig {path} cannot be read: {reason}; correct it, or name another by $KUBECONFIG"
            ) from error
        if isinstance(content, Mapping):
            yield content


def _find_context(configs: Sequence[Mapping[str, Any]], context: str | None) -> Mapping[str, Any]:
    chosen = context or next((name for config in configs if (name := _get_text(config, "current-context"))), "")
    found = (settings for name, settings in _iterate_entries(configs, "contexts", "context") if name == chosen)
    return next(found, {})


def _iterate_entries(
    configs: Sequence[Mapping[str, Any]], list_key: str, entry_key: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names and contents of a named list; of equal names the first one counts."""
    for config in configs:
        entries = config.get(list_key)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping) and (name := _get_text(entry, "name")):
                content = entry.get(entry_key)
                yield name, content if isinstance(content, Mapping) else {}


def _get_text(mapping: Mapping[str, Any], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""


def _find_pod_namespace() -> str:
    """Return the namespace of this pod, as client-go finds it."""
    if name := os.environ.get(_POD_NAMESPACE_VARIABLE):
        return name
    try:
        return _SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip() or _DEFAULT_NAMESPACE
    except (OSError, UnicodeDecodeError):
        return _DEFAULT_NAMESPACE
