"""The controller by which the gate registers itself with the API server, and ends its registration for good.

An installation creates both webhook configurations without webhooks, and leaves them to the gate by an annotation
(`admission.self_registration`): nothing is rejected before a gate is ready. The controller writes the exact webhooks of
this version when this replica leads, all of its readiness checks pass, a replica is ready behind the Service, and
clients verify the served certificate by a known CA. It restores what differs later. It never creates a configuration:
the deletion of both is the way out in an emergency. A configuration without the annotation belongs to others.

Only the leader writes, so that two versions do not overwrite each other in a rolling upgrade: the newer one leads at
the latest when the older one has ended. The same is true after a step back to an older version, for which a rule such
as "the newest version writes" would leave the webhooks of a version that no longer runs.

The webhooks have match conditions that are made from the policies of the leader, and an annotation lists these
policies. Every replica reads it: a new cap becomes active only after that (`gate.asked_policies`). Conditions become
wider at once. What the leader would drop stays for two minutes: another replica may still have the policy.

The kinds of other projects are registered while the API server serves them. If that cannot be read, the registered ones
stay. A kind that is no longer served stays for half a minute: an API server that has just started may not know all
definitions yet, and a rule for a missing kind matches nothing.

At SIGTERM a replica whose installation is being deleted empties the configurations, since no gate will answer.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from threading import Event
from typing import Final, Protocol

from tallygate.admission import self_registration
from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME
from tallygate.admission.workload_resources import (
    GroupVersionResource,
    ServedResources,
    WorkloadResource,
    read_registered,
    select_resources,
)
from tallygate.errors import TallygateError
from tallygate.kube.api_errors import ApiError
from tallygate.kube.client import ClientConfig
from tallygate.objects.admission_registration import Webhook
from tallygate.server.interfaces import RegistrationFactory, RegistrationParts
from tallygate.server.telemetry.json_log import FailureLog, Logger
from tallygate.server.worker import Worker, WorkerPace, WorkerTask
from tallygate.state.kubernetes.registration_store import Installation, KubernetesRegistrationStore, StoredConfiguration

WITHDRAWAL_SECONDS: Final = 2.0
"""The most time that the withdrawal of the registration takes at SIGTERM."""

_INTERVAL_SECONDS: Final = 5.0  # a kind that is served is registered within ten seconds, in a slow cluster too
_PENDING_INTERVAL_SECONDS: Final = 1.0
_TIMEOUT_SECONDS: Final = 5.0
_MISSING_SECONDS: Final = 30.0  # from the first time that a registered kind is not served until its rule is removed
_KEPT_SECONDS: Final = 120.0  # for which the conditions of a policy stay that the leader does not have
_SETTLING_SECONDS: Final = 3.0  # from the first ready replica until every node routes to it
_MAX_ATTEMPTS: Final = 3  # other clients change the configurations too
_JITTER: Final = 0.2


class RegistrationStore(Protocol):
    """The webhook configurations and the installation of a cluster. Each method raises TallygateError."""

    def read_configurations(self, timeout: float) -> list[StoredConfiguration]:
        """Return the configurations that exist."""
        ...

    def read_installation(self, timeout: float) -> Installation:
        """Return the state of the gate's Deployment and namespace."""
        ...

    def read_served_resources(self, timeout: float) -> ServedResources:
        """Return the resources that the API server serves."""
        ...

    def replace_webhooks(
        self,
        stored: StoredConfiguration,
        webhooks: Sequence[Webhook],
        annotations: Mapping[str, str],
        namespace_uid: str,
        timeout: float,
    ) -> bool:
        """Replace the webhooks of a stored configuration, and add annotations; return whether it was the stored one."""
        ...

    def close(self) -> None:
        """Break a request in progress."""
        ...


@dataclass(frozen=True, slots=True)
class CaSource:
    """The CAs to publish: `read_bundle` returns their PEM, b"" if none is known; `remedy` helps if they do not suit."""

    read_bundle: Callable[[], bytes]
    remedy: str


