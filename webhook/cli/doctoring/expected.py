"""What should be registered: made by what makes the registration itself, so that both cannot part."""

from typing import Any

import msgspec

from webhook.admission.webhook_configuration import ServiceTarget, create_webhook_configurations
from webhook.cli.doctoring.facts import MUTATING, VALIDATING, GateLocation
from webhook.cli.doctoring.records import Webhook, WebhookConfiguration


class ExpectedConfigurations:
    """Both configurations of a gate, as `tallygate` registers it."""

    def __init__(self, location: GateLocation, failure_policy: str = "Fail") -> None:
        configurations = create_webhook_configurations(
            ServiceTarget(), failure_policy=failure_policy, own_namespace=location.namespace
        )
        self._configurations = dict(zip((MUTATING, VALIDATING), configurations, strict=True))

    def get_configuration(self, kind: str) -> WebhookConfiguration:
        """One of them, read."""
        return msgspec.convert(self._configurations[kind], WebhookConfiguration)

    def find_webhook(self, kind: str, name: str) -> Webhook | None:
        """One webhook of it; None where none is called so."""
        return next((webhook for webhook in self.get_configuration(kind).webhooks if webhook.name == name), None)

    def get_field(self, kind: str, name: str, field_name: str) -> Any:
        """What is written in a field of one, as JSON; None where it has none."""
        return next(webhook for webhook in self._configurations[kind]["webhooks"] if webhook["name"] == name).get(
            field_name
        )
