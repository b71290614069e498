"""A store of configurations in memory, and the gate around the controller; certificates and handshakes are real."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tallygate.admission.match_conditions import list_policies
from tallygate.admission.self_registration import RegistrationState
from tallygate.admission.workload_resources import ServedResources
from tallygate.errors import TallygateError
from tallygate.gate.asked_policies import AskedPolicies
from tallygate.objects.admission_registration import Webhook, encode_webhook
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.model import PolicySet
from tallygate.policy.workload_kinds import WorkloadKind
from tallygate.server.controllers.registration_controller import (
    CaSource,
    RegistrationController,
)
from tallygate.server.https.tls_files import find_trust_problem, read_certificates
from tallygate.server.interfaces import ReadinessStatus, RegistrationParts
from tallygate.server.telemetry.json_log import LineWriter, create_logger
from tallygate.state.kubernetes.registration_store import Installation, StoredConfiguration
from tests.admission.plain_configurations import to_typed

NOW = datetime.now(UTC)
READY = Installation("deployment-1", "namespace-1", ready_replicas=1)
REMOVED = Installation("", "namespace-1", is_deployment_absent=True)


class MemoryRegistrationStore:
    """Configurations by kind, the state of the installation, and the number of writes that find another version."""

    def __init__(self, *stored: dict[str, Any]) -> None:
        self.stored = {each["kind"]: each for each in stored}
        self.installation = READY
        self.conflicts = 0
        self.failure = ""
        self.owners: list[str] = []
        self.served: dict[tuple[str, str, str], bool] = {}
        self.discovery_failure = ""
        self.before_write: Callable[[], None] = lambda: None

    def read_configurations(self, _timeout: float) -> list[StoredConfiguration]:
        """Return copies of the configurations."""
        if self.failure:
            raise TallygateError(self.failure)
        return [StoredConfiguration(content, to_typed(content)) for content in deepcopy(list(self.stored.values()))]

    def read_installation(self, _timeout: float) -> Installation:
        """Return the state of the installation."""
        return self.installation

    def read_served_resources(self, _timeout: float) -> ServedResources:
        """Return the served resources."""
        if self.discovery_failure:
            raise TallygateError(self.discovery_failure)
        return dict(self.served)

    def replace_webhooks(
        self,
        stored: StoredConfiguration,
        webhooks: Sequence[Webhook],
        annotations: Mapping[str, str],
        namespace_uid: str,
        _timeout: float,
    ) -> bool:
        """Replace the webhooks and add the annotations, unless a conflict is set."""
        self.before_write()
        if self.conflicts:
            self.conflicts -= 1
            return False
        content = self.stored[stored.typed.kind]
        content["webhooks"] = list(map(encode_webhook, webhooks))
        content["metadata"]["generation"] = content["metadata"].get("generation", 0) + 1
        content["metadata"]["annotations"] |= annotations
        self.owners.append(namespace_uid)
        return True

    def close(self) -> None:
        """Do nothing: no request is in progress."""

    def list_names(self) -> list[list[str]]:
        """Return the names of the webhooks of each configuration."""
        return [[each["name"] for each in stored.get("webhooks") or ()] for stored in self.stored.values()]


class Gate:
    """The gate around the controller: its certificate, its CA bundle, its readiness and its clock."""

    def __init__(self, folder: Path, store: MemoryRegistrationStore) -> None:
        self.folder = folder
        self.store = store
        self.bundle = (folder / "ca.crt").read_bytes()
        self.unready: Sequence[str] = ()
        self.is_leader = True
        self.kinds: Sequence[WorkloadKind] = KNOWN_KINDS
        self.policies = PolicySet()
        self.has_foreign_record = False
        self.seconds = 100.0
        self.log = io.BytesIO()
        self._lines = LineWriter(self.log)
        self.asked = AskedPolicies(lambda: self.policies, lambda: self.seconds)
        parts = RegistrationParts(
            namespace="here",
            get_tokens=tuple,
            find_trust_problem=self._find_trust_problem,
            is_leader=lambda: self.is_leader,
            list_statuses=lambda: [ReadinessStatus(name, ready=False) for name in self.unready],
            list_workload_kinds=lambda: self.kinds,
            asked=self.asked,
            has_foreign_record=lambda: self.has_foreign_record,
        )
        logger = create_logger("info", line_writer=self._lines)
        self.controller = RegistrationController(
            store, parts, CaSource(lambda: self.bundle, "add the CA"), logger, lambda: self.seconds
        )

    def _find_trust_problem(self, bundle: bytes, host: str) -> str:
        certificates = read_certificates(self.folder / "tls.crt", self.folder / "tls.key")
        return find_trust_problem(certificates, bundle, host)

    def run(self, seconds: float = 0.0) -> dict[str, Any]:
        """Run the controller once after a time, and return its details."""
        self.seconds += seconds
        self.controller.worker.run_once()
        return dict(self.controller.worker.check().detail)

    def list_logged(self, event: str) -> list[dict[str, Any]]:
        """Return the logged lines of an event."""
        self._lines.flush()
        return [line for each in self.log.getvalue().splitlines() if (line := json.loads(each))["event"] == event]

    def register(self) -> None:
        """Run the controller until the Service is known to route to a ready replica, and it has registered the gate.

        Its policies wait until the controller reads what it has written.
        """
        self.run()
        waiting = sorted(policy.name for policy in list_policies(self.policies))
        details = {"waitingPolicies": waiting} if waiting else {}
        assert self.run(5) == details | {"state": RegistrationState.COMPLETE}

    def register_with(self, workloads: list[str]) -> None:
        """Run the controller until the gate is registered for these resources of other projects."""
        self.run()
        assert self.run(5) == {"state": RegistrationState.COMPLETE, "workloads": workloads}
