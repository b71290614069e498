"""The words that a shell offers for contexts, namespaces, pods and caps: from kubeconfigs, policies and the cluster.

A completion never fails, prints no message, and waits at most `_MAX_SECONDS` for a cluster.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.shell_completion import CompletionItem

from tallygate.cli.connection import OPTION_FLAGS, Connection, create_connection
from tallygate.kube.kubeconfig import list_contexts

if TYPE_CHECKING:
    from tallygate.kube.client import ApiClient

GIVEN_OPTIONS = "tallygate.cli.global_options"
"""The key in the context for the options that stand before the command: pairs of a flag and its words."""

_REPEATED_FLAGS = {"--as-group", "--as-user-extra"}
_MAX_SECONDS = 2.0
_MAX_ITEMS = 500
_MAX_BYTES = 16 * 1024 * 1024
_OK = 200


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True):
    cap: str = ""


class _Item(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


class _ItemList(msgspec.Struct, frozen=True):
    items: list[_Item] = []


def complete_context(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    kubeconfig = _find_option(ctx, "kubeconfig")
    path = Path(kubeconfig) if kubeconfig else None
    return _create_items(_call_silently(lambda: list_contexts(path)), incomplete)


def complete_namespace(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = _list_in_time(ctx, lambda client: _list_names(client, "/api/v1/namespaces"))
    return _create_items(names, incomplete)


def complete_pod(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the pending pods of the namespace as `pod/NAME`, or the files of manifests."""
    if not incomplete.startswith(("p", "pod/")) and incomplete:
        return [CompletionItem(incomplete, type="file")]
    connection = _find_connection(ctx)
    waiting = {"fieldSelector": "spec.nodeName=,status.phase=Pending"}

    def list_pods(client: "ApiClient") -> list[str]:
        namespace = connection.choose_namespace(_find_option(ctx, "namespace"))
        return [f"pod/{name}" for name in _list_names(client, f"/api/v1/namespaces/{namespace}/pods", waiting)]

    pods = _create_items(_list_in_time(ctx, list_pods), incomplete)
    return pods if incomplete.startswith("pod/") else [*pods, CompletionItem(incomplete, type="file")]


def complete_cap(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the caps of `--policies`, or those of the CapLedgers of the cluster."""
    paths = _find_option(ctx, "policies")
    names = _call_silently(lambda: _list_caps_of_policies(paths)) if paths else _list_in_time(ctx, _list_caps)
    return _create_items(names, incomplete)


def _list_caps_of_policies(paths: Iterable[Path]) -> list[str]:
    from tallygate.policy.load import load_policies  # noqa: PLC0415  most completions read no policy

    return [cap.name for cap in load_policies(tuple(paths)).policies.caps]


def _list_caps(client: "ApiClient") -> list[str]:
    from tallygate.cluster.cap_ledger_list import LEDGERS_PATH  # noqa: PLC0415  its import is slow

    return [item.spec.cap.rpartition("-")[0] for item in _list_items(client, LEDGERS_PATH)]


def _list_names(client: "ApiClient", path: str, query: Mapping[str, str] | None = None) -> list[str]:
    from tallygate.kube.client import METADATA_LIST  # noqa: PLC0415  its import is slow

    return [item.metadata.name for item in _list_items(client, path, query, accept=METADATA_LIST)]


def _list_items(
    client: "ApiClient", path: str, query: Mapping[str, str] | None = None, *, accept: str = "application/json"
) -> list[_Item]:
    response = client.get(path, {"limit": str(_MAX_ITEMS), **(query or {})}, accept=accept)
    return msgspec.json.decode(response.body, type=_ItemList).items if response.status == _OK else []


def _list_in_time(ctx: click.Context, list_names: Callable[["ApiClient"], list[str]]) -> list[str]:
    """Return what `list_names` lists in the cluster, nothing after an error or `_MAX_SECONDS`; nothing is printed.

    The thread is a daemon: a program that provides credentials may wait for its user. It leaves `sys.stderr` alone,
    since it may end long after this function.
    """
    answers = SimpleQueue[list[str]]()
    connection = _find_connection(ctx)
    thread = Thread(target=lambda: answers.put(_list_or_nothing(lambda: _connect(connection, list_names))), daemon=True)

    def wait() -> list[str]:
        thread.start()
        return answers.get(timeout=_MAX_SECONDS)

    return _call_silently(wait)


def _connect(connection: Connection, list_names: Callable[["ApiClient"], list[str]]) -> list[str]:
    from tallygate.kube.client import ApiClient, ResponseLimits  # noqa: PLC0415  its import is slow

    limits = ResponseLimits(_MAX_SECONDS, _MAX_SECONDS, _MAX_SECONDS, _MAX_BYTES)
    client = ApiClient(connection.load(), limits)
    try:
        return list_names(client)
    finally:
        client.close()


def _call_silently(list_names: Callable[[], list[str]]) -> list[str]:
    """Return the names, none after any error; nothing is printed."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):  # noqa: PTH123
        return _list_or_nothing(list_names)


def _list_or_nothing(list_names: Callable[[], list[str]]) -> list[str]:
    """Return the names, none after any error."""
    try:
        return list_names()
    except Exception:  # noqa: BLE001  a shell would show the error in the middle of the user's line
        return []


def _find_connection(ctx: click.Context) -> Connection:
    return create_connection({name: _find_option(ctx, name) for name in OPTION_FLAGS})


def _find_option(ctx: click.Context, name: str) -> Any:
    if value := ctx.params.get(name):
        return value
    flag = OPTION_FLAGS.get(name, f"--{name}")
    values = [words[-1] for given, words in ctx.meta.get(GIVEN_OPTIONS, ()) if given == flag]
    return values if flag in _REPEATED_FLAGS else (values or [None])[-1]


def _create_items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(set(names)) if name and name.startswith(incomplete)]
