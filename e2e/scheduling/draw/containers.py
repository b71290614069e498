"""The resource requests of pods: containers, init containers, sidecars, pod-level resources, and host ports."""

from e2e.scheduling.draw.dice import Dice
from e2e.scheduling.draw.names import BANANAS, GPU, IMAGE, IP, Json

_SMALL = {
    "cpu": (0.7, ("100m", "250m", "333m", "1500u")),
    "memory": (0.6, ("64Mi", "100M", "512Mi", "1.5e8")),
}
_LARGE = {
    "cpu": (0.7, ("250m", "500m", "1", "1500m", "2", "3")),
    "memory": (0.6, ("512Mi", "1Gi", "2Gi", "3Gi", "1500M")),
    "ephemeral-storage": (0.15, ("1Gi", "5Gi")),
    GPU: (0.25, ("1", "2", "4")),
    IP: (0.2, ("0", "1", "2")),
    BANANAS: (0.2, ("1", "2", "1500m")),
    "hugepages-2Mi": (0.12, ("4Mi", "64Mi", "128Mi")),
}
_COUNTABLE = (GPU, IP, BANANAS, "hugepages-2Mi")
"""Resources whose limits are required and equal the requests."""
_PORTS = {80: 3.0, 443: 1.0}


def containers(dice: Dice, *, modest: bool) -> Json:
    """Return the part of a pod's spec that requests resources; `modest` pods request little."""
    spec: Json = {"containers": [_container(dice, f"c{number}", modest=modest) for number in range(dice.count(1, 2))]}
    if dice.often("resources", 0.15, 0.35):
        spec["initContainers"] = [_init(dice, f"i{number}", modest=modest) for number in range(dice.count(1, 2))]
    if dice.often("resources", 0.03, 0.15):
        spec["resources"] = _pod_level_resources(dice, modest=modest)
    if dice.often("resources", 0.03, 0.12):
        spec["runtimeClassName"] = dice.pick(("heavy", "heavy", "apart"))
    if dice.often("ports", 0.01, 0.06):
        spec["hostNetwork"] = True
    return spec


def _container(dice: Dice, name: str, *, modest: bool) -> Json:
    container: Json = {"name": name, "image": IMAGE, "resources": _resources(dice, modest=modest)}
    if dice.often("ports", 0.04, 0.7):
        container["ports"] = [_port(dice)]
    return container


def _init(dice: Dice, name: str, *, modest: bool) -> Json:
    init = {"name": name, "image": IMAGE, "resources": _resources(dice, modest=modest)}
    return init | ({"restartPolicy": "Always"} if dice.chance(0.5) else {})


def _resources(dice: Dice, *, modest: bool) -> Json:
    wanted = _SMALL if modest or "resources" not in dice.about or dice.chance(0.3) else _LARGE
    requests = {name: dice.pick(amounts) for name, (chance, amounts) in wanted.items() if dice.chance(chance)}
    if modest and dice.often("resources", 0.0, 0.25):
        requests |= {dice.pick((GPU, IP, BANANAS)): "1"}
    if not modest and dice.often("resources", 0.0, 0.03):
        # Four of these are less than 2^63. Beyond that the scheduler overflows, and the prediction does not.
        requests |= {GPU: "2E"}
    if "hugepages-2Mi" in requests:
        requests |= {"cpu": "250m"}
    limits = {name: requests[name] for name in _COUNTABLE if name in requests}
    if dice.chance(0.1) and "cpu" not in limits:
        limits |= {"cpu": "4"}  # a missing request becomes the limit
    return {"requests": requests} | ({"limits": limits} if limits else {})


def _pod_level_resources(dice: Dice, *, modest: bool) -> Json:
    requests = {"cpu": "1" if modest else dice.pick(("3", "5", "8")), "memory": dice.pick(("2Gi", "6Gi"))}
    return {"requests": {name: requests[name] for name in dice.sample(tuple(requests), 1, 2)}}


def _port(dice: Dice) -> Json:
    port = dice.pick_weighted(_PORTS)
    entries: Json = {
        "containerPort": port,
        "hostPort": port,
        "protocol": dice.pick_weighted({"TCP": 6, "UDP": 2, "SCTP": 1}),
    }
    address = dice.pick(("", "", "", "0.0.0.0", "127.0.0.1", "10.0.0.1"))  # noqa: S104  nothing is bound
    return entries | ({"hostIP": address} if address else {})
