"""Whether a workload's pods have room under one bound, a cap's or a ResourceQuota's, and how that is said."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.charge import Charge
from webhook.accounting.problem import Code, Problem, Reason
from webhook.admission.replicas import Replicas
from webhook.objects.core import Pod


@dataclass(frozen=True, slots=True)
class ForecastWorkload:
    """The pods of a workload, one of them, and where its template stands.

    `stored` is the template that it replaces, None when the workload is new; `rolls` when that is another.
    """

    replicas: Replicas
    template: Pod
    path: str
    old_template: Pod | None = None
    is_rollout: bool = False

    def sum_charges(self, compute_charge: Callable[[Pod], Charge]) -> Amounts:
        """What its pods cost together, when `hold` says what one does."""
        return multiply(compute_charge(self.template).amounts, self.replicas.count)


@dataclass(frozen=True, slots=True)
class Forecast:
    """One thing that will happen; `final` when it will for as long as workload and cap are what they are."""

    problem: Problem
    permanent: bool


@dataclass(frozen=True, slots=True)
class ForecastLimit:
    """What bounds the pods: how it is called, what it allows, the codes of what it says, and the cap, if it is one."""

    label: str
    hard: Amounts
    over_code: Code
    wait_code: Code
    rollout_code: Code
    cap: str = ""


ChargedReader = Callable[[], Amounts | None]
"""What counts against the bound now, all pods together; None where that is not known."""


def forecast_resources(
    workload: ForecastWorkload, limit: ForecastLimit, per_pod: Amounts, before: Amounts, read_charged: ChargedReader
) -> Iterator[Forecast]:
    """What will become of the pods: of which each costs so much, and so much is counted already."""
    requested = multiply(per_pod, workload.replicas.count)
    increase = requested.find_shortfall(before)
    for name in sorted(per_pod.keys() & limit.hard.keys()):
        forecast = _ResourceForecast(workload, limit, name, per_pod[name])
        if requested.get(name, 0) > limit.hard[name]:
            if name in increase:
                yield forecast.forecast_never()
        elif (rollout := forecast.forecast_rollout()) is not None:
            yield rollout
        elif (name in increase or forecast.has_surge) and (charged := read_charged()) is not None:
            yield from forecast.forecast_wait(charged.get(name, 0), increase.get(name, 0))


def multiply(amounts: Amounts, count: int) -> Amounts:
    """What so many cost together."""
    return Amounts({name: amount * count for name, amount in amounts.items() if amount * count})


@dataclass(frozen=True, slots=True)
class _ResourceForecast:
    """One name under one bound."""

    workload: ForecastWorkload
    limit: ForecastLimit
    name: str
    per_pod: int

    @property
    def has_surge(self) -> bool:
        """Whether a rollout begins that starts new pods first."""
        return self.workload.is_rollout and self.workload.replicas.surge > 0

    def forecast_never(self) -> Forecast:
        hard, replicas = self.limit.hard[self.name], self.workload.replicas
        fit = hard // self.per_pod
        end = f"{fit} of them can run at a time" if fit else "none of them can ever run"
        return self._create_forecast(
            self.limit.over_code,
            f"{self._describe_request(replicas.count)}, {self._describe_limit()}: {end}",
            permanent=True,
        )

    def forecast_rollout(self) -> Forecast | None:
        """A rollout has no room for its first new pod, or for all that it would start at once."""
        replicas, hard = self.workload.replicas, self.limit.hard[self.name]
        request, limit = self._describe_rollout_request(), self._describe_limit()
        if (
            replicas.held
            and (replicas.count + 1) * self.per_pod > hard
            and (self.workload.is_rollout or self.workload.old_template is None)
        ):
            text = f"{request}, {limit}: a rollout can never go on, since maxUnavailable lets it end no old pod first"
            return self._create_forecast(self.limit.rollout_code, text, permanent=self.workload.is_rollout)
        if self.has_surge and (replicas.count + replicas.surge) * self.per_pod > hard:
            return self._create_forecast(
                self.limit.rollout_code, f"{request}, {limit}: it goes on only as old pods end", permanent=False
            )
        return None

    def forecast_wait(self, charged: int, increase: int) -> Iterator[Forecast]:
        """Not all of what is new has room at the moment, or of what a rollout starts first."""
        free = max(self.limit.hard[self.name] - charged, 0)
        limit = f"{self._describe_limit()} and has {format_amount(self.name, free)} free"
        if increase > free:
            waiting = -(-(increase - free) // self.per_pod)
            text = (
                f"{self._describe_request(self.workload.replicas.count)}, {limit}: {waiting} "
                f"wait{'s' * (waiting == 1)} until other pods end"
            )
            yield self._create_forecast(self.limit.wait_code, text, permanent=False)
        elif self.has_surge and increase + self.workload.replicas.surge * self.per_pod > free:
            starts_none = self.workload.replicas.held and increase + self.per_pod > free
            end = "no new pod starts until others end" if starts_none else "it goes on only as pods end"
            yield self._create_forecast(
                self.limit.rollout_code, f"{self._describe_rollout_request()}, {limit}: {end}", permanent=False
            )

    def _describe_request(self, count: int) -> str:
        noun = self.workload.replicas.word if count != 1 else self.workload.replicas.word.removesuffix("s")
        return (
            f"{count} {noun} {'ask' if count != 1 else 'asks'} {format_amount(self.name, count * self.per_pod)} "
            f"{self.name}"
        )

    def _describe_rollout_request(self) -> str:
        replicas = self.workload.replicas
        return f"with a rollout's {replicas.surge} more, {self._describe_request(replicas.count + replicas.surge)}"

    def _describe_limit(self) -> str:
        return f"{self.limit.label} allows {format_amount(self.name, self.limit.hard[self.name])}"

    def _create_forecast(self, code: Code, text: str, *, permanent: bool) -> Forecast:
        return Forecast(
            Problem("", code.number, Reason.FORBIDDEN, text, rule=self.limit.cap, policy_kind="cap"), permanent
        )
