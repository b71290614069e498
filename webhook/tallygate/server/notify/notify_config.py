"""The file of receivers as values; the schema of the file is generated from these Structs."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from tallygate.gate.notifications import MAX_RECEIVERS, NotificationEvent, Subscription
from tallygate.policy.model import API_VERSION
from tallygate.policy.written import UNIQUE, Written

NOTIFY_KIND: Final = "NotifyConfig"

_FilePath = Annotated[str, Meta(max_length=1000, extra_json_schema={"format": "secret-file"})]
_PERIOD = {"format": "period", "maxLength": 64}


class SoftLimitEvent(Written, frozen=True):
    """The charged amount of a ledger exceeds a soft limit; once for each crossing."""


class CapFullEvent(Written, frozen=True):
    """Nothing of a resource is free in a ledger; once for each time."""

    seconds: Annotated[
        int,
        Meta(examples=["30m"], extra_json_schema=_PERIOD | {"written": {"type": "string", "default": "30m"}}),
    ] = msgspec.field(default=1800, name="for")
    """How long the cap is full before the message, up to 24h; left out: 30m."""


class OverrideEvent(Written, frozen=True):
    """An override ends soon; once for each override."""

    before: Annotated[
        int,
        Meta(
            examples=["24h"],
            extra_json_schema={"format": "run-time", "maxLength": 64, "written": {"type": "string", "default": "24h"}},
        ),
    ] = 86400
    """How long before the end the message comes, up to 720h; left out: 24h."""


class GateEvent(Written, frozen=True):
    """A check of a replica of the gate fails; once for each time, and once when all checks pass again."""

    seconds: Annotated[
        int,
        Meta(examples=["5m"], extra_json_schema=_PERIOD | {"written": {"type": "string", "default": "5m"}}),
    ] = msgspec.field(default=300, name="for")
    """How long a check fails before the message, and how long all pass before that of the recovery, up to 24h; left
    out: 5m."""


class WantedEvents(Written, frozen=True):
    """The events of a receiver, each with its times; an event that is not named is not sent."""

    soft_limit_crossed: Annotated[SoftLimitEvent | None, Meta(examples=[{}])] = None
    """The charged amount exceeds a soft limit. It comes again only after the amount was at the limit or below."""
    cap_full: Annotated[CapFullEvent | None, Meta(examples=[{"for": "30m"}])] = None
    """Nothing of a resource is free under a cap, for some time."""
    override_ends: Annotated[OverrideEvent | None, Meta(examples=[{"before": "24h"}])] = None
    """An override of a cap, by its policy or an annotation, ends soon."""
    gate_degraded: Annotated[GateEvent | None, Meta(examples=[{"for": "5m"}])] = None
    """A check of a replica fails, for some time; a further message comes when it works again."""


_ALL_EVENTS: Final = WantedEvents(SoftLimitEvent(), CapFullEvent(), OverrideEvent(), GateEvent())


class Receiver(Written, frozen=True, kw_only=True):
    """A receiver of messages. What is secret is in files, which are read again for each message."""

    name: Annotated[str, Meta(max_length=40, examples=["platform"], extra_json_schema={"format": "receiver-name"})]
    """The name in logs and metrics. Messages are remembered by it."""
    url_file: Annotated[_FilePath, Meta(title="URL file", examples=["/etc/tallygate/notify/slack"])]
    """The file with the address of the receiver, in one line. A relative path begins at the folder of this file."""
    format: Annotated[Literal["slack", "teams", "json"], Meta(examples=["slack"], extra_json_schema={"type": None})] = (
        "json"
    )
    """The form of a message: that of Slack's incoming webhooks, that of Teams' Workflows webhooks, or JSON with all
    fields. With a body, slack escapes the values in it. Left out: json."""
    body: Annotated[
        Any,
        Meta(
            examples=[{"title": "tallygate: ${event}", "text": "${message}"}],
            extra_json_schema={"type": ["object", "array"]},
        ),
    ] = None
    """The body in place of that of the format. Placeholders such as ${message} in its texts are replaced; a body is
    written as JSON after that. $${ stands for ${."""
    headers_file: Annotated[_FilePath, Meta(examples=["/etc/tallygate/notify/headers"])] = ""
    """A file with further headers of requests, one a line, as in Authorization: Bearer …"""
    ca_file: Annotated[_FilePath, Meta(title="CA file", examples=["/etc/tallygate/notify/ca.crt"])] = ""
    """The CA certificates of the receiver, PEM; left out: those of the system."""
    plain_http: Annotated[bool, Meta(title="Plain HTTP", examples=[True])] = False
    """Whether the address may be one of HTTP, so that anyone on the way reads and changes messages. Left out: HTTPS
    alone, but for an address of this host."""
    events: Annotated[
        WantedEvents | None, Meta(examples=[{"capFull": {"for": "30m"}}], extra_json_schema={"minProperties": 1})
    ] = None
    """The events that are sent; left out: all, with their usual times."""
    caps: Annotated[
        tuple[
            Annotated[
                str,
                Meta(
                    title="Cap pattern",
                    description="The name of a cap or a glob: '*' matches any run of characters, '?' one.",
                    max_length=253,
                    examples=["gpu-*"],
                    extra_json_schema={"format": "cap-pattern"},
                ),
            ],
            ...,
        ],
        Meta(min_length=1, max_length=100, examples=[["gpu-*"]], extra_json_schema=UNIQUE),
    ] = ()
    """Only caps with one of these names: names or globs. Left out: all caps."""
    at_most: Annotated[int, Meta(examples=[20], extra_json_schema={"format": "message-count"})] = 20
    """The most messages in an hour, up to 60; the last one sums up all others. Left out: 20."""

    def create_subscription(self) -> Subscription:
        """Return the events and caps of this receiver, with their times."""
        events = self.events or _ALL_EVENTS
        full, override, gate = events.cap_full, events.override_ends, events.gate_degraded
        wanted = {
            NotificationEvent.SOFT_LIMIT_CROSSED: None if events.soft_limit_crossed is None else 0,
            NotificationEvent.CAP_FULL: None if full is None else full.seconds,
            NotificationEvent.OVERRIDE_ENDS: None if override is None else override.before,
            NotificationEvent.GATE_DEGRADED: None if gate is None else gate.seconds,
        }
        seconds = {event: float(each) for event, each in wanted.items() if each is not None}
        return Subscription(self.name, seconds, self.caps, self.at_most)


class NotifyConfig(Written, frozen=True, kw_only=True):
    """The receivers of messages of a gate."""

    api_version: Annotated[
        Literal["tallygate.dev/v1alpha1"],
        Meta(title="API version", examples=[API_VERSION], extra_json_schema={"type": "string"}),
    ]
    """The version of this form."""
    kind: Annotated[Literal["NotifyConfig"], Meta(examples=[NOTIFY_KIND], extra_json_schema={"type": "string"})]
    """The kind of this document."""
    cluster: Annotated[
        str, Meta(max_length=100, examples=["prod-eu"], extra_json_schema={"format": "cluster-name"})
    ] = ""
    """The name of this cluster, with which each message begins: for a channel of several clusters. Left out: none."""
    receivers: Annotated[
        tuple[
            Annotated[
                Receiver,
                Meta(
                    title="Receiver",
                    description="One receiver, and what it gets.",
                    examples=[{"name": "platform", "format": "slack", "urlFile": "slack"}],
                ),
            ],
            ...,
        ],
        Meta(
            min_length=1,
            max_length=MAX_RECEIVERS,
            examples=[[{"name": "platform", "format": "slack", "urlFile": "/etc/tallygate/notify/slack"}]],
        ),
    ]
    """The receivers, up to 10."""
