"""The webhook configurations of the gate as plain objects, as in a manifest, and back."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tallygate.admission.webhook_configuration import WebhookTarget, create_webhook_configurations
from tallygate.objects.admission_registration import WebhookConfiguration, encode_webhook


def to_plain(configuration: WebhookConfiguration) -> dict[str, Any]:
    """Return a configuration as a plain object."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": configuration.kind,
        "metadata": msgspec.to_builtins(configuration.metadata),
        "webhooks": list(map(encode_webhook, configuration.webhooks)),
    }


def to_typed(content: Mapping[str, Any]) -> WebhookConfiguration:
    """Return the record of a plain configuration."""
    return msgspec.convert(content, WebhookConfiguration)


def create_plain_configurations(target: WebhookTarget, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mutating and the validating configuration; the options are those of the typed function."""
    mutating, validating = create_webhook_configurations(target, **options)
    return to_plain(mutating), to_plain(validating)
