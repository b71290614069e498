"""What the containers of a pod would run with: arguments as a kubelet expands them, through the command line."""

from typing import Any, NamedTuple

from tests.deploy.rendered import Object, Objects
from webhook.admission.webhook_configuration import DEFAULT_NAMESPACE
from webhook.cli.relay import relay
from webhook.cli.serve.command import serve
from webhook.server.relay.failover import PeerService
from webhook.server.settings.sources import load_settings
from webhook.server.settings.table import Settings
from webhook.server.settings.value_types import Address

_VARIABLE = "TALLYGATE_NAMESPACE"


class Relaying(NamedTuple):
    """What a relay runs with: settings that a gate has too, whom it asks, and the file of who vouches for others."""

    settings: Settings
    upstream: Address
    peers: PeerService
    peers_ca_file: str


def pod(objects: Objects) -> Object:
    """The gate's pod."""
    found: Object = objects["Deployment", "tallygate"]["spec"]["template"]["spec"]
    return found


def container(objects: Objects, name: str = "tallygate") -> Object:
    """One container of it."""
    (found,) = (each for each in pod(objects)["containers"] if each["name"] == name)
    return dict(found)


def gate_settings(objects: Objects) -> Settings:
    """What the gate would run with."""
    params = _params(container(objects), serve)
    return load_settings(params, {_VARIABLE: DEFAULT_NAMESPACE}, params.pop("config"))


def relay_settings(objects: Objects) -> Relaying:
    """What the relay would."""
    params = _params(container(objects, "relay"), relay)
    upstream, peers, peers_ca_file = (params.pop(name) for name in ("upstream", "peers", "peers_ca_file"))
    return Relaying(
        load_settings(params, {_VARIABLE: DEFAULT_NAMESPACE}, params.pop("config")), upstream, peers, str(peers_ca_file)
    )


def _params(found: Object, command: Any) -> dict[str, Any]:
    assert [each["name"] for each in found["env"]] == [_VARIABLE]
    name, *arguments = (each.replace(f"$({_VARIABLE})", DEFAULT_NAMESPACE) for each in found["args"])
    assert name == command.name
    return dict(command.make_context(name, list(arguments)).params)
