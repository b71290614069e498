"""The settings of the containers of a pod: arguments and variables as a kubelet expands them, parsed."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from tallygate.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.cli.serve.command import serve
from tallygate.server.settings.sources import load_settings
from tallygate.server.settings.table import Settings
from tallygate.server.settings.value_types import ADDRESS, Address, parse_duration
from tests.deploy.rendering import Object, Objects

_VARIABLE = "TALLYGATE_NAMESPACE"


class RelaySettings(NamedTuple):
    """The settings of a relay, from the environment of its container.

    `folder` is the directory that it shares with the gate. `peers` is a host name with a port.
    """

    listen: Address
    monitor: Address
    folder: Path
    gate: Address
    gate_monitor: int
    peers: str
    peers_name: str


class RelayEnd(NamedTuple):
    """Seconds: until a relay accepts nothing more when its pod ends, and until it has ended then, at most."""

    pre_stop: float
    hard_stop_after: float


def get_pod(objects: Objects) -> Object:
    """Return the gate's pod."""
    found: Object = objects["Deployment", "tallygate"]["spec"]["template"]["spec"]
    return found


def get_container(objects: Objects, name: str = "tallygate") -> Object:
    """Return one container of the gate's pod."""
    (found,) = (each for each in get_pod(objects)["containers"] if each["name"] == name)
    return dict(found)


def read_gate_settings(objects: Objects) -> Settings:
    """Return the settings of the gate."""
    params = _params(get_container(objects), serve)
    return load_settings(params, {_VARIABLE: DEFAULT_NAMESPACE}, params.pop("config"))


def read_relay_settings(objects: Objects) -> RelaySettings:
    """Return the settings of the relay."""
    environment = read_environment(get_container(objects, "relay"))
    return RelaySettings(
        ADDRESS.parse(environment["RELAY_LISTEN"]),
        ADDRESS.parse(environment["RELAY_MONITOR"]),
        Path(environment["RELAY_FOLDER"]),
        ADDRESS.parse(environment["RELAY_GATE"]),
        int(environment["RELAY_GATE_MONITOR"]),
        environment["RELAY_PEERS"],
        environment["RELAY_PEERS_NAME"],
    )


def read_relay_end(objects: Objects) -> RelayEnd:
    """Return the times of the relay's end, of its container and of its configuration."""
    command, seconds = get_container(objects, "relay")["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    (limit,) = re.findall(r"^ *hard-stop-after (\S+)", read_relay_configuration(objects), re.MULTILINE)
    return RelayEnd(float(seconds), parse_duration(limit))


def read_relay_configuration(objects: Objects) -> str:
    """Return the configuration of HAProxy."""
    ((_, text),) = objects["ConfigMap", "tallygate-relay"]["data"].items()
    return str(text)


def read_environment(container: Object) -> dict[str, str]:
    """Return the environment of a container; a variable may name those before it."""
    environment: dict[str, str] = {}
    for each in container["env"]:
        if "valueFrom" in each:
            assert each["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
            environment[each["name"]] = DEFAULT_NAMESPACE
        else:
            environment[each["name"]] = re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], each["value"])
    return environment


def _params(found: Object, command: Any) -> dict[str, Any]:
    assert [each["name"] for each in found["env"]] == [_VARIABLE]
    name, *arguments = (each.replace(f"$({_VARIABLE})", DEFAULT_NAMESPACE) for each in found["args"])
    assert name == command.name
    return dict(command.make_context(name, list(arguments)).params)
