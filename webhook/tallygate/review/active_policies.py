"""The active policies of a gate with their indexes, renewed after a change of policies, device classes or limits."""

from collections.abc import Callable, Mapping
from copy import copy
from datetime import UTC, datetime

from tallygate.accounting.claim_charge import list_device_resources
from tallygate.admission.cap_index import CapIndex
from tallygate.admission.rule_index import RuleIndex
from tallygate.cluster.usage_lister import UsageLister
from tallygate.policy.limit_annotations import LimitAnnotations
from tallygate.policy.model import PolicySet


class ActivePolicySet:
    """One policy set with its indexes, for the extended resources of these device classes, and the limits at a time.

    `annotations` set limits of namespaces. `caps` are those by all of this, if the caller keeps them.
    """

    def __init__(
        self,
        policies: PolicySet,
        now: datetime | None,
        resources_by_class: Mapping[str, str],
        annotations: LimitAnnotations,
        caps: CapIndex | None = None,
    ) -> None:
        self.policies = policies
        self.resources_by_class = resources_by_class
        self.annotations = annotations
        self.device_resources = list_device_resources(resources_by_class)
        self.rules = RuleIndex(policies)
        self.caps = CapIndex(policies, now, resources_by_class, annotations) if caps is None else caps
        self.needs_labels = self.rules.needs_labels or self.caps.needs_labels
        self.reasons: Mapping[str, str] = {
            **{implied.name: implied.reason for implied in policies.implied_requests},
            **{rule.name: rule.reason for rule in policies.rules},
            **{cap.name: cap.reason for cap in policies.caps},
        }

    def renew_limits(self, now: datetime | None, annotations: LimitAnnotations) -> "ActivePolicySet":
        """Return the same set with the limits at another time, or by other annotations."""
        renewed = copy(self)
        renewed.caps = CapIndex(self.policies, now, self.resources_by_class, annotations)
        renewed.annotations = annotations
        return renewed


class ActivePolicies:
    """The active policy set of a gate, for any thread.

    `policies`, `resources_by_class` and `annotations` return the same object until there is a change, `unix_time`
    seconds of the Unix epoch. `usage_lister` gets the caps that are active.
    """

    def __init__(
        self,
        policies: Callable[[], PolicySet],
        resources_by_class: Callable[[], Mapping[str, str]],
        unix_time: Callable[[], float],
        usage_lister: UsageLister | None,
        annotations: Callable[[], LimitAnnotations],
    ) -> None:
        self._policies = policies
        self._resources_by_class = resources_by_class
        self._unix_time = unix_time
        self._usage_lister = usage_lister
        self._annotations = annotations
        self._has_reviewed = False
        self._policy_set = self._index_policies(policies(), resources_by_class())

    def start_review(self) -> ActivePolicySet:
        """Return the policy set for a review."""
        policy_set = self.get_current()
        if not self._has_reviewed:
            self._has_reviewed = True
            policy_set = self.get_current()  # again: from here on a change of the caps leaves out what was admitted
        return policy_set

    def get_current(self) -> ActivePolicySet:
        """Return the policy set, with the limits of now."""
        policies, resources_by_class, annotations = self._policies(), self._resources_by_class(), self._annotations()
        policy_set = self._policy_set
        if policy_set.policies is not policies or policy_set.resources_by_class is not resources_by_class:
            policy_set = self._policy_set = self._index_policies(policies, resources_by_class)
        elif (policy_set.annotations is not annotations and policy_set.caps.reads_annotations) or (
            policy_set.caps.may_change and not policy_set.caps.is_current(self._read_time())
        ):
            # the keys of the caps stay, so that no ledger is counted again
            policy_set = self._policy_set = policy_set.renew_limits(self._read_time(), annotations)
        return policy_set

    def _index_policies(self, policies: PolicySet, resources_by_class: Mapping[str, str]) -> ActivePolicySet:
        policy_set = ActivePolicySet(policies, self._read_time(), resources_by_class, self._annotations())
        if self._usage_lister is not None:
            self._usage_lister.set_active_caps(
                [cap.active_key for cap in policy_set.caps.list_caps()], is_first=not self._has_reviewed
            )
        return policy_set

    def _read_time(self) -> datetime:
        return datetime.fromtimestamp(self._unix_time(), UTC)
