"""The language of sequence files: their schema, and the formats that it has beside those of policies."""

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jsonschema import FormatChecker

from webhook.policy.formats import FormatError, create_format_checker, quote_text
from webhook.policy.nodes import Number
from webhook.policy.policy_codes import BAD_LENGTH, BAD_QUANTITY, UNREADABLE
from webhook.policy.schema import DocumentSchema
from webhook.server.settings.value_types import DurationError, parse_duration

SCHEMA_FILE = "schema.json"
MAX_PODS: Final = 1000
"""Pods of one workload; each of them goes through the gate."""

MAX_WAIT_SECONDS: Final = 86_400.0
"""Seconds that one step may wait."""


@cache
def get_scenario_language() -> DocumentSchema:
    """What a sequence may say."""
    schema = json.loads(files("webhook.cli.sequences").joinpath(SCHEMA_FILE).read_text(encoding="utf-8"))
    return DocumentSchema(
        schema,
        create_scenario_format_checker(),
        required_head="apiVersion: v1 and kind: Pod, say",
        document_form="a sequence must be a mapping with name and steps; `tallygate test --help` shows one",
    )


def create_scenario_format_checker() -> FormatChecker:
    """The formats of policies, and three more: where, how many, and how long."""
    format_checker = create_format_checker()
    format_checker.checks("path", raises=FormatError)(_is_path)
    format_checker.checks("count", raises=FormatError)(_is_count)
    format_checker.checks("duration", raises=FormatError)(_is_duration)
    return format_checker


def _is_path(instance: Any) -> bool:
    """A path that can be shown as it is."""
    if isinstance(instance, str) and not (instance.strip() and instance.isprintable()):
        raise FormatError(UNREADABLE, f"{quote_text(instance)!a} is no path; write one as in ../caps.yaml")
    return True


def _is_count(instance: Any) -> bool:
    """A number of pods."""
    if isinstance(instance, Number):
        text = instance.text
        if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_PODS)) or int(text) > MAX_PODS:
            raise FormatError(
                BAD_QUANTITY, f"{quote_text(text)} is no number of pods here; write one from 0 to {MAX_PODS}"
            )
    return True


def _is_duration(instance: Any) -> bool:
    """How long to wait."""
    if isinstance(instance, str):
        try:
            seconds = parse_duration(instance)
        except DurationError as error:
            raise FormatError(BAD_QUANTITY, str(error)) from error
        if seconds > MAX_WAIT_SECONDS:
            raise FormatError(
                BAD_LENGTH, f"{quote_text(instance)} is longer than 24h, which is all that one step waits"
            )
    return True
