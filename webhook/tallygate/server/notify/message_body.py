"""The bodies of messages: JSON values whose texts have placeholders, which are filled before the value is encoded.

So no value of a placeholder ends the text in which it stands.

Slack reads `&`, `<` and `>` of a text as its own, and no others: they are escaped, so that no value mentions a channel.
Of the top-level `text`, and not of blocks, `mrkdwn: false` ends the markup, and `parse: none` the search for addresses,
which would make links of resources and groups (api.slack.com/reference/surfaces/formatting: "Escaping text", "Disabling
automatic parsing", "Disabling formatting").

Workflows webhooks of Teams take a message with Adaptive Cards (learn.microsoft.com/microsoftteams/platform/
webhooks-and-connectors/how-to/connectors-using), of at most about 28 KB (learn.microsoft.com/connectors/teams: "Message
size limit"). The text is a TextRun, which reads no Markdown, as a TextBlock would (learn.microsoft.com/adaptive-cards/
authoring-cards/text-features).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

PLACEHOLDERS: Final = (
    "message",
    "event",
    "cluster",
    "cap",
    "namespace",
    "group",
    "resource",
    "used",
    "limit",
    "since",
    "until",
    "gate",
    "count",
)
"""The names of placeholders."""

_CARD: Final = {
    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
    "type": "AdaptiveCard",
    "version": "1.4",
    "body": [
        {"type": "TextBlock", "text": "tallygate", "weight": "Bolder"},
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": "${message}"}]},
    ],
}
BODIES: Final[Mapping[str, Any]] = {
    "slack": {"text": "${message}", "mrkdwn": False, "parse": "none"},
    "teams": {
        "type": "message",
        "attachments": [
            {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": _CARD}
        ],
    },
    "json": {name: f"${{{name}}}" for name in PLACEHOLDERS},
}
"""The body of each format."""

_MAX_VALUE_LENGTH: Final = 500
_MAX_MESSAGE_LENGTH: Final = 3000
_MARK: Final = re.compile(r"\$\$\{|\$\{([^{}]*)\}|\$\{")
_SLACK_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def find_unknown_placeholders(text: str) -> Iterator[str]:
    """Yield each placeholder of a text that does not exist, as it is written."""
    for match in _MARK.finditer(text):
        if match[0] != "$${" and match[1] not in PLACEHOLDERS:
            yield match[0]


def render_body(template: Any, format_name: str, fields: Mapping[str, str]) -> bytes:
    """Return the body of a message with these fields in JSON; a field that the event does not have is empty.

    Long values are shortened.
    """
    values = {name: _shorten(fields.get(name, ""), _MAX_VALUE_LENGTH) for name in PLACEHOLDERS}
    message = _shorten(fields.get("message", ""), _MAX_MESSAGE_LENGTH)
    values["message"] = f"{values['cluster']}: {message}" if values["cluster"] else message
    if format_name == "slack":
        values = {name: value.translate(_SLACK_ESCAPES) for name, value in values.items()}
    return msgspec.json.encode(_fill(template, values))


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _fill(template: Any, values: Mapping[str, str]) -> Any:
    if isinstance(template, str):
        return _MARK.sub(lambda match: values[match[1]] if match[1] else "${", template)
    if isinstance(template, Mapping):
        return {name: _fill(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, values) for value in template]
    return template
