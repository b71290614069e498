"""The address of the server of asks: an option, a variable, or the ConfigMap that the gate's installation has.

An address of a Service (`NAME.NAMESPACE.svc`) can be reached from inside of the cluster. From outside, the API server
forwards a port to one of its pods; the TLS connection within it is the same, with the name of the Service.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import click
import msgspec

from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.cli.framework import UsageError
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError, ApiErrorReason
from tallygate.kube.client import ApiClient
from tallygate.kube.port_forward import PodPort
from tallygate.kube.resource_codec import create_response_error
from tallygate.state.kubernetes.ask_address_store import ASK_NAME, CA_KEY, URL_KEY

URL_VARIABLE: Final = "TALLYGATE_ASK_URL"
CA_VARIABLE: Final = "TALLYGATE_ASK_CA"
"""The variables of the environment with the values of `--url` and `--ca`."""

_OK, _NOT_FOUND = 200, 404
_SERVICE_HOST: Final = re.compile(r"(?P<service>[a-z0-9]([-a-z0-9]*[a-z0-9])?)\.(?P<namespace>[a-z0-9-]+)\.svc(\..*)?")
_API_SERVER_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"  # the kubelet sets it in each container
_API_SERVER_HOST: Final = re.compile(r"kubernetes(\.default(\.svc(\..*)?)?)?")
_HTTPS_PORT_NAME: Final = "https"

PodPortFinder = Callable[[], PodPort]
"""A function that returns the port of a ready pod."""


class NoGateError(TallygateError):
    """The cluster does not say where a server of asks is."""


@dataclass(frozen=True, slots=True)
class GateAddress:
    """An https URL, and the certificates of the authority in PEM; empty for those that the system trusts.

    `ca_source` is where the certificates are from, in words. `is_forwarded` is set if the API server has to forward a
    port to a pod.
    """

    url: str
    ca: str = ""
    ca_source: str = ""
    is_forwarded: bool = False

    def describe_trust(self) -> str:
        """Return what a user can do about a certificate that is not valid."""
        if self.ca_source:
            return f"It has to be signed by an authority of {self.ca_source}, and to have the name in the URL"
        return "It has to be signed by an authority that this system trusts: name another by --ca"


@dataclass(frozen=True, slots=True)
class GateOptions:
    """The options that say where the server of asks is; each may be missing. `namespace` is that of the gate."""

    url: str | None = None
    ca: Path | None = None
    namespace: str = DEFAULT_NAMESPACE


def create_gate_options(url: str | None = None, ca: Path | None = None, namespace: str | None = None) -> GateOptions:
    """Return options of a command; the address may also be in `TALLYGATE_ASK_URL` and `TALLYGATE_ASK_CA`."""
    if url is None and ca is None:
        url, ca_name = os.environ.get(URL_VARIABLE) or None, os.environ.get(CA_VARIABLE)
        ca = Path(ca_name) if ca_name and url else None
    return GateOptions(url, ca, namespace or DEFAULT_NAMESPACE)


def gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where the server of asks is to a command, which gets them as `address`."""

    @click.option(
        "--url",
        metavar="URL",
        help=f"The address of the gate's server of asks, https://HOST:PORT. Default: ${URL_VARIABLE}, or else that in "
        f"the ConfigMap {ASK_NAME} in the gate's namespace.",
    )
    @click.option(
        "--ca",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help=f"With --url: the certificates, in PEM, of the authority that signs the gate's. Default: ${CA_VARIABLE}, "
        "or else those that this system trusts.",
    )
    @click.option("--gate-namespace", metavar="NAME", help=f"The gate's namespace. Default: {DEFAULT_NAMESPACE}.")
    @wraps(command)
    def choose(*args: Any, url: str | None, ca: Path | None, gate_namespace: str | None, **options: Any) -> Any:
        return command(*args, address=create_gate_options(url, ca, gate_namespace), **options)

    return choose


class _ConfigMapData(msgspec.Struct, frozen=True):
    data: Mapping[str, str] | None = None