def create_registration_factory(client_config: ClientConfig, ca_source: CaSource) -> RegistrationFactory:
    """Return a function that creates the controller for the configurations of one API server."""

    def create_registration(parts: RegistrationParts, log: Logger) -> RegistrationController:
        store = KubernetesRegistrationStore(client_config, parts.namespace, CONFIGURATION_NAME)
        return RegistrationController(store, parts, ca_source, log)

    return create_registration


class RegistrationController:
    """The worker that registers the gate. `withdraw` may be called by another thread, once."""

    def __init__(
        self,
        store: RegistrationStore,
        parts: RegistrationParts,
        ca_source: CaSource,
        log: Logger,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._parts = parts
        self._ca_source = ca_source
        self._log = log
        self._monotonic = monotonic
        self._state = self_registration.RegistrationState.WAITING
        self._reason = "this replica has just started"
        self._ready_since: float | None = None
        self._deployment_uid = ""
        self._resources: tuple[WorkloadResource, ...] = ()  # of other projects, as registered
        self._missing_since: dict[GroupVersionResource, float] = {}
        self._dropped_since: dict[str, dict[str, float]] = {}
        self._discovery_failures = FailureLog(
            partial(log.warning, "discovery-failed"), partial(log.info, "discovery-recovered")
        )
        self._is_leaving = Event()
        parts.asked.set_reader(self._read_asked)
        task = WorkerTask(
            name="registration",
            run=self._reconcile,
            failure_log=FailureLog(
                partial(log.warning, "registration-failed"), partial(log.info, "registration-recovered")
            ),
            describe=self._describe,
            interrupt=store.close,
        )
        self.worker = Worker(task, WorkerPace(interval=self._choose_interval, jitter=_JITTER))

    def withdraw(self) -> None:
        """Empty the configurations if the gate's installation is being deleted; take at most 2 s.

        A gate whose Deployment was never seen runs elsewhere, and nothing is known of its end.
        """
        self._is_leaving.set()
        deadline = self._monotonic() + WITHDRAWAL_SECONDS
        try:
            installation = self._store.read_installation(WITHDRAWAL_SECONDS)
            if self._is_removed(installation):
                self._empty_configurations(deadline)
        except TallygateError as error:
            self._log.warning("registration-not-withdrawn", message=str(error))

    def _is_removed(self, installation: Installation) -> bool:
        return installation.is_deleted or (bool(self._deployment_uid) and installation.is_deployment_absent)

    def _empty_configurations(self, deadline: float) -> None:
        for _ in range(_MAX_ATTEMPTS):
            stored = self._store.read_configurations(max(0.0, deadline - self._monotonic()))
            registered = [
                configuration
                for configuration in stored
                if self_registration.is_left_to_gate(configuration.typed) and configuration.typed.webhooks
            ]
            if not registered:
                return
            for configuration in registered:
                timeout = max(0.0, deadline - self._monotonic())
                if self._store.replace_webhooks(configuration, (), {}, "", timeout):
                    self._log.info("registration-withdrawn", kind=configuration.typed.kind)

    def _describe(self) -> dict[str, object]:
        details: dict[str, object] = {"reason": self._reason}
        details["waitingPolicies"] = list(self._parts.asked.list_waiting())
        if self._state is self_registration.RegistrationState.COMPLETE:
            details["workloads"] = [str(resource) for resource in self._resources]
            details["discovery"] = self._discovery_failures.failure
        return {"state": self._state, **{name: detail for name, detail in details.items() if detail}}

    def _choose_interval(self) -> float:
        return (
            _PENDING_INTERVAL_SECONDS
            if self._state is self_registration.RegistrationState.WAITING
            else _INTERVAL_SECONDS
        )

    def _set_state(self, state: self_registration.RegistrationState, reason: str = "") -> None:
        self._state, self._reason = state, reason

    def _reconcile(self) -> bool:
        """Complete the configurations that are left to the gate, and return True; return False while it ends."""
        if self._is_leaving.is_set():
            return False
        installation = self._store.read_installation(_TIMEOUT_SECONDS)
        self._deployment_uid = installation.deployment_uid or self._deployment_uid
        stored, ours = self._read_configurations()
        if not self._parts.is_leader():
            self._set_state(self_registration.RegistrationState.STANDBY, "the leader registers the gate")
            return True
        if not ours:
            self._set_state(
                self_registration.RegistrationState.NOT_OURS if stored else self_registration.RegistrationState.ABSENT
            )
            return True
        try:
            if obstacle := self._find_obstacle(ours, installation):
                self._set_state(self_registration.RegistrationState.WAITING, obstacle)
                return True
            served = self._read_served(ours)
            completed = {our.typed.kind: self._complete(our, stored, installation, served) for our in ours}
        except TallygateError as error:
            self._set_state(self_registration.RegistrationState.WAITING, str(error))
            raise
        incomplete = [kind for kind, resources in completed.items() if resources is None]
        if incomplete:
            self._set_state(
                self_registration.RegistrationState.WAITING,
                f"another client has changed the {' and the '.join(incomplete)}",
            )
        else:
            self._resources = tuple(
                dict.fromkeys(resource for resources in completed.values() for resource in resources or ())
            )
            self._set_state(self_registration.RegistrationState.COMPLETE)
        return True

    def _read_configurations(self) -> tuple[list[StoredConfiguration], list[StoredConfiguration]]:
        """Return the stored configurations, and those that are left to the gate; note what they ask about.

        A gate that may not read them does not register itself.
        """
        try:
            stored = self._store.read_configurations(_TIMEOUT_SECONDS)
        except ApiError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                self._parts.asked.update(None)
            raise
        ours = [configuration for configuration in stored if self_registration.is_left_to_gate(configuration.typed)]
        typed = [our.typed for our in ours]
        self._parts.asked.update(self_registration.combine_asked(typed) if typed else None)
        return stored, ours

    def _read_asked(self) -> None:
        self._read_configurations()

    def _find_obstacle(self, ours: list[StoredConfiguration], installation: Installation) -> str:
        """Return why the gate must not be registered now; empty if it may be."""
        unready = [status.name for status in self._parts.list_statuses() if not status.ready]
        if unready:
            return f"this replica is not ready: {', '.join(unready)}"
        if self._is_removed(installation):
            return "the gate is being removed"
        if all(our.typed.webhooks or self_registration.parse_choices(our.typed).url for our in ours):
            return ""
        if not installation.ready_replicas:
            self._ready_since = None
            return f"no replica of the Deployment in {self._parts.namespace} is ready"
        now = self._monotonic()
        self._ready_since = now if self._ready_since is None else self._ready_since
        is_settled = now - self._ready_since >= _SETTLING_SECONDS
        return "" if is_settled else "a replica is ready, and soon reached by its Service"

    def _read_served(self, ours: Iterable[StoredConfiguration]) -> ServedResources | None:
        """Return the served resources and those that are missing for a short time; None if they cannot be read."""
        try:
            served = self._store.read_served_resources(_TIMEOUT_SECONDS)
        except TallygateError as error:
            self._discovery_failures.update(str(error))
            return None
        self._discovery_failures.update("")
        return {**served, **self._list_missing(ours, served)}

    def _list_missing(self, ours: Iterable[StoredConfiguration], served: ServedResources) -> ServedResources:
        """Return the registered resources of which no version is served, for a short time."""
        now, present = self._monotonic(), {(group, plural) for group, _, plural in served}
        missing = {
            key: is_namespaced
            for our in ours
            for key, is_namespaced in read_registered(our.typed).items()
            if (key[0], key[2]) not in present
        }
        self._missing_since = {key: self._missing_since.get(key, now) for key in missing}
        return {key: kinds for key, kinds in missing.items() if now - self._missing_since[key] < _MISSING_SECONDS}

    def _list_kept(self, configuration: StoredConfiguration, conditions: MatchConditions) -> frozenset[str]:
        """Return the digests that are stored and that this replica does not have: for some time, or while recorded."""
        kind, now = configuration.typed.kind, self._monotonic()
        before = self._dropped_since.get(kind, {})
        dropped = self_registration.read_asked(configuration.typed).keys() - conditions.digests
        since = self._dropped_since[kind] = {digest: before.get(digest, now) for digest in dropped}
        if self._parts.has_foreign_record():
            return frozenset(dropped)
        return frozenset(digest for digest, first in since.items() if now - first < _KEPT_SECONDS)

    def _complete(
        self,
        configuration: StoredConfiguration,
        stored: list[StoredConfiguration],
        installation: Installation,
        served: ServedResources | None,
    ) -> tuple[WorkloadResource, ...] | None:
        """Write the exact webhooks into a configuration that differs.

        Return the resources of other projects in them; None if they could not be written. If the served resources are
        unknown, those that are registered stay.
        """
        choices = self_registration.parse_choices(configuration.typed)
        tokens = self._parts.get_tokens()
        known_bundles = list(dict.fromkeys(_list_bundles([configuration, *stored])))
        registered = read_registered(configuration.typed)
        resources = select_resources(self._parts.list_workload_kinds(), registered if served is None else served)
        conditions = self._parts.asked.get_conditions(gives_devices=self._parts.gives_devices())
        kept = self._list_kept(configuration, conditions)
        webhooks = self_registration.create_webhooks(
            configuration.typed,
            choices,
            namespace=self._parts.namespace,
            token=tokens[0].decode("ascii") if tokens else "",
            choose_bundle=_BundleChoice(self._parts, self._ca_source, choices, known_bundles).choose,
            workload_resources=resources,
            conditions=conditions,
            keeps_stored=bool(kept),
        )
        asked: dict[str, str] = {}
        if self_registration.EVERYTHING not in kept:
            numbers = self_registration.read_asked(configuration.typed)
            number = (configuration.content["metadata"].get("generation") or 0) + 1
            listed = {digest: numbers.get(digest, number) for digest in conditions.digests | kept}
            asked[self_registration.ASKED_ANNOTATION] = self_registration.format_asked(listed)
        is_listed = not asked.items() - (configuration.typed.metadata.annotations or {}).items()
        if webhooks == configuration.typed.webhooks and is_listed:
            return resources
        if self._is_leaving.is_set() or not self._store.replace_webhooks(
            configuration, webhooks, asked, installation.namespace_uid, _TIMEOUT_SECONDS
        ):
            return None
        self._log.info(
            "registered", kind=configuration.typed.kind, webhooks=len(webhooks), **_list_changes(registered, resources)
        )
        return resources


def _list_changes(registered: ServedResources, resources: Iterable[WorkloadResource]) -> dict[str, list[str]]:
    """Return the added and the removed resources of other projects, without empty lists."""
    before = {f"{plural}.{version}.{group}" for group, version, plural in registered}
    after = {str(resource) for resource in resources}
    changes = {"added": sorted(after - before), "removed": sorted(before - after)}
    return {name: names for name, names in changes.items() if names}


class _BundleChoice:
    """The choice of the `caBundle` of each webhook of a configuration."""

    def __init__(
        self,
        parts: RegistrationParts,
        ca_source: CaSource,
        choices: self_registration.RegistrationChoices,
        known_bundles: list[bytes],
    ) -> None:
        self._parts = parts
        self._ca_source = ca_source
        self._host = choices.get_host(parts.namespace)
        self._known_bundles = known_bundles
        self._problems: dict[bytes, str] = {}

    def choose(self, stored_bundle: bytes) -> bytes:
        """Return the first bundle that verifies the certificate: the stored one, the gate's, that of another webhook.

        A stored bundle stays, since its publisher knows the next CA: the gate's rotation, an administrator, or
        cert-manager's injector.

        Raises:
            RegistrationError: if the certificate verifies by none.
        """
        own_bundle = self._ca_source.read_bundle()
        for bundle in (stored_bundle, own_bundle, *self._known_bundles):
            if bundle and not self._find_problem(bundle):
                return bundle
        problem = self._find_problem(own_bundle) if own_bundle else "no CA is known for the served certificate"
        raise self_registration.RegistrationError(f"{problem}: {self._ca_source.remedy}")

    def _find_problem(self, bundle: bytes) -> str:
        if bundle not in self._problems:
            self._problems[bundle] = self._parts.find_trust_problem(bundle, self._host)
        return self._problems[bundle]


def _list_bundles(configurations: Iterable[StoredConfiguration]) -> Iterable[bytes]:
    bundles = (webhook.client_config.ca_bundle for stored in configurations for webhook in stored.typed.webhooks)
    return filter(None, bundles)
