"""The policy store of a server, with readiness detail, metrics and log lines about reloads."""

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import msgspec

from tallygate.gate.policy_reviews import PolicyReviews
from tallygate.policy import model
from tallygate.policy.load import SHIPPED_POLICIES
from tallygate.policy.store import PolicyStatus, PolicyStore
from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.telemetry.metrics import Telemetry

_MAX_FINDINGS = 20
_NOWHERE = model.SourceLocation("", 0, 0)


class PolicyReloader:
    """A policy store that logs its reloads. Without paths it has the shipped policies.

    Raises:
        tallygate.policy.store.PolicyError: if the files are not a valid policy set.
    """

    def __init__(self, paths: Sequence[Path], telemetry: Telemetry) -> None:
        self._log = telemetry.log
        self._metrics = telemetry.metrics
        self.store = PolicyStore(tuple(paths) or (SHIPPED_POLICIES,), on_change=self._report_change)
        self._reported = self.store.get_policies()
        self._set_metrics(self.store.get_status())
        self._log.info(
            "policies-loaded", **self._get_summary(), warnings=_format_findings(self.store.get_status().warnings)
        )

    def create_reviews(self) -> PolicyReviews:
        """Return the decisions on ConfigMaps with policies, beside the files of this store."""
        return PolicyReviews(self.store.read_files, Lock(), time.time)

    def check(self) -> ReadinessStatus:
        """Return a status that is always ready, since a valid policy set is active.

        The detail names that set, and has the findings of a newer set that was rejected.
        """
        status = self.store.get_status()
        detail = {**self._get_summary(), "loadedAt": status.loaded_at.isoformat(), "generation": status.generation}
        if status.rejected_findings:
            detail["broken"] = _format_findings(status.rejected_findings)
        if status.internal_error:
            detail["crash"] = f"{type(status.internal_error).__name__}: {status.internal_error}"
        return ReadinessStatus("policies", ready=True, detail=detail)

    def _report_change(self, status: PolicyStatus) -> None:
        self._set_metrics(status)
        if status.internal_error:
            self._log.error("policies-crashed", exc_info=status.internal_error, active_digest=status.digest)
        elif status.rejected_findings:
            self._log.error(
                "policies-broken", findings=_format_findings(status.rejected_findings), active_digest=status.digest
            )
        else:
            self._report_loaded(status)

    def _report_loaded(self, status: PolicyStatus) -> None:
        """Log the new set with what is other in it than in the one before, and each cap that it lacks."""
        before, self._reported = self._reported, self.store.get_policies()
        changes = _list_changes(before, self._reported)
        self._log.info("policies-loaded", **self._get_summary(), **changes, warnings=_format_findings(status.warnings))
        for cap in sorted({cap.name for cap in before.caps} - {cap.name for cap in self._reported.caps}):
            self._log.warning("cap-removed", cap=cap, message="it no longer limits pods")

    def _set_metrics(self, status: PolicyStatus) -> None:
        policies = self.store.get_policies()
        self._metrics.policy_broken.set(1 if status.rejected_findings or status.internal_error else 0)
        self._metrics.policy_rules.set(len(policies.rules))
        self._metrics.policy_caps.set(len(policies.caps))

    def _get_summary(self) -> dict[str, object]:
        policies = self.store.get_policies()
        return {"digest": policies.digest, "rules": len(policies.rules), "caps": len(policies.caps)}


def _list_changes(before: model.PolicySet, after: model.PolicySet) -> dict[str, list[str]]:
    old, new = _index_policies(before), _index_policies(after)
    changes = {
        "added": sorted(new.keys() - old.keys()),
        "changed": sorted(name for name in new.keys() & old.keys() if new[name] != old[name]),
        "removed": sorted(old.keys() - new.keys()),
    }
    return {name: policies[:_MAX_FINDINGS] for name, policies in changes.items() if policies}


def _index_policies(policies: model.PolicySet) -> dict[str, object]:
    """Return the policies by kind and name; a policy at another line of its file equals itself."""
    return {
        **{f"rule {rule.name}": _remove_locations(rule) for rule in policies.rules},
        **{f"cap {cap.name}": _remove_locations(cap) for cap in policies.caps},
        **{f"implied request {request.name}": _remove_locations(request) for request in policies.implied_requests},
        **{f"node resource {resource.name}": resource for resource in policies.node_resources},
        **{f"node shape {shape.name}": shape for shape in policies.node_shapes},
        **{f"kind {kind.kind} of {kind.group}": kind for kind in policies.workload_kinds},
    }


def _remove_locations(policy: model.ResourceRule | model.NamespaceCap | model.ImpliedRequest) -> object:
    return msgspec.structs.replace(policy, location=_NOWHERE, locations=model.NO_LOCATIONS)


def _format_findings(findings: Sequence[object]) -> list[str]:
    return [str(finding) for finding in findings[:_MAX_FINDINGS]]