class _TargetReference(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Conditions(msgspec.Struct, frozen=True):
    ready: bool | None = None


class _Endpoint(msgspec.Struct, frozen=True, rename="camel"):
    target_ref: _TargetReference | None = None
    conditions: _Conditions = _Conditions()


class _EndpointPort(msgspec.Struct, frozen=True):
    name: str | None = None
    port: int | None = None


class _EndpointSlice(msgspec.Struct, frozen=True):
    endpoints: list[_Endpoint] | None = None
    ports: list[_EndpointPort] | None = None


class _EndpointSlices(msgspec.Struct, frozen=True):
    items: list[_EndpointSlice] = []


def find_address(options: GateOptions, client: ApiClient, *, in_cluster: bool) -> GateAddress:
    """Return the address of the options, else that of the ConfigMap of the cluster.

    Raises:
        UsageError: if an option is not usable.
        NoGateError: if there is no usable ConfigMap, or it cannot be read.
    """
    if options.url is None and options.ca is not None:
        raise UsageError("--ca belongs to --url: the ConfigMap of the gate has an authority of its own")
    if options.url is not None:
        ca = _read_authority(options.ca) if options.ca else ""
        problem = _find_problem(options.url)
        if problem:
            raise UsageError(f"--url {options.url}: {problem}")
        return GateAddress(options.url.rstrip("/"), ca, str(options.ca or ""))
    data, place = _read_config_map(client, options.namespace), f"ConfigMap {options.namespace}/{ASK_NAME}"
    url = data.get(URL_KEY, "").strip().rstrip("/")
    if not url:
        raise NoGateError(f"{place} has no {URL_KEY}: the leading replica of the gate writes it; wait, or see its log")
    if problem := _find_problem(url):
        raise NoGateError(f"{place}: its url {url!r} is not usable: {problem}")
    is_inside = in_cluster or _names_api_server_of_pods(client.server)
    is_service = _SERVICE_HOST.fullmatch(urlsplit(url).hostname or "") is not None
    ca = data.get(CA_KEY, "")
    return GateAddress(url, ca, f"{place}, {CA_KEY}" if ca else "", is_service and not is_inside)


def _names_api_server_of_pods(server: str) -> bool:
    """Return whether a URL is that by which pods reach the API server of their cluster.

    A pod may also have a kubeconfig of another cluster, as in CI: the Services there are out of its reach.
    """
    host = urlsplit(server).hostname or ""
    return host == os.environ.get(_API_SERVER_VARIABLE) or _API_SERVER_HOST.fullmatch(host) is not None


def _find_problem(url: str) -> str:
    """Return why credentials cannot be sent to a URL, empty if they can."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        return f"{error}"
    if parts.scheme == "http":
        return "credentials are sent by https alone"
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme != "https" or not is_whole or not is_plain or parts.username is not None:
        return "write https://HOST:PORT"
    return "write it without ? and #" if parts.query or parts.fragment else ""


def _read_authority(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not PEM"
        raise UsageError(f"--ca {path}: {reason}") from error


def _read_config_map(client: ApiClient, namespace: str) -> Mapping[str, str]:
    place = f"ConfigMap {namespace}/{ASK_NAME}"
    try:
        response = client.get(f"/api/v1/namespaces/{namespace}/configmaps/{ASK_NAME}")
    except ApiError as error:
        raise NoGateError(f"{place} cannot be read at {client.server}: {error}") from error
    if response.status == _OK:
        try:
            return msgspec.json.decode(response.body, type=_ConfigMapData).data or {}
        except (ValueError, RecursionError) as error:
            raise NoGateError(f"{place} is not a ConfigMap: {error}") from None
    if response.status == _NOT_FOUND:
        raise NoGateError(
            f"there is no {place}: no server of asks is installed there. An admin can add it (docs/operate/ask.md); "
            "--gate-namespace names another namespace, and --url another address"
        )
    raise NoGateError(f"{place} cannot be read at {client.server}: {create_response_error(response)}")


def find_pod_port(url: str, client: ApiClient) -> PodPort:
    """Return the port of a ready pod of the Service that a URL names.

    Raises:
        ApiError: if the EndpointSlices of the Service cannot be listed.
        NoGateError: if none of its pods is ready.
    """
    match = _SERVICE_HOST.fullmatch(urlsplit(url).hostname or "")
    if match is None:
        raise NoGateError(f"{url} names no Service")
    service, namespace = match["service"], match["namespace"]
    query = urlencode({"labelSelector": f"kubernetes.io/service-name={service}"})
    response = client.get(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?{query}")
    if response.status != _OK:
        raise create_response_error(response)
    try:
        slices = msgspec.json.decode(response.body, type=_EndpointSlices).items
    except (ValueError, RecursionError) as error:
        raise NoGateError(f"the EndpointSlices of Service {namespace}/{service} cannot be read: {error}") from None
    for each in slices:
        ports = [port for port in each.ports or () if port.port]
        chosen = next((port for port in ports if port.name == _HTTPS_PORT_NAME), ports[0] if ports else None)
        for endpoint in each.endpoints or ():
            target = endpoint.target_ref
            if chosen and chosen.port and target and target.kind == "Pod" and endpoint.conditions.ready is not False:
                return PodPort(namespace, target.name, chosen.port)
    raise NoGateError(f"Service {namespace}/{service} has no ready pod: the server of asks does not run, or not yet")


def describe_missing_right(error: ApiError, url: str) -> str:
    """Return the sentence for a user to whom the API server forwards no port."""
    match = _SERVICE_HOST.fullmatch(urlsplit(url).hostname or "")
    namespace = match["namespace"] if match else DEFAULT_NAMESPACE
    hint = ""
    if error.reason is ApiErrorReason.FORBIDDEN:
        hint = (
            f". From outside of the cluster {url} is asked through the API server, which needs rights in namespace "
            f"{namespace}: list endpointslices.discovery.k8s.io, get and create pods/portforward. An admin can grant "
            "them, or set an address that can be reached from outside (docs/operate/ask.md)"
        )
    return f"{error}{hint}"
