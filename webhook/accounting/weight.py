"""What a pod weighs when nodes are compared: a container that asks for no cpu or no memory counts as a small one.

Source: getNonMissingContainerRequests and CalculateResource in pkg/scheduler/framework/types.go, pod_resources.go in
pkg/scheduler/util, v1.36. Nothing is promised or refused by weight.
"""

from webhook.accounting.amounts import Amounts
from webhook.accounting.asks import NOTHING, ContainerAsk, PodAsk, Quantities, read_pod
from webhook.accounting.quantity import Quantity
from webhook.accounting.requests import requests_of
from webhook.accounting.resize import View, as_seen
from webhook.objects.pods import Pod, PodSpec

_SMALL: Quantities = {
    "cpu": Quantity.from_json(b'"100m"'),
    "memory": Quantity.from_json(b'"200Mi"'),
}


def weight(pod: Pod) -> Amounts:
    """A pod's cpu (milli) and memory (bytes) as they weigh on its node, or would.

    Raises:
        QuantityError: one of its quantities is none.
    """
    ask = as_seen(read_pod(pod.spec or PodSpec()), pod.status, View.SCHEDULER)
    small = _SMALL
    if ask.requests:  # what the pod level, or a container under it, asks for is not made up for
        asked = requests_of(ask).quantities
        small = {name: least for name, least in _SMALL.items() if name not in asked}
    weighed = requests_of(_made_up(ask, small)).amounts
    return Amounts({name: weighed.get(name, 0) for name in _SMALL})


def newcomer_weight(pod: Pod) -> Amounts:
    """What a pod that is to be placed would weigh on any node, by resource.

    The score of NodeResourcesFit passes over what is asked for at pod level: its scorers are made without that feature
    (nodeResourceStrategyTypeMap in plugins/noderesources/fit.go, v1.36).

    Raises:
        QuantityError: one of its quantities is none.
    """
    ask = read_pod(pod.spec or PodSpec())._replace(requests=NOTHING, limits=NOTHING)
    return requests_of(_made_up(ask, _SMALL)).amounts


def _made_up(ask: PodAsk, small: Quantities) -> PodAsk:
    return ask._replace(
        containers=tuple([_with(each, small) for each in ask.containers]),
        init=tuple([_with(each, small) for each in ask.init]),
    )


def _with(container: ContainerAsk, small: Quantities) -> ContainerAsk:
    return container._replace(requests={**small, **container.requests})
