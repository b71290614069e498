"""Gathering: everything that a check goes by, read once. What fails is kept as what could not be seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from webhook.admission.capping import CapIndex
from webhook.admission.registration import DEFAULT_NAMESPACE
from webhook.cli.doctoring import watching
from webhook.cli.doctoring.api import Api
from webhook.cli.doctoring.entitlement import answered
from webhook.cli.doctoring.facts import (
    MUTATING,
    VALIDATING,
    Answered,
    Facts,
    Replica,
    Shown,
    Unseen,
    Whereabouts,
)
from webhook.cli.doctoring.lists import Lists
from webhook.cli.doctoring.probing import attempts, where
from webhook.cli.doctoring.records import (
    Account,
    Budget,
    Configuration,
    Definition,
    Deployment,
    GatePod,
    Lease,
    Secret,
)
from webhook.cli.doctoring.rights import DEFAULT_SECRET, LEASE, RIGHTS
from webhook.cli.doctoring.shown import shown as shown_at
from webhook.cli.progress import shown
from webhook.state.kubernetes import naming
from webhook.state.watch.connect import Connection
from webhook.state.watch.pool import PooledTransport

_REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
_SELECTOR = "app.kubernetes.io/name=tallygate,app.kubernetes.io/component=gate"
_CALLED = "tallygate"  # Deployment, Service and ServiceAccount
_MOST_PODS = 50


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked about: the configurations' name, the gate's namespace if it is not to be found out, and more.

    `caps` are those of policy files, `monitors` URLs of monitor ports of replicas that run elsewhere.
    """

    name: str
    namespace: str | None = None
    caps: CapIndex | None = None
    monitors: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def gathered(connection: Connection, wanted: Wanted) -> Facts:
    """Everything there is to know.

    Raises:
        Misuse: the API server does not answer at all.
    """
    api, transport = Api(connection), PooledTransport(connection)
    ahead = api.reached().ahead
    try:
        return _Gathering(api, Lists(transport, api.server), wanted).facts(ahead)
    finally:
        transport.close()


class _Gathering:
    """One gate's."""

    def __init__(self, api: Api, lists: Lists, wanted: Wanted) -> None:
        self._api = api
        self._lists = lists
        self._wanted = wanted
        self._ours = {kind: self._configuration(kind) for kind in (MUTATING, VALIDATING)}
        found = [each for each in self._ours.values() if isinstance(each, Configuration)]
        self._configurations = found
        self._namespace = wanted.namespace or _called_in(found) or DEFAULT_NAMESPACE

    def facts(self, ahead: float | None) -> Facts:
        deployment = self._api.object(f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{_CALLED}", Deployment)
        pods = self._pods()
        spaces = self._lists.spaces()
        here = Whereabouts(self._namespace, self._wanted.name, _secret(deployment), self._wanted.options)
        definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{naming.PLURAL}.{naming.GROUP}"
        lease = self._api.object(f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/{LEASE}", Lease)
        now = datetime.now(UTC)  # beside the Lease, which is judged by it to the second
        return Facts(
            now=now,
            version=version("tallygate"),
            here=here,
            ahead=ahead,
            mutating=self._ours[MUTATING],
            validating=self._ours[VALIDATING],
            others=self._others(),
            spaces=spaces,
            attempts=attempts(self._api, where(self._configurations, spaces)),
            secret=self._api.object(f"/api/v1/namespaces/{self._namespace}/secrets/{here.secret}", Secret),
            served=_served(self._configurations),
            deployment=deployment,
            budgets=self._api.items(f"/apis/policy/v1/namespaces/{self._namespace}/poddisruptionbudgets", Budget),
            pods=pods,
            replicas=self._replicas(pods),
            rights=self._rights(),
            definition=self._api.object(definition, Definition),
            lease=lease,
            quotas=self._lists.quotas(),
            bounds=self._lists.bounds(self._wanted.caps, spaces),
            users=self._lists.users(),
        )

    def _configuration(self, kind: str) -> Configuration | Unseen | None:
        return self._api.object(f"{_REGISTRATIONS}/{kind}s/{self._wanted.name}", Configuration)

    def _others(self) -> tuple[Configuration, ...] | Unseen:
        found = self._api.items(f"{_REGISTRATIONS}/{MUTATING}s", Configuration)
        return found if isinstance(found, Unseen) else tuple(each for each in found if each.name != self._wanted.name)

    def _pods(self) -> tuple[GatePod, ...] | Unseen:
        query = {"labelSelector": _SELECTOR, "limit": f"{_MOST_PODS}"}
        return self._api.items(f"/api/v1/namespaces/{self._namespace}/pods", GatePod, query)

    def _replicas(self, pods: tuple[GatePod, ...] | Unseen) -> tuple[Replica, ...] | Unseen:
        if self._wanted.monitors:
            return tuple(watching.elsewhere(self._wanted.monitors))
        if isinstance(pods, Unseen):
            return pods
        if not pods and any(each.client_config.url for found in self._configurations for each in found.webhooks):
            return Unseen("the gate is called by URL and runs elsewhere; name its monitor port by --monitor URL")
        return tuple(watching.in_cluster(self._api, shown("asking replicas", pods)))

    def _rights(self) -> tuple[Answered, ...] | Unseen:
        account = self._api.object(f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{_CALLED}", Account)
        if account is None:
            return Unseen(f"there is no ServiceAccount {self._namespace}/{_CALLED}")
        return answered(self._api, self._namespace, _CALLED, shown("asking for rights", RIGHTS))


def _called_in(found: Sequence[Configuration]) -> str:
    """The namespace of the Service by which the gate is called; empty where it is not called so."""
    services = (webhook.client_config.service for each in found for webhook in each.webhooks)
    return next((service.namespace for service in services if service), "")


def _secret(deployment: Deployment | Unseen | None) -> str:
    """The Secret that the gate serves with: what it is started with, else what it mounts."""
    if not isinstance(deployment, Deployment):
        return DEFAULT_SECRET
    named = [each.rpartition("/")[2] for each in deployment.arguments if each.startswith("--tls-secret=")]
    mounted = [each.secret.secret_name for each in deployment.spec.template.spec.volumes if each.secret]
    return next(iter((*named, *mounted)), DEFAULT_SECRET)


def _served(found: Sequence[Configuration]) -> Shown | Unseen | None:
    clients = [webhook.client_config for each in found for webhook in each.webhooks]
    urls = [each.url for each in clients if each.url]
    return shown_at(urls[0], {each.ca_bundle for each in clients}) if urls else None
