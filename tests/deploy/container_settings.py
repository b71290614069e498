"""The settings of the containers of a pod: arguments as a kubelet expands them, parsed by the command line."""

from typing import Any, NamedTuple

from tallygate.webhook.admission.webhook_configuration import DEFAULT_NAMESPACE
from tallygate.webhook.cli.relay import relay
from tallygate.webhook.cli.serve.command import serve
from tallygate.webhook.server.relay.failover import PeerService
from tallygate.webhook.server.settings.sources import load_settings
from tallygate.webhook.server.settings.table import Settings
from tallygate.webhook.server.settings.value_types import Address
from tests.deploy.rendering import Object, Objects

_VARIABLE = "TALLYGATE_NAMESPACE"


class RelaySettings(NamedTuple):
    """The settings of a relay: those that a gate has too, its upstream, its peers, and the CA file of its peers."""

    settings: Settings
    upstream: Address
    peers: PeerService
    peers_ca_file: str


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
    params = _params(get_container(objects, "relay"), relay)
    upstream, peers, peers_ca_file = (params.pop(name) for name in ("upstream", "peers", "peers_ca_file"))
    return RelaySettings(
        load_settings(params, {_VARIABLE: DEFAULT_NAMESPACE}, params.pop("config")), upstream, peers, str(peers_ca_file)
    )


def _params(found: Object, command: Any) -> dict[str, Any]:
    assert [each["name"] for each in found["env"]] == [_VARIABLE]
    name, *arguments = (each.replace(f"$({_VARIABLE})", DEFAULT_NAMESPACE) for each in found["args"])
    assert name == command.name
    return dict(command.make_context(name, list(arguments)).params)
