"""Forecasts for the pods of a workload under a limit, and those of the caps over its namespace.

Kubernetes reports a rejected pod to the controller only, in an event on a ReplicaSet (kubernetes#96634). The gate
reports it when the user applies the workload. A forecast reserves nothing, and every pod is still evaluated when it is
created. The claims that are made from templates count beside the pods. `quota_forecast` has the limits of
ResourceQuotas.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tallygate.webhook.accounting.amounts import Amounts, format_amount
from tallygate.webhook.accounting.charge import Charge
from tallygate.webhook.accounting.problem import Code, Problem, Reason
from tallygate.webhook.admission.cap_index import ActiveCap
from tallygate.webhook.admission.rule_codes import (
    WORKLOAD_OVER_CAP,
    WORKLOAD_OVER_FREE,
    WORKLOAD_ROLLOUT,
)
from tallygate.webhook.gate.applied_workload import ForecastWorkload, multiply
from tallygate.webhook.gate.decisions import CLAIMS_WAIT, create_missing_limit_problem, describe_scope, describe_wait
from tallygate.webhook.gate.device_forecast import is_counted
from tallygate.webhook.objects.core import Pod
from tallygate.webhook.state.ledger.ledger import Ledger

_NO_AMOUNTS = Amounts()


@dataclass(frozen=True, slots=True)
class Forecast:
    """One expected problem; `permanent` if it lasts as long as workload and cap do not change.

    If it `affects_all`, then not one of the pods is ever accepted.
    """

    problem: Problem
    permanent: bool
    affects_all: bool = False


@dataclass(frozen=True, slots=True)
class ForecastLimit:
    """A limit on the pods: its label, the hard amounts, the codes of its problems, and the cap if it is one.

    `claimed` is the part of the amounts that the claims of one pod request. `least` are the names of which these get at
    least an amount, by the devices that are published now: a forecast under them is never permanent.
    """

    label: str
    hard: Amounts
    over_code: Code
    wait_code: Code
    rollout_code: Code
    cap: ActiveCap | None = None
    claimed: Amounts = _NO_AMOUNTS
    least: frozenset[str] = frozenset()


ChargedReader = Callable[[], Amounts | None]
"""Returns the amounts that all pods together are charged under the limit now; None if they are unknown."""


def forecast_resources(
    workload: ForecastWorkload, limit: ForecastLimit, per_pod: Amounts, before: Amounts, read_charged: ChargedReader
) -> Iterator[Forecast]:
    """Yield the forecasts for the pods under one limit.

    `per_pod` is the charge of one pod, `before` the amount that the limit already counts of the old workload.
    """
    requested = multiply(per_pod, workload.replicas.count)
    increase = requested.find_shortfall(before)
    for name in sorted(per_pod.keys() & limit.hard.keys()):
        forecast = _ResourceForecast(workload, limit, name, per_pod[name])
        if requested.get(name, 0) > limit.hard[name]:
            if name in increase:
                yield forecast.forecast_never()
            continue
        rollout = forecast.forecast_rollout()
        waits = name in increase or (forecast.has_surge and rollout is None)
        if waits and (charged := read_charged()) is not None:
            yield from forecast.forecast_wait(charged.get(name, 0), increase.get(name, 0), with_surge=rollout is None)
        if rollout is not None:
            yield rollout


@dataclass(frozen=True, slots=True)
class _ResourceForecast:
    """The forecasts for one resource under one limit."""

    workload: ForecastWorkload
    limit: ForecastLimit
    name: str
    per_pod: int

    @property
    def has_surge(self) -> bool:
        """True if a rollout begins that starts new pods first."""
        return self.workload.is_rollout and self.workload.replicas.surge > 0

    @property
    def is_least(self) -> bool:
        """True if the amounts are the least that the pods get."""
        return self.name in self.limit.least

    def forecast_never(self) -> Forecast:
        hard, replicas = self.limit.hard[self.name], self.workload.replicas
        fit = hard // self.per_pod
        end = f"{'at most ' * self.is_least}{fit} of them can run at a time" if fit else "none of them can ever run"
        return self._create_forecast(
            self.limit.over_code,
            f"{self._describe_request(replicas.count)}, {self._describe_limit()}: {end}",
            permanent=not self.is_least,
            affects_all=not fit and not self.is_least,
        )

    def forecast_rollout(self) -> Forecast | None:
        """Return a forecast if a rollout exceeds the limit with its first new pod, or with its whole surge."""
        replicas, hard = self.workload.replicas, self.limit.hard[self.name]
        request, limit = self._describe_rollout_request(), self._describe_limit()
        if (
            replicas.is_surge_required
            and (replicas.count + 1) * self.per_pod > hard
            and (self.workload.is_rollout or self.workload.old_template is None)
        ):
            text = f"{request}, {limit}: the rollout can never proceed, since maxUnavailable lets no old pod end first"
            permanent = self.workload.is_rollout and not self.is_least
            return self._create_forecast(self.limit.rollout_code, text, permanent=permanent)
        if self.has_surge and (replicas.count + replicas.surge) * self.per_pod > hard:
            return self._create_forecast(
                self.limit.rollout_code,
                f"{request}, {limit}: the rollout proceeds only as old pods end",
                permanent=False,
            )
        return None

    def forecast_wait(self, charged: int, increase: int, *, with_surge: bool) -> Iterator[Forecast]:
        """Yield a forecast if the new pods, or `with_surge` those that a rollout adds, exceed the free amount now."""
        free = max(self.limit.hard[self.name] - charged, 0)
        limit = f"{self._describe_limit()}, free {format_amount(self.name, free)}"
        if increase > free:
            waiting = -(-(increase - free) // self.per_pod)
            wait = describe_wait(self.limit.cap, self.name)
            if self.limit.cap is None and self.name in self.limit.claimed:
                wait = CLAIMS_WAIT
            until = f"{'' if self.is_least else 'other '}{wait}"
            text = (
                f"{self._describe_request(self.workload.replicas.count)}, {limit}: {'at least ' * self.is_least}"
                f"{waiting} wait{'s' * (waiting == 1)} until {until}"
            )
            yield self._create_forecast(self.limit.wait_code, text, permanent=False)
        elif with_surge and self.has_surge and increase + self.workload.replicas.surge * self.per_pod > free:
            starts_none = self.workload.replicas.is_surge_required and increase + self.per_pod > free
            end = "no new pod starts until others end" if starts_none else "the rollout proceeds only as pods end"
            yield self._create_forecast(
                self.limit.rollout_code, f"{self._describe_rollout_request()}, {limit}: {end}", permanent=False
            )

    def _describe_request(self, count: int) -> str:
        noun = self.workload.replicas.noun if count != 1 else self.workload.replicas.noun.removesuffix("s")
        if self.name in self.limit.claimed:
            noun = f"{noun} with {'its' if count == 1 else 'their'} claims"
        if self.is_least:
            amount = format_amount(self.name, count * self.per_pod)
            return f"{count} {noun} get{'s' * (count == 1)} at least {amount} {self.name} of the published devices"
        return (
            f"{count} {noun} request{'s' * (count == 1)} {format_amount(self.name, count * self.per_pod)} {self.name}"
        )

    def _describe_rollout_request(self) -> str:
        replicas = self.workload.replicas
        return f"with {replicas.surge} more during a rollout, {self._describe_request(replicas.count + replicas.surge)}"

    def _describe_limit(self) -> str:
        return f"{self.limit.label} has hard {format_amount(self.name, self.limit.hard[self.name])}"

    def _create_forecast(self, code: Code, text: str, *, permanent: bool, affects_all: bool = False) -> Forecast:
        rule = self.limit.cap.definition.name if self.limit.cap else ""
        problem = Problem("", code.number, Reason.FORBIDDEN, text, rule=rule, policy_kind="cap")
        return Forecast(problem, permanent, affects_all)


def forecast_cap(
    workload: ForecastWorkload,
    cap: ActiveCap,
    compute_charge: Callable[[Pod], Charge],
    before: Amounts,
    read_ledger: Callable[[], Ledger | None],
) -> Iterator[Forecast]:
    """Yield the forecasts for the workload's pods and their claims under one cap.

    `compute_charge` returns the charge of one pod, `before` is the amount that the ledger already counts of the old
    workload; `read_ledger` returns the ledger, or None if it is unavailable.
    """
    charge = compute_charge(workload.template)
    if workload.replicas.count:
        already_unlimited = compute_charge(workload.old_template).unlimited if workload.old_template else {}
        for name, containers in charge.unlimited.items():
            if added := tuple(each for each in containers if each not in already_unlimited.get(name, ())):
                problem = create_missing_limit_problem(cap.definition.name, name, added, workload.path)
                yield Forecast(problem, permanent=True, affects_all=True)

    def read_charged() -> Amounts | None:
        ledger = read_ledger()
        if ledger is None:
            return None
        charged = ledger.compute_charged()
        unknown = [name for name in least if not is_counted(ledger, cap, name)]
        return Amounts({name: charged[name] for name in charged if name not in unknown}) if unknown else charged

    codes = WORKLOAD_OVER_CAP, WORKLOAD_OVER_FREE, WORKLOAD_ROLLOUT
    least = workload.claims.compute_least(cap)
    claimed = workload.claims.compute_charge(cap) + least
    label = f"cap {cap.definition.name} {describe_scope(cap)}"
    limit = ForecastLimit(label, cap.hard, *codes, cap=cap, claimed=claimed, least=frozenset(least))
    yield from forecast_resources(workload, limit, charge.amounts + claimed, before, read_charged)
