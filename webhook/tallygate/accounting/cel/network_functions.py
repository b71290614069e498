"""Functions of IP addresses and networks (pkg/cel/library/{ip,cidr}.go of Kubernetes, net/netip of Go)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Final

from tallygate.accounting.cel.runtime_values import EvaluationError

Address = IPv4Address | IPv6Address
_PREFIX = re.compile("0|[1-9][0-9]{0,2}")
_GROUPS_OF_HEX = re.compile("[0-9a-fA-F:.]*")


@dataclass(frozen=True, slots=True)
class Network:
    """An address with the length of a prefix, as it was written: its other bits are kept."""

    address: Address
    length: int

    @property
    def interface(self) -> IPv4Interface | IPv6Interface:
        return ip_interface(f"{self.address}/{self.length}")

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


def is_address(value: object) -> bool:
    """Return whether a value is an IP address."""
    return isinstance(value, IPv4Address | IPv6Address)


def _read_address(text: object) -> Address | None:
    """Return the address that a text is for netip.ParseAddr, without zones and IPv4 in IPv6; or None."""
    if type(text) is not str:
        raise EvaluationError("no such overload")
    if not _GROUPS_OF_HEX.fullmatch(text):
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    is_mapped = isinstance(address, IPv6Address) and address.ipv4_mapped is not None
    return None if is_mapped else address


def _read_network(text: object) -> Network | None:
    """Return the network that a text is for netip.ParsePrefix, or None."""
    if type(text) is not str:
        raise EvaluationError("no such overload")
    written, slash, length = text.rpartition("/")
    address = _read_address(written)
    if not slash or address is None or not _PREFIX.fullmatch(length) or int(length) > address.max_prefixlen:
        return None
    return Network(address, int(length))


def _parse_address(value: object) -> object:
    if isinstance(value, Network):
        return value.address
    address = _read_address(value)
    if address is None:
        raise EvaluationError(f"no IP address: {value!r}")
    return address


def _parse_network(value: object) -> object:
    network = _read_network(value)
    if network is None:
        raise EvaluationError(f"no network address: {value!r}")
    return network


def _require_address(value: object) -> Address:
    if not isinstance(value, IPv4Address | IPv6Address):
        raise EvaluationError("no such overload")
    return value


def _require_network(value: object) -> Network:
    if not isinstance(value, Network):
        raise EvaluationError("no such overload")
    return value


def _is_loopback(value: object) -> object:
    return _require_address(value).is_loopback


def _is_link_local_multicast(value: object) -> object:
    address = _require_address(value)
    return address.packed[:3] == b"\xe0\x00\x00" if address.version == 4 else _is_scoped(address)  # noqa: PLR2004


def _is_scoped(address: Address) -> bool:
    """Return whether an IPv6 address is ff_2::/16."""
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02  # noqa: PLR2004


def _is_global_unicast(value: object) -> object:
    address = _require_address(value)
    is_broadcast = address == IPv4Address("255.255.255.255")
    is_special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not (is_broadcast or is_special)


def _contains_ip(value: object, other: object) -> object:
    network = _require_network(value)
    address = _require_address(_parse_address(other) if isinstance(other, str) else other)
    return address.version == network.address.version and address in network.interface.network


def _contains_cidr(value: object, other: object) -> object:
    network = _require_network(value)
    inner = _require_network(_parse_network(other) if isinstance(other, str) else other)
    if inner.address.version != network.address.version or network.length > inner.length:
        return False
    return inner.address in network.interface.network


def _mask(value: object) -> object:
    network = _require_network(value)
    return Network(network.interface.network.network_address, network.length)


NETWORK_FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "cidr": _parse_network,
    "containsCIDR": _contains_cidr,
    "containsIP": _contains_ip,
    "family": lambda value: _require_address(value).version,
    "ip": _parse_address,
    "ip.isCanonical": lambda value: str(_parse_address(value)) == value,
    "isCIDR": lambda value: _read_network(value) is not None,
    "isGlobalUnicast": _is_global_unicast,
    "isIP": lambda value: _read_address(value) is not None,
    "isLinkLocalMulticast": _is_link_local_multicast,
    "isLinkLocalUnicast": lambda value: _require_address(value).is_link_local,
    "isLoopback": _is_loopback,
    "isUnspecified": lambda value: _require_address(value).is_unspecified,
    "masked": _mask,
    "prefixLength": lambda value: _require_network(value).length,
}
