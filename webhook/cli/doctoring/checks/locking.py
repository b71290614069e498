"""Whether the gate can stand in the cluster's way, and what it is kept out of."""

from collections.abc import Iterator, Sequence

from webhook.accounting.selectors import SelectorError, parse_selector
from webhook.cli.doctoring.expected import Expected
from webhook.cli.doctoring.facts import VALIDATING, Facts, Unseen
from webhook.cli.doctoring.matching import CHANGED_POD, NEW_POD, Request, asks, judges_pods, selects
from webhook.cli.doctoring.mending import own, patched
from webhook.cli.doctoring.records import Budget, Configuration, Deployment, Space, Webhook
from webhook.cli.doctoring.rights import Feature, features
from webhook.cli.doctoring.verdict import Check, Said, failed, named, passed, together, unknown, warned

_FAIL = "Fail"
_KUBE_SYSTEM = "kube-system"
_TWO = 2
_VITAL = (
    Request("", "nodes", "CREATE", "Cluster"),
    Request("", "nodes/status", "UPDATE", "Cluster"),
    Request("coordination.k8s.io", "leases", "UPDATE", "Namespaced"),
    Request("", "namespaces", "UPDATE", "Cluster"),
    Request("", "endpoints", "UPDATE", "Namespaced"),
    Request("discovery.k8s.io", "endpointslices", "UPDATE", "Namespaced"),
    Request("", "secrets", "UPDATE", "Namespaced"),
    Request("", "configmaps", "UPDATE", "Namespaced"),
    Request("", "serviceaccounts/token", "CREATE", "Namespaced"),
    Request("", "pods/status", "UPDATE", "Namespaced"),
    Request("", "pods/binding", "CREATE", "Namespaced"),
    Request("", "pods/eviction", "CREATE", "Namespaced"),
    Request("", "pods", "DELETE", "Namespaced"),
    Request("apiextensions.k8s.io", "customresourcedefinitions", "UPDATE", "Cluster"),
    Request("certificates.k8s.io", "certificatesigningrequests", "CREATE", "Cluster"),
    Request("rbac.authorization.k8s.io", "clusterroles", "UPDATE", "Cluster"),
)
"""What a cluster must be able to do while no gate answers, if one is ever to answer again. We judge none of it."""

_Found = tuple[str, Configuration, Webhook]


def _failing(facts: Facts) -> Iterator[_Found]:
    """The webhooks without whose answer a request is refused."""
    for kind, found in facts.configurations():
        for webhook in found.webhooks:
            if webhook.failure_policy == _FAIL:
                yield kind, found, webhook


def _failure_policy(facts: Facts) -> Said:
    if facts.unregistered:
        return unknown(facts.unregistered)
    said = list(_open(facts))
    if any(judges_pods(webhook) for _, _, webhook in _failing(facts)):
        said += _borne(facts)
    return together(said, passed(_standing(facts)))


def _open(facts: Facts) -> Iterator[Said]:
    for kind, found in facts.configurations():
        for webhook in found.webhooks:
            if judges_pods(webhook) and webhook.failure_policy != _FAIL:
                why = f"{webhook.name} has failurePolicy Ignore: while the gate is away, pods pass unjudged"
                yield warned(why, patched(facts.here, kind, found, webhook, "failurePolicy", _FAIL))


def _borne(facts: Facts) -> Iterator[Said]:
    """What Fail asks of those who answer."""
    if facts.is_called_by_url:
        return
    deployment = facts.deployment
    if isinstance(deployment, Unseen):
        yield unknown(f"the Deployment cannot be read: {deployment.why}")
    elif deployment is None:
        yield failed(f"failurePolicy is Fail, and there is no Deployment {facts.here.namespace}/tallygate to answer")
    elif deployment.status.ready_replicas == 0:
        yield _nobody(facts, deployment)
    elif deployment.spec.replicas < _TWO:
        why = "failurePolicy is Fail with one replica: while it restarts, no pod can be created"
        yield warned(why, *_second(facts, deployment))
    else:
        yield from _budgeted(facts, deployment)


def _nobody(facts: Facts, deployment: Deployment) -> Said:
    wanted = deployment.spec.replicas
    why = f"failurePolicy is Fail and 0 of {wanted} replicas are ready: no pod can be created outside kube-system"
    if wanted == 0:
        return failed(why, own(facts.here, "scale", "deployment/tallygate", "--replicas=1"))
    return failed(why, own(facts.here, "describe", "pods", "--selector=app.kubernetes.io/component=gate"))


def _second(facts: Facts, deployment: Deployment) -> tuple[str, ...]:
    """A second replica, where ledgers are in the cluster: two that keep them in memory would each promise all of it."""
    if Feature.KEEPS not in features(deployment.arguments):
        return ()
    return (own(facts.here, "scale", "deployment/tallygate", "--replicas=2"),)


def _budgeted(facts: Facts, deployment: Deployment) -> Iterator[Said]:
    if isinstance(facts.budgets, Unseen):
        yield unknown(f"PodDisruptionBudgets cannot be read: {facts.budgets.why}")
        return
    holding = [each for each in facts.budgets if _holds(each, deployment)]
    if not holding:
        why = (
            f"no PodDisruptionBudget holds the {deployment.spec.replicas} replicas: a drain may end all of them at once"
        )
        command = ("create", "poddisruptionbudget", "tallygate", "--min-available=1")
        yield warned(why, own(facts.here, *command, "--selector=app.kubernetes.io/component=gate"))
    for each in holding:
        if each.status.expected_pods > 0 and each.status.disruptions_allowed == 0:
            yield warned(
                f"the PodDisruptionBudget {each.metadata.name} lets no replica go: a drain of its node waits for ever"
                if deployment.status.ready_replicas >= deployment.spec.replicas
                else f"{deployment.status.ready_replicas} of {deployment.spec.replicas} replicas are ready, and the "
                f"PodDisruptionBudget {each.metadata.name} lets none of them go"
            )


