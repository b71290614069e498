"""The policies in force as those who run the server see them: readiness detail, metrics, log lines."""

from collections.abc import Sequence
from pathlib import Path

from webhook.policy.load import SHIPPED
from webhook.policy.store import PolicyStore, Status
from webhook.server.ports import Check
from webhook.server.voice import Voice

_MOST_FINDINGS = 20


def paths_in_force(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The paths themselves, or the shipped policies when there are none."""
    return tuple(paths) or (SHIPPED,)


class LivePolicies:
    """A policy store that says what it does.

    Raises:
        webhook.policy.store.PolicyError: the files say no usable set.
    """

    def __init__(self, paths: Sequence[Path], voice: Voice) -> None:
        self._log = voice.log
        self._metrics = voice.metrics
        self.store = PolicyStore(paths_in_force(paths), on_change=self._changed)
        self._show(self.store.status())
        self._log.info("policies-loaded", **self._numbers(), warnings=_shown(self.store.status().warnings))

    def check(self) -> Check:
        """Always ready, since some good set is in force; the detail says which, and what is wrong with a newer one."""
        status = self.store.status()
        detail = {**self._numbers(), "loadedAt": status.loaded_at.isoformat(), "generation": status.generation}
        if status.broken:
            detail["broken"] = _shown(status.broken)
        if status.crash:
            detail["crash"] = f"{type(status.crash).__name__}: {status.crash}"
        return Check("policies", ready=True, detail=detail)

    def _changed(self, status: Status) -> None:
        self._metrics.policies_reloaded(success=not (status.broken or status.crash))
        self._show(status)
        if status.crash:
            self._log.error("policies-crashed", exc_info=status.crash, in_force=status.digest)
        elif status.broken:
            self._log.error("policies-broken", findings=_shown(status.broken), in_force=status.digest)
        else:
            self._log.info("policies-loaded", **self._numbers(), warnings=_shown(status.warnings))

    def _show(self, status: Status) -> None:
        policies = self.store.current()
        self._metrics.policy_loaded.set(status.loaded_at.timestamp())
        self._metrics.policy_broken.set(1 if status.broken or status.crash else 0)
        self._metrics.policy_rules.set(len(policies.rules))
        self._metrics.policy_caps.set(len(policies.caps))

    def _numbers(self) -> dict[str, object]:
        policies = self.store.current()
        return {"digest": policies.digest, "rules": len(policies.rules), "caps": len(policies.caps)}


def _shown(findings: Sequence[object]) -> list[str]:
    """The first few, as text."""
    return [str(finding) for finding in findings[:_MOST_FINDINGS]]
