"""The policies in force as those who run the server see them: readiness detail, metrics, log lines."""

from collections.abc import Sequence
from pathlib import Path

from webhook.policy.load import SHIPPED_POLICIES
from webhook.policy.store import PolicyStatus, PolicyStore
from webhook.server.interfaces import ReadinessStatus
from webhook.server.telemetry.metrics import Telemetry

_MAX_FINDINGS = 20


def get_policy_paths(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The paths themselves, or the shipped policies when there are none."""
    return tuple(paths) or (SHIPPED_POLICIES,)


class PolicyReloader:
    """A policy store that says what it does.

    Raises:
        webhook.policy.store.PolicyError: the files say no usable set.
    """

    def __init__(self, paths: Sequence[Path], telemetry: Telemetry) -> None:
        self._log = telemetry.log
        self._metrics = telemetry.metrics
        self.store = PolicyStore(get_policy_paths(paths), on_change=self._report_change)
        self._set_metrics(self.store.get_status())
        self._log.info(
            "policies-loaded", **self._get_summary(), warnings=_format_findings(self.store.get_status().warnings)
        )

    def check(self) -> ReadinessStatus:
        """Always ready, since some good set is in force; the detail says which, and what is wrong with a newer one."""
        status = self.store.get_status()
        detail = {**self._get_summary(), "loadedAt": status.loaded_at.isoformat(), "generation": status.generation}
        if status.rejected_findings:
            detail["broken"] = _format_findings(status.rejected_findings)
        if status.internal_error:
            detail["crash"] = f"{type(status.internal_error).__name__}: {status.internal_error}"
        return ReadinessStatus("policies", ready=True, detail=detail)

    def _report_change(self, status: PolicyStatus) -> None:
        self._metrics.count_policy_reload(success=not (status.rejected_findings or status.internal_error))
        self._set_metrics(status)
        if status.internal_error:
            self._log.error("policies-crashed", exc_info=status.internal_error, in_force=status.digest)
        elif status.rejected_findings:
            self._log.error(
                "policies-broken", findings=_format_findings(status.rejected_findings), in_force=status.digest
            )
        else:
            self._log.info("policies-loaded", **self._get_summary(), warnings=_format_findings(status.warnings))

    def _set_metrics(self, status: PolicyStatus) -> None:
        policies = self.store.get_policies()
        self._metrics.policy_loaded_at.set(status.loaded_at.timestamp())
        self._metrics.policy_broken.set(1 if status.rejected_findings or status.internal_error else 0)
        self._metrics.policy_rules.set(len(policies.rules))
        self._metrics.policy_caps.set(len(policies.caps))

    def _get_summary(self) -> dict[str, object]:
        policies = self.store.get_policies()
        return {"digest": policies.digest, "rules": len(policies.rules), "caps": len(policies.caps)}


def _format_findings(findings: Sequence[object]) -> list[str]:
    """The first few, as text."""
    return [str(finding) for finding in findings[:_MAX_FINDINGS]]