def _holds(budget: Budget, deployment: Deployment) -> bool:
    try:
        return parse_selector(budget.spec.selector).matches(deployment.spec.template.metadata.labels or {})
    except SelectorError:
        return False


def _standing(facts: Facts) -> str:
    if facts.is_called_by_url:
        return "Fail; the gate is called by URL, and how many answer there is not to be seen from here"
    deployment = facts.deployment
    ready = deployment.status.ready_replicas if isinstance(deployment, Deployment) else 0
    return f"Fail, with {ready} ready replicas and a PodDisruptionBudget"


def _exempt(facts: Facts) -> Said:
    if facts.unregistered:
        return unknown(facts.unregistered)
    spared = _spared(facts)
    said = [
        failed(
            f"{webhook.name} asks the gate about pods in {named(taken)} with failurePolicy Fail: "
            "when the gate is away, what brings it back cannot be created",
            _selector_of(facts, kind, found, webhook),
        )
        for kind, found, webhook in _failing(facts)
        if judges_pods(webhook) and (taken := [each.name for each in spared if selects(webhook, each)])
    ]
    return together(said, passed(f"the gate is not asked about {' and '.join(each.name for each in spared)}"))


def _selector_of(facts: Facts, kind: str, found: Configuration, webhook: Webhook) -> str:
    expected = Expected(facts.here)
    name = webhook.name if expected.webhook(kind, webhook.name) else expected.configuration(kind).webhooks[0].name
    value = expected.field(kind, name, "namespaceSelector")
    return patched(facts.here, kind, found, webhook, "namespaceSelector", value)


def _spared(facts: Facts) -> list[Space]:
    """kube-system, and the gate's own where it runs in the cluster; with their labels, as far as they are known."""
    known = {} if isinstance(facts.spaces, Unseen) else {each.name: each for each in facts.spaces}
    names = [_KUBE_SYSTEM]
    if isinstance(facts.spaces, Unseen) or facts.here.namespace in known:
        names.append(facts.here.namespace)
    return [known.get(name, Space(name, {})) for name in names]


def _lockout(facts: Facts) -> Said:
    if facts.unregistered:
        return unknown(facts.unregistered)
    said = []
    for kind, found, webhook in _failing(facts):
        taken = [str(each) for each in _VITAL if asks(webhook, each)]
        if taken:
            why = f"{webhook.name} has failurePolicy Fail and speaks of {named(taken)}: without the gate that fails"
            said.append(failed(why, *_freed(facts, kind, found, webhook)))
    return together(said, passed("without the gate nodes, leases and all that brings it back still work"))


def _freed(facts: Facts, kind: str, found: Configuration, webhook: Webhook) -> Sequence[str]:
    expected = Expected(facts.here)
    ours = expected.webhook(kind, webhook.name)
    if ours is None or ours.failure_policy != _FAIL:
        return (patched(facts.here, kind, found, webhook, "failurePolicy", "Ignore"),)
    return (patched(facts.here, kind, found, webhook, "rules", expected.field(kind, webhook.name, "rules")),)


def _passed_over(facts: Facts) -> Said:
    if isinstance(facts.spaces, Unseen):
        return unknown(f"namespaces cannot be listed: {facts.spaces.why}")
    if not isinstance(facts.validating, Configuration):
        return unknown(facts.unregistered or "the gate's validating configuration cannot be seen")
    found = facts.validating
    asking = [webhook for webhook in found.webhooks if judges_pods(webhook)]
    spared = {each.name for each in _spared(facts)}
    others = [each for each in facts.spaces if each.name not in spared]
    over = sorted(each.name for each in others if not _is_judged(asking, each))
    if not over:
        return passed(f"all {len(others)} namespaces beside {' and '.join(sorted(spared))} are judged")
    mend = [
        _selector_of(facts, VALIDATING, found, webhook)
        for webhook in asking
        if not all(selects(webhook, each) for each in others)
    ]
    return warned(
        f"{len(over)} of {len(others)} namespaces are passed over by namespaceSelector: {named(over)}; no rule and no "
        "cap holds there",
        *mend,
    )


def _is_judged(asking: Sequence[Webhook], space: Space) -> bool:
    """Whether somebody is asked about new pods there, and about changed ones."""
    return all(
        any(asks(webhook, request) and selects(webhook, space) for webhook in asking)
        for request in (NEW_POD, CHANGED_POD)
    )


CHECKS = (
    Check(
        "failure-policy",
        "What happens without the gate fits how it runs",
        "FAIL: Fail, and nobody is ready; WARN: Ignore, one replica, no PodDisruptionBudget, one that lets nobody go",
        _failure_policy,
    ),
    Check(
        "exempt",
        "kube-system and the gate's own namespace do not wait for it",
        "FAIL: Fail, and pods are judged there",
        _exempt,
    ),
    Check(
        "lockout",
        "Nothing that brings the gate back waits for it",
        "FAIL: a webhook with Fail speaks of nodes, leases, secrets or the like",
        _lockout,
    ),
    Check(
        "passed-over",
        "All other namespaces are judged",
        "WARN: a namespaceSelector leaves some out",
        _passed_over,
    ),
)
