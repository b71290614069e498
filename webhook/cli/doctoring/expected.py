"""What should be registered: made by what makes the registration itself, so that both cannot part."""

from typing import Any

import msgspec

from webhook.admission.registration import ServiceTarget, create_webhook_configurations
from webhook.cli.doctoring.facts import MUTATING, VALIDATING, Whereabouts
from webhook.cli.doctoring.records import Configuration, Webhook


class Expected:
    """Both configurations of a gate, as `tallygate` registers it."""

    def __init__(self, here: Whereabouts, failure_policy: str = "Fail") -> None:
        from_table = create_webhook_configurations(ServiceTarget(), failure_policy=failure_policy, own_namespace=here.namespace)
        self._written = dict(zip((MUTATING, VALIDATING), from_table, strict=True))

    def configuration(self, kind: str) -> Configuration:
        """One of them, read."""
        return msgspec.convert(self._written[kind], Configuration)

    def webhook(self, kind: str, name: str) -> Webhook | None:
        """One webhook of it; None where none is called so."""
        return next((each for each in self.configuration(kind).webhooks if each.name == name), None)

    def field(self, kind: str, name: str, field: str) -> Any:
        """What is written in a field of one, as JSON; None where it has none."""
        return next(each for each in self._written[kind]["webhooks"] if each["name"] == name).get(field)
