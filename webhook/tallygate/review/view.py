"""The view of a cluster that a review needs: what is stored in it, as far as it is watched, listed or given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tallygate.accounting.devices.device_meter import DeviceFinder
from tallygate.accounting.devices.least_amounts import LeastAmounts, LeastAmountsReview
from tallygate.accounting.pod_defaults import UNKNOWN_POD_DEFAULTS, PodDefaults
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.cap_sources import NO_CAP_SOURCES, CapSources
from tallygate.admission.evaluate import NodeRuleEvaluator
from tallygate.cluster.cluster_state import ClusterState
from tallygate.cluster.usage_lister import UsageLister, get_ledger_key
from tallygate.review.applied_workload import DaemonPodCounter
from tallygate.review.cap_reach import GuaranteeFinder
from tallygate.review.charged_requests import find_no_device
from tallygate.review.claim_forecast import ClaimTemplateLister
from tallygate.review.owner_chain import OwnerChains
from tallygate.review.quota_forecast import QuotaForecaster, QuotaLister
from tallygate.review.scale_requests import WorkloadReader
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey, NamespaceLister


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The ports of a cluster, each None where its kind is neither watched nor listed nor given.

    `usage_lister` shows the stored pods and claims. `quotas` lists the ResourceQuotas of namespaces and
    `claim_templates` the templates of claims. `evaluate_node_rules` evaluates the rules that compare pods with nodes.
    `workload_reader` reads the workload of a scale request, `owner_chains` the controllers of pods and workloads.
    `cap_sources` returns what caps depend on. `is_advertised` returns whether any node may advertise a resource.
    `least_amounts` has the least that claims can get.
    `find_pod_defaults` returns what built-in admission gives new pods of a namespace. `count_daemon_pods` counts the
    pods of DaemonSets by the nodes.
    """

    namespaces: NamespaceLister
    usage_lister: UsageLister | None = None
    quotas: QuotaLister | None = None
    claim_templates: ClaimTemplateLister | None = None
    evaluate_node_rules: NodeRuleEvaluator | None = None
    workload_reader: WorkloadReader | None = None
    owner_chains: OwnerChains | None = None
    cap_sources: Callable[[], CapSources] = lambda: NO_CAP_SOURCES
    least_amounts: LeastAmounts | None = None
    is_advertised: Callable[[str], bool] = lambda _: True
    find_pod_defaults: Callable[[str], PodDefaults] = lambda _: UNKNOWN_POD_DEFAULTS
    count_daemon_pods: DaemonPodCounter | None = None

    @property
    def is_watched(self) -> bool:
        """Whether the cluster is watched: then a moment later, or in another replica, more of it may be known."""
        return self.usage_lister is not None

    @property
    def quota_forecaster(self) -> QuotaForecaster | None:
        """The forecasts of ResourceQuotas, None where they are not listed."""
        if self.quotas is None:
            return None
        return QuotaForecaster(self.quotas, self.get_resources_by_class, self.is_advertised)

    def get_resources_by_class(self) -> Mapping[str, str]:
        """Return the extended resource of each DeviceClass, the same object until one changes."""
        return self.cap_sources().resources_by_class

    def create_guarantee_finder(
        self, namespace: str, read_ledger: Callable[[LedgerKey], Ledger | None]
    ) -> GuaranteeFinder:
        """Return the finder of what caps guarantee to others than a namespace."""

        def find_members(cap: ActiveCap) -> frozenset[str]:
            lister = self.usage_lister
            membership = lister.find_membership(cap, get_ledger_key(cap, namespace)) if lister is not None else None
            return membership.names if membership is not None else frozenset()

        return GuaranteeFinder(namespace, lambda cap: read_ledger(get_ledger_key(cap, namespace)), find_members)

    @property
    def find_device(self) -> DeviceFinder:
        """The finder of published devices."""
        return find_no_device if self.usage_lister is None else self.usage_lister.find_device

    def start_least_amounts(self) -> LeastAmountsReview | None:
        """Return the least amounts for the claims of one request, None without published devices."""
        return None if self.least_amounts is None else self.least_amounts.start_review()


def view_state(state: ClusterState) -> ClusterView:
    """Return the view of a state that is complete, and has no other ports.

    A caller replaces those of kinds that may be stale, or that its state does not have.
    """
    return ClusterView(
        namespaces=state.namespaces,
        usage_lister=state.usage_lister,
        claim_templates=state.claim_templates,
        cap_sources=state.get_cap_sources,
        least_amounts=LeastAmounts(state.devices.list_slices, state.device_classes.find_selectors),
        find_pod_defaults=state.find_pod_defaults,
    )
