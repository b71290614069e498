"""Forecasts for the pods of a workload under a limit, and those of the caps over its namespace.

Kubernetes reports a rejected pod to the controller only, in an event on a ReplicaSet (kubernetes#96634). The gate
reports it when the user applies the workload. A forecast reserves nothing, and every pod is still evaluated when it is
created. The claims that are made from templates count in addition to the pods. `quota_forecast` has the limits of
ResourceQuotas.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.charge import Charge
from tallygate.accounting.names import LIMITS_PREFIX
from tallygate.accounting.pod_defaults import PodDefaults
from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.cap_index import ActiveCap
from tallygate.admission.pod_view import ReplicaCount
from tallygate.admission.rule_codes import (
    WORKLOAD_AUTOSCALED_OVER_CAP,
    WORKLOAD_OVER_CAP,
    WORKLOAD_OVER_FREE,
    WORKLOAD_ROLLOUT,
)
from tallygate.objects.core import Pod
from tallygate.review.applied_workload import ForecastPods, ForecastWorkload, sum_pod_sets
from tallygate.review.cap_messages import (
    CLAIMS_WAIT,
    create_missing_limit_problem,
    create_unknown_product_problem,
    describe_larger_limit,
    describe_scope,
    describe_wait,
)
from tallygate.review.cap_reach import GuaranteeFinder, Reach, describe_share
from tallygate.review.charged_requests import list_unlimited, may_be_limited
from tallygate.review.claim_forecast import CLAIMS_FIELD, is_counted
from tallygate.state.ledger.ledger import Ledger

_OVERHEAD_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})


@dataclass(frozen=True, slots=True)
class Forecast:
    """One expected problem; `permanent` if it lasts as long as workload and cap do not change, also by the time.

    If it `affects_all`, then not one of the pods is ever accepted.
    """

    problem: Problem
    permanent: bool
    affects_all: bool = False


@dataclass(frozen=True, slots=True)
class ForecastLimit:
    """A limit on the pods: its label, the hard amounts, the codes of its problems, and the cap if it is one.

    `surge` are the amounts above hard that the pods of a rollout may use (rule 12). `guarantees` are those of other
    namespaces than that of the pods, None where they are not known.
    """

    label: str
    hard: Amounts
    over_code: str
    wait_code: str
    rollout_code: str
    autoscaled_code: str
    cap: ActiveCap | None = None
    surge: Amounts = NO_AMOUNTS
    guarantees: GuaranteeFinder | None = None

    def find_reach(self, name: str) -> Reach:
        """Return the most of a name that the pods of the namespace may have."""
        if self.cap is None or self.guarantees is None:
            most = self.hard[name] if self.cap is None else self.cap.limits.get_most(name)
            return Reach(self.hard[name], self.hard[name], most)
        return self.guarantees.find_reach(self.cap, name)


@dataclass(frozen=True, slots=True)
class ChargedPods:
    """The pods of one template, and the charge of each of them, with its claims.

    `claimed` is the part of the amounts that the claims of one pod request. `least` are the names of which these get at
    least an amount, by the devices that are published now: a forecast under them is never permanent. `shared` is the
    charge of the claims that are made once for all of the pods.
    """

    pods: ForecastPods
    per_pod: Amounts
    claimed: Amounts = NO_AMOUNTS
    least: frozenset[str] = frozenset()
    shared: Amounts = NO_AMOUNTS

    def sum_amounts(self, name: str) -> int:
        """Return the amount of a name of all the pods, with the claims that they share."""
        return self.per_pod.get(name, 0) * self.pods.replicas.count + self.shared.get(name, 0)

    def counts(self, name: str) -> bool:
        """Return whether the pods, or the claims that they share, have an amount of a name."""
        return name in self.per_pod or name in self.shared


ChargedReader = Callable[[], Amounts | None]
"""Returns the amounts that all pods together are charged under the limit now; None if they are unknown."""


def forecast_resources(
    charged_pods: Sequence[ChargedPods], limit: ForecastLimit, before: Amounts, read_charged: ChargedReader
) -> Iterator[Forecast]:
    """Yield the forecasts for the pods of a workload under one limit.

    `before` is the amount that the limit already counts of the old workload. Templates of which no pod is made, and
    none by an autoscaler, have no forecast.
    """
    charged_pods = [pod for pod in charged_pods if pod.pods.replicas.count or pod.pods.replicas.most]
    shared = sum((pod.shared for pod in charged_pods), NO_AMOUNTS)
    requested = sum_pod_sets((pod.pods.replicas, pod.per_pod) for pod in charged_pods) + shared
    increase = requested.find_shortfall(before)
    for name in sorted({name for pod in charged_pods for name in (*pod.per_pod, *pod.shared)} & limit.hard.keys()):
        shares = _select_shares(charged_pods, name)
        forecast = _ResourceForecast(shares, limit, name, limit.find_reach(name))
        if requested.get(name, 0) > forecast.reach.now:
            if name in increase:
                known = read_charged() or NO_AMOUNTS
                yield forecast.forecast_never(known.get(name, 0), before.get(name, 0))
            continue
        yield from forecast.forecast_autoscaling()
        rollout = forecast.forecast_rollout()
        waits = name in increase or (forecast.has_surge and rollout is None)
        if waits and (charged := read_charged()) is not None:
            yield from forecast.forecast_wait(charged.get(name, 0), increase.get(name, 0), with_surge=rollout is None)
        if rollout is not None:
            yield rollout


def _select_shares(charged_pods: Sequence[ChargedPods], name: str) -> tuple[ChargedPods, ...]:
    """Return the pods that request a resource; of those that may run at different times the largest share.

    It is never empty, since one of the pods requests the resource.
    """
    shares = [pod for pod in charged_pods if pod.counts(name)]
    first = [share for share in shares if share.pods.replicas.is_first]
    separate = [[share] for share in shares if share.pods.replicas.is_separate and not share.pods.replicas.is_first]
    alternatives = [first, *separate] if first else separate
    largest = max(alternatives, key=lambda pods: _sum_amounts(pods, name), default=[])
    selected = {id(largest_share) for largest_share in largest}
    return tuple(share for share in shares if not share.pods.replicas.is_separate or id(share) in selected)


def _sum_amounts(pods: Iterable[ChargedPods], name: str) -> int:
    return sum(pod.sum_amounts(name) for pod in pods)


@dataclass(frozen=True, slots=True)
class _ResourceForecast:
    """The forecasts for one resource under one limit; `shares` are the pods that request it.

    `reach` is the most of it that the namespace may have.
    """

    shares: tuple[ChargedPods, ...]
    limit: ForecastLimit
    name: str
    reach: Reach

    @property
    def per_pod(self) -> int:
        """The smallest amount of one pod; 0 if they only share a claim."""
        return min(share.per_pod.get(self.name, 0) for share in self.shares)

    @property
    def replicas(self) -> ReplicaCount:
        """The number of pods that request the resource; those of several templates add up."""
        if len(self.shares) == 1:
            return self.shares[0].pods.replicas
        return ReplicaCount(sum(share.pods.replicas.count for share in self.shares), "pods")

    @property
    def is_rollout(self) -> bool:
        """True if the template of some of these pods changes."""
        return any(share.pods.is_rollout for share in self.shares)

    @property
    def has_surge(self) -> bool:
        """True if a rollout begins that starts new pods first."""
        return self.is_rollout and self.replicas.surge > 0

    @property
    def is_least(self) -> bool:
        """True if the amounts are the least that the pods get."""
        return any(self.name in share.least for share in self.shares)

    @property
    def _larger(self) -> str:
        return describe_larger_limit(self.limit.cap, self.name)

    @property
    def _shared(self) -> int:
        return sum(share.shared.get(self.name, 0) for share in self.shares)

    def _sum_amounts(self) -> int:
        return _sum_amounts(self.shares, self.name)

    def _count_pods_within(self, amount: int) -> int:
        """Return how many of the pods run within an amount, beside the claims that they share."""
        left = amount - self._shared
        if left < 0:
            return 0
        return left // self.per_pod if self.per_pod else self.replicas.count

    def forecast_never(self, charged: int, before: int) -> Forecast:
        """Return the forecast for more pods than the limit ever allows, of whose amount `before` is charged already."""
        fit, later = map(self._count_pods_within, (self.reach.now, self.reach.ever))
        limit = self._describe_limit()
        if is_temporary := self._sum_amounts() <= self.reach.ever:
            end = f"{'not all' if fit else 'none'} of them can run before {self._larger}"
        elif not later:
            end = "none of them can ever run"
        elif not fit:
            end = f"none of them can run before {self._larger}, and then not all of them at a time"
        elif len(self.shares) > 1:
            end = "not all of them can run at a time"
        else:
            end = f"{'at most ' * self.is_least}{fit} of them can run at a time"
            free = max(self.limit.hard[self.name] - charged, 0)
            if (now := self._count_pods_within(free + min(before, charged))) < fit:
                limit = f"{limit}, free {format_amount(self.name, free)}"
                end = f"{'at most ' * self.is_least}{now or 'none'} of them can run now, and {fit} at a time"
        return self._create_forecast(
            self.limit.over_code,
            f"{self._describe_request(self._sum_amounts())}, {limit}: {end}",
            permanent=not self.is_least and not is_temporary,
            affects_all=not later and not self.is_least,
        )

    def forecast_autoscaling(self) -> Iterator[Forecast]:
        """Yield a forecast if the limit allows the pods, but not those that an autoscaler may add."""
        scaled = [
            share
            for share in self.shares
            if self.name in share.per_pod and share.pods.replicas.most > share.pods.replicas.count
        ]
        if not any(
            share.pods.old_template is None or share.pods.is_rollout or share.pods.replicas.most > share.pods.old_most
            for share in scaled
        ):
            return
        added = sum(
            share.per_pod[self.name] * (share.pods.replicas.most - share.pods.replicas.count) for share in scaled
        )
        amount, hard = self._sum_amounts() + added, self.reach.ever
        if amount <= hard:
            return
        bounds = " and ".join(f"{share.pods.replicas.most} {share.pods.replicas.noun}" for share in scaled)
        count = sum(max(share.pods.replicas.most, share.pods.replicas.count) for share in self.shares)
        end = "the autoscaler can never start all of them"
        if len(scaled) == 1:
            (share,) = scaled
            pods, per_pod = share.pods.replicas, share.per_pod[self.name]
            most = pods.count + (hard - self._sum_amounts()) // per_pod
            end = f"the autoscaler can never start more than {most} {pods.noun}"
        request = self._describe_request(amount, count)
        text = f"with up to {bounds}, {request}, {self._describe_limit()}: {end}"
        yield self._create_forecast(self.limit.autoscaled_code, text, permanent=False)

    def forecast_rollout(self) -> Forecast | None:
        """Return a forecast if a rollout exceeds the limit with its first new pod, or with its whole surge."""
        replicas, surge = self.replicas, self.limit.surge.get(self.name, 0)
        most = self.reach.now + surge
        request, limit = self._describe_rollout_request(), self._describe_rollout_limit()
        is_new = all(share.pods.old_template is None for share in self.shares)
        needed = (replicas.count + replicas.required_surge) * self.per_pod
        if replicas.required_surge and needed > most and (self.is_rollout or is_new):
            is_temporary = needed <= self.reach.ever + surge
            end = f"cannot proceed before {self._larger}" if is_temporary else "can never proceed"
            text = f"{request}, {limit}: the rollout {end}, since {replicas.surge_reason}"
            permanent = self.is_rollout and not self.is_least and not is_temporary
            return self._create_forecast(self.limit.rollout_code, text, permanent=permanent)
        if self.has_surge and (replicas.count + replicas.surge) * self.per_pod > most:
            return self._create_forecast(
                self.limit.rollout_code,
                f"{request}, {limit}: the rollout proceeds only as old pods end",
                permanent=False,
            )
        return None

    def forecast_wait(self, charged: int, increase: int, *, with_surge: bool) -> Iterator[Forecast]:
        """Yield a forecast if the new pods, or `with_surge` those that a rollout adds, exceed the free amount now."""
        replicas = self.replicas
        hard, surge = self.limit.hard[self.name], self.limit.surge.get(self.name, 0)
        free, free_in_rollout = max(hard - charged, 0), max(hard + surge - charged, 0)
        limit = f"{self._describe_limit()}, free {format_amount(self.name, free)}"
        if increase > free:
            wait = describe_wait(self.limit.cap, self.name)
            if self.limit.cap is None and self._are_claimed:
                wait = CLAIMS_WAIT
            until = f"{'' if self.is_least else 'other '}{wait}"
            request = self._describe_request(self._sum_amounts())
            text = f"{request}, {limit}: {self._describe_waiting(increase - free)} until {until}"
            yield self._create_forecast(self.limit.wait_code, text, permanent=False)
        elif with_surge and self.has_surge and increase + replicas.surge * self.per_pod > free_in_rollout:
            starts_none = replicas.required_surge and increase + self.per_pod > free_in_rollout
            end = "no new pod starts until others end" if starts_none else "the rollout proceeds only as pods end"
            limit = f"{self._describe_rollout_limit()}, free {format_amount(self.name, free_in_rollout)}"
            yield self._create_forecast(
                self.limit.rollout_code, f"{self._describe_rollout_request()}, {limit}: {end}", permanent=False
            )

    def _describe_waiting(self, missing: int) -> str:
        """Return how many pods wait while this amount is missing."""
        if not self.per_pod:
            return "all of them wait"
        if len(self.shares) > 1 or self._shared:
            return "some of them wait"
        waiting = -(-missing // self.per_pod)
        return f"{'at least ' * self.is_least}{waiting} wait{'s' * (waiting == 1)}"

    @property
    def _are_claimed(self) -> bool:
        return any(self.name in share.claimed or self.name in share.shared for share in self.shares)

    def _describe_request(self, amount: int, count: int | None = None) -> str:
        count = self.replicas.count if count is None else count
        noun = self.replicas.noun if count != 1 else self.replicas.noun.removesuffix("s")
        if self._are_claimed:
            noun = f"{noun} with {'its' if count == 1 else 'their'} claims"
        text = f"{format_amount(self.name, amount)} {self.name}"
        if self.is_least:
            return f"{count} {noun} get{'s' * (count == 1)} at least {text} of the published devices"
        return f"{count} {noun} request{'s' * (count == 1)} {text}"

    def _describe_rollout_request(self) -> str:
        replicas = self.replicas
        count = replicas.count + replicas.surge
        return f"with {replicas.surge} more during a rollout, {self._describe_request(count * self.per_pod, count)}"

    def _describe_limit(self) -> str:
        cap, hard = self.limit.cap, self.limit.hard[self.name]
        if cap is None:
            return f"{self.limit.label} has hard {format_amount(self.name, hard)}"
        share = describe_share(cap, self.name, self.reach)
        return f"{self.limit.label} has hard {cap.limits.describe(self.name)}{share}"

    def _describe_rollout_limit(self) -> str:
        surge = self.limit.surge.get(self.name, 0)
        return f"{self._describe_limit()}{f', surge {format_amount(self.name, surge)}' if surge else ''}"

    def _create_forecast(self, code: str, text: str, *, permanent: bool, affects_all: bool = False) -> Forecast:
        rule = self.limit.cap.definition.name if self.limit.cap else ""
        problem = Problem("", code, Reason.FORBIDDEN, text, rule=rule, policy_kind="cap")
        return Forecast(problem, permanent, affects_all)


def forecast_cap(  # noqa: PLR0913, PLR0917  # a workload, a cap, and what is counted under it
    workload: ForecastWorkload,
    cap: ActiveCap,
    compute_charge: Callable[[Pod], Charge],
    before: Amounts,
    read_ledger: Callable[[], Ledger | None],
    guarantees: GuaranteeFinder,
) -> Iterator[Forecast]:
    """Yield the forecasts for the workload's pods and their claims under one cap.

    `compute_charge` returns the charge of one pod, `before` is the amount that the ledger already counts of the old
    workload; `read_ledger` returns the ledger, or None if it is unavailable. What `guarantees` has for others is not
    free.
    """
    charged_pods: list[ChargedPods] = []
    for pods in workload.pod_sets:
        charge = compute_charge(pods.template)
        least = pods.claims.compute_least(cap)
        claimed = pods.claims.compute_charge(cap) + least
        least_shared = pods.shared.compute_least(cap)
        shared = pods.shared.compute_charge(cap) + least_shared
        at_least = least.keys() | least_shared.keys()
        charged_pods.append(ChargedPods(pods, charge.amounts + claimed, claimed, frozenset(at_least), shared))
        if pods.replicas.count and not pods.view.is_partial:
            yield from _forecast_missing_limits(pods, cap, charge, compute_charge, workload.defaults)
            yield from _forecast_unknown_products(pods, cap)

    def read_charged() -> Amounts | None:
        ledger = read_ledger()
        if ledger is None:
            return None
        charged = ledger.compute_taken(guarantees.namespace)
        unknown = [name for name in all_least if not is_counted(ledger, cap, name)]
        return Amounts({name: charged[name] for name in charged if name not in unknown}) if unknown else charged

    all_least = frozenset(name for pod in charged_pods for name in pod.least)
    label = f"cap {cap.definition.name} {describe_scope(cap)}"
    codes = WORKLOAD_OVER_CAP, WORKLOAD_OVER_FREE, WORKLOAD_ROLLOUT, WORKLOAD_AUTOSCALED_OVER_CAP
    limit = ForecastLimit(label, cap.hard, *codes, cap, cap.surge, guarantees)
    yield from forecast_resources(charged_pods, limit, before, read_charged)


def _forecast_missing_limits(
    pods: ForecastPods, cap: ActiveCap, charge: Charge, compute_charge: Callable[[Pod], Charge], defaults: PodDefaults
) -> Iterator[Forecast]:
    """Yield a forecast for each counted limit that containers lack, and did not lack before.

    A container gets none that may have the limit by a LimitRange that is not known.
    """
    already_unlimited = compute_charge(pods.old_template).unlimited if pods.old_template else {}
    for name, containers in list_unlimited(charge, pods.template, defaults):
        if added := tuple(container for container in containers if container not in already_unlimited.get(name, ())):
            problem = create_missing_limit_problem(cap, name, added, pods.template, pods.view.locate)
            yield Forecast(problem, permanent=name in cap.hard, affects_all=name in cap.hard)


def describe_unknown_defaults(
    workload: ForecastWorkload, caps: Iterable[ActiveCap], compute_charge: Callable[[ActiveCap, Pod], Charge]
) -> Iterator[str]:
    """Yield a message for each cap of which a forecast depends on defaults of pods that are not known."""
    unknown_classes = sorted(
        {
            name
            for pods in workload.pod_sets
            if pods.replicas.count and (name := workload.defaults.find_unknown_class(pods.template))
        }
    )
    templates = [pods.template for pods in workload.pod_sets if pods.replicas.count]
    for cap in caps:
        limits = {
            name
            for template in templates
            for name, containers in compute_charge(cap, template).unlimited.items()
            if any(may_be_limited(template, name, container, workload.defaults) for container in containers)
        }
        if limits:
            yield (
                f"cap {cap.definition.name} counts {', '.join(sorted(limits))}, which containers lack: whether a "
                "LimitRange gives it to them is not known here"
            )
        classes = cap.definition.pods.priority_classes
        if classes and not workload.defaults.has_priority_classes and any(map(_has_no_priority_class, templates)):
            yield (
                f"cap {cap.definition.name} counts pods of priority class {' or '.join(classes)}: whether pods that "
                "name no class get it by default is not known here"
            )
        if unknown_classes and (counted := sorted(filter(_may_be_overhead, cap.resources))):
            yield (
                f"cap {cap.definition.name} counts {', '.join(counted)}: the overhead of RuntimeClass "
                f"{', '.join(unknown_classes)} is not known here"
            )


def describe_unknown_count(
    workload: ForecastWorkload, caps: Iterable[ActiveCap], compute_charge: Callable[[ActiveCap, Pod], Charge]
) -> str:
    """Return a message if caps count the pods of a workload whose number is not known; else an empty text.

    A change of a workload whose pods request no more than before needs no forecast.
    """
    if not workload.uncounted_kind:
        return ""
    names = [
        cap.definition.name
        for cap in caps
        if any(_requests_more(pods, partial(compute_charge, cap)) for pods in workload.pod_sets)
    ]
    if not names:
        return ""
    return (
        f"the forecast of cap {', '.join(names)} counts one pod of a {workload.uncounted_kind}, which has one on each "
        "of its nodes: these are not known here"
    )


def _requests_more(pods: ForecastPods, compute_charge: Callable[[Pod], Charge]) -> bool:
    """Return whether a pod counts more than one of the template that its template replaces."""
    before = compute_charge(pods.old_template).amounts if pods.old_template is not None else NO_AMOUNTS
    return any(amount > before.get(name, 0) for name, amount in compute_charge(pods.template).amounts.items())


def _may_be_overhead(name: str) -> bool:
    """Return whether an overhead usually has this resource; of extended resources it has none."""
    return name.removeprefix(LIMITS_PREFIX) in _OVERHEAD_RESOURCES


def _has_no_priority_class(template: Pod) -> bool:
    return template.spec is not None and not template.spec.priority_class_name


def _forecast_unknown_products(pods: ForecastPods, cap: ActiveCap) -> Iterator[Forecast]:
    """Yield a forecast for each product that the claims have one factor of, if the template did not name them before.

    A pod is denied for such claims (`forecast_impossible_claims`).
    """
    old = pods.old_template.spec if pods.old_template else None
    new = pods.template.spec
    if old is not None and new is not None and old.resource_claims == new.resource_claims:
        return
    for name in dict.fromkeys((*pods.claims.list_unknown_products(cap), *pods.shared.list_unknown_products(cap))):
        problem = create_unknown_product_problem(cap, name, pods.view.locate(CLAIMS_FIELD))
        yield Forecast(problem, permanent=name in cap.hard, affects_all=name in cap.hard)
