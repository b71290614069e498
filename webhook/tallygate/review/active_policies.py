"""The active policies of a gate with their indexes, renewed after a change of policies, device classes or limits."""

from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime

from tallygate.accounting.claim_charge import list_device_resources
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.cap_sources import NO_CAP_SOURCES, CapSources
from tallygate.admission.response import PolicyReasons
from tallygate.admission.rule_index import RuleIndex
from tallygate.cluster.usage_lister import UsageLister
from tallygate.policy.model import PolicySet


class ActivePolicySet:
    """One policy set with its indexes, by what the cluster says about caps, and with the limits at a time.

    `caps` are those by all of this, if the caller keeps them.
    """

    def __init__(
        self,
        policies: PolicySet,
        now: datetime | None,
        sources: CapSources = NO_CAP_SOURCES,
        caps: CapIndex | None = None,
    ) -> None:
        self.policies = policies
        self.sources = sources
        self.device_resources = list_device_resources(sources.resources_by_class)
        self.rules = RuleIndex(policies)
        self.caps = CapIndex(policies, now, sources) if caps is None else caps
        self.needs_labels = self.rules.needs_labels or self.caps.needs_labels
        self.reasons: PolicyReasons = {
            **{("implied request", request.name): request.reason for request in policies.implied_requests},
            **{("rule", rule.name): rule.reason for rule in policies.rules},
            **{("cap", cap.name): cap.reason for cap in policies.caps},
        }

    def renew_limits(self, now: datetime | None, sources: CapSources) -> "ActivePolicySet":
        """Return the same set with the limits at another time, or by other sources with the same device classes."""
        renewed = copy(self)
        renewed.caps = CapIndex(self.policies, now, sources)
        renewed.sources = sources
        return renewed


class ActivePolicies:
    """The active policy set of a gate, for any thread.

    `policies` returns the same object until there is a change, `sources` the same values; `unix_time` is in seconds of
    the Unix epoch. `usage_lister` gets the caps that are active.
    """

    def __init__(
        self,
        policies: Callable[[], PolicySet],
        sources: Callable[[], CapSources],
        unix_time: Callable[[], float],
        usage_lister: UsageLister | None,
    ) -> None:
        self._policies = policies
        self._sources = sources
        self._unix_time = unix_time
        self._usage_lister = usage_lister
        self._has_reviewed = False
        self._policy_set = self._index_policies(policies(), sources())

    def start_review(self) -> ActivePolicySet:
        """Return the policy set for a review."""
        policy_set = self.get_current()
        if not self._has_reviewed:
            self._has_reviewed = True
            policy_set = self.get_current()  # again: from here on a change of the caps leaves out what was admitted
        return policy_set

    def get_current(self) -> ActivePolicySet:
        """Return the policy set, with the limits of now."""
        policies, sources, policy_set = self._policies(), self._sources(), self._policy_set
        before = policy_set.sources
        if policy_set.policies is not policies or before.resources_by_class is not sources.resources_by_class:
            policy_set = self._policy_set = self._index_policies(policies, sources)
        elif policy_set.caps.reads_change(before, sources) or (
            policy_set.caps.may_change and not policy_set.caps.is_current(self._read_time())
        ):
            # the keys of the caps stay, so that no ledger is counted again
            policy_set = self._policy_set = policy_set.renew_limits(self._read_time(), sources)
        return policy_set

    def _index_policies(self, policies: PolicySet, sources: CapSources) -> ActivePolicySet:
        policy_set = ActivePolicySet(policies, self._read_time(), sources)
        if self._usage_lister is not None:
            self._usage_lister.set_active_caps(
                [cap.active_key for cap in policy_set.caps.list_caps()], is_first=not self._has_reviewed
            )
        return policy_set

    def _read_time(self) -> datetime:
        return datetime.fromtimestamp(self._unix_time(), UTC)
