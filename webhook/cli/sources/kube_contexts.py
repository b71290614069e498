"""The contexts of a kubeconfig, and the namespace that a command uses without `--namespace`, as kubectl chooses it.

The file is parsed here because the import of the official client takes longer than a check.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tallygate.webhook.errors import TallygateError

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
    configs = list(_read_kubeconfigs(kubeconfig))
    chosen = context or next((name for config in configs if (name := _get_text(config, "current-context"))), "")
    for name, settings in _iterate_contexts(configs):
        if name == chosen:
            return _get_text(settings, "namespace") or _DEFAULT_NAMESPACE
    return _DEFAULT_NAMESPACE


def list_contexts(kubeconfig: Path | None = None) -> list[str]:
    """Return the names of the contexts, in the order of the files.

    Raises:
        KubeconfigError: if a kubeconfig cannot be read.
    """
    return list(dict.fromkeys(name for name, _ in _iterate_contexts(list(_read_kubeconfigs(kubeconfig)))))


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
                f"kubeconfig {path} cannot be read: {reason}; mend it, or name another by $KUBECONFIG"
            ) from error
        if isinstance(content, Mapping):
            yield content


def _iterate_contexts(configs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for config in configs:
        contexts = config.get("contexts")
        for entry in contexts if isinstance(contexts, list) else ():
            if isinstance(entry, Mapping) and (name := _get_text(entry, "name")):
                settings = entry.get("context")
                yield name, settings if isinstance(settings, Mapping) else {}


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
