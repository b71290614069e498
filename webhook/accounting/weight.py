"""What a pod weighs when nodes are compared: a container that asks for no cpu or no memory counts as a small one.

Source: getNonMissingContainerRequests and CalculateResource in pkg/scheduler/framework/types.go, pod_resources.go in
pkg/scheduler/util, v1.36. Nothing is promised or refused by weight.
"""

from webhook.accounting.amounts import Amounts
from webhook.accounting.asks import NO_QUANTITIES, ContainerResources, PodResources, Quantities, parse_pod_resources
from webhook.accounting.quantity import Quantity
from webhook.accounting.requests import compute_requests
from webhook.accounting.resize import ResizeView, apply_status
from webhook.objects.pods import Pod, PodSpec

_DEFAULT_REQUESTS: Quantities = {
    "cpu": Quantity.from_json(b'"100m"'),
    "memory": Quantity.from_json(b'"200Mi"'),
}


def compute_non_zero_requests(pod: Pod) -> Amounts:
    """A pod's cpu (milli) and memory (bytes) as they weigh on its node, or would.

    Raises:
        QuantityError: one of its quantities is none.
    """
    resources = apply_status(parse_pod_resources(pod.spec or PodSpec()), pod.status, ResizeView.SCHEDULER)
    defaults = _DEFAULT_REQUESTS
    if resources.requests:  # what the pod level, or a container under it, asks for is not made up for
        requested = compute_requests(resources).quantities
        defaults = {name: least for name, least in _DEFAULT_REQUESTS.items() if name not in requested}
    amounts = compute_requests(_fill_in_pod_defaults(resources, defaults)).amounts
    return Amounts({name: amounts.get(name, 0) for name in _DEFAULT_REQUESTS})


def compute_incoming_non_zero_requests(pod: Pod) -> Amounts:
    """What a pod that is to be placed would weigh on any node, by resource.

    The score of NodeResourcesFit passes over what is asked for at pod level: its scorers are made without that feature
    (nodeResourceStrategyTypeMap in plugins/noderesources/fit.go, v1.36).

    Raises:
        QuantityError: one of its quantities is none.
    """
    resources = parse_pod_resources(pod.spec or PodSpec())._replace(requests=NO_QUANTITIES, limits=NO_QUANTITIES)
    return compute_requests(_fill_in_pod_defaults(resources, _DEFAULT_REQUESTS)).amounts


def _fill_in_pod_defaults(resources: PodResources, defaults: Quantities) -> PodResources:
    return resources._replace(
        containers=tuple([_fill_in_container_defaults(each, defaults) for each in resources.containers]),
        init=tuple([_fill_in_container_defaults(each, defaults) for each in resources.init]),
    )


def _fill_in_container_defaults(container: ContainerResources, defaults: Quantities) -> ContainerResources:
    return container._replace(requests={**defaults, **container.requests})
