"""The reader of the file of receivers: a text in, its values or all findings out."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from tallygate.documents.scalars import Number, parse_number
from tallygate.documents.syntax_tree import Mapping as MappingNode
from tallygate.documents.syntax_tree import Node, Position, Scalar, join_path
from tallygate.documents.syntax_tree import Sequence as SequenceNode
from tallygate.errors import TallygateError
from tallygate.gate.notifications import MAX_AT_MOST
from tallygate.policy import policy_codes
from tallygate.policy.config_document import ConfigForm, create_config_error, read_config_document
from tallygate.policy.formats import FormatError, check_period, check_run_time, create_format_checker, quote_text
from tallygate.policy.lint_findings import LintFinding
from tallygate.policy.parse import MAX_FILE_BYTES
from tallygate.policy.periods import parse_period, parse_run_time
from tallygate.policy.policy_builder import Fields
from tallygate.policy.schema import SCHEMA_FILE_NAME, DocumentSchema
from tallygate.policy.suggest import format_suggestion
from tallygate.policy.written import convert, read_plain
from tallygate.server.notify.message_body import PLACEHOLDERS, find_unknown_placeholders
from tallygate.server.notify.notify_config import NotifyConfig

_EXAMPLE: Final = "receivers: [{name: platform, format: slack, urlFile: /etc/tallygate/notify/slack}]"
_MAX_SHOWN: Final = 5
_PERIODS: Final = (
    ("capFull", "for", parse_period),
    ("overrideEnds", "before", parse_run_time),
    ("gateDegraded", "for", parse_period),
)


class NotifyConfigError(TallygateError):
    """The file of receivers cannot be used; the text has its findings."""


def read_notify_file(path: Path) -> NotifyConfig:
    """Return the receivers of a file, with the paths of their files made absolute.

    Raises:
        NotifyConfigError: if the file cannot be read, or is not valid.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise NotifyConfigError(f"notify_file: {path} cannot be read: {error.strerror}") from None
    config, findings = read_notify_config(str(path), content)
    if config is None:
        more = [f"and {len(findings) - _MAX_SHOWN} more"] if len(findings) > _MAX_SHOWN else []
        raise NotifyConfigError("\n".join([*map(str, findings[:_MAX_SHOWN]), *more]))
    return config


def read_notify_config(name: str, content: bytes) -> tuple[NotifyConfig | None, tuple[LintFinding, ...]]:
    """Return the receivers of a file of this name and content, or None and its findings."""
    form = ConfigForm(get_notify_schema(), "receivers", "receivers", _EXAMPLE)
    document, findings = read_config_document(name, content, form)
    if document is not None:
        findings = (*findings, *_check_receivers(name, Fields(document).get_items("receivers")))
    if document is None or findings:
        return None, tuple(sorted({*findings}))
    return _build_config(document, Path(name).absolute().parent), ()


@cache
def get_notify_schema() -> DocumentSchema:
    text = files("tallygate.server.notify").joinpath(SCHEMA_FILE_NAME).read_text(encoding="utf-8")
    return DocumentSchema(
        json.loads(text),
        create_format_checker(_TEXT_CHECKS, {"message-count": _check_message_count}),
        required_head="apiVersion: tallygate.dev/v1alpha1 and kind: NotifyConfig",
        document_form=f"a file of receivers must be a mapping with apiVersion, kind and receivers; write {_EXAMPLE}",
    )


def _check_receivers(name: str, nodes: list[Node]) -> Iterator[LintFinding]:
    """Yield the findings that the schema cannot express."""
    first_by_name: dict[str, Position] = {}
    for index, node in enumerate(nodes):
        path, fields = f"receivers[{index}]", Fields(node)
        receiver = fields.get_node("name")
        if isinstance(receiver, Scalar):
            first = first_by_name.setdefault(receiver.text, receiver.position)
            if first is not receiver.position:
                message = f"{path}.name: {quote_text(receiver.text)} stands at line {first.line} already; write another"
                yield create_config_error(name, receiver.position, policy_codes.DUPLICATE_POLICY, message)
        body = fields.get_node("body")
        if body is not None:
            yield from _check_body(name, f"{path}.body", body)


def _check_body(name: str, path: str, node: Node) -> Iterator[LintFinding]:
    if isinstance(node, MappingNode):
        for entry in node.entries:
            yield from _check_body(name, join_path(path, entry.name), entry.value)
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from _check_body(name, join_path(path, index), item)
    elif isinstance(node.value, str):
        for written in find_unknown_placeholders(node.value):
            word = written.strip("${}")
            known = ", ".join(f"${{{placeholder}}}" for placeholder in PLACEHOLDERS)
            advice = format_suggestion(word, PLACEHOLDERS) or f"; there are {known}; $${{ stands for ${{"
            message = f"{path}: there is no placeholder {quote_text(written)}{advice}"
            yield create_config_error(name, node.position, policy_codes.UNKNOWN_VALUE, message)


def _build_config(document: Node, folder: Path) -> NotifyConfig:
    plain = read_plain(document)
    for node, receiver in zip(Fields(document).get_items("receivers"), plain["receivers"], strict=True):
        body = Fields(node).get_node("body")
        if body is not None:
            receiver["body"] = _read_value(body)
        for event, name, parse in _PERIODS:
            written = receiver.get("events", {}).get(event, {})
            written |= {name: parse(written[name])} if name in written else {}
        for name in ("urlFile", "headersFile", "caFile"):
            if name in receiver:
                receiver[name] = str(folder / receiver[name])
    return convert(plain, NotifyConfig)


def _read_value(node: Node) -> Any:
    """Return the values of a node for JSON, where a number is a number."""
    if isinstance(node, MappingNode):
        return {entry.name: _read_value(entry.value) for entry in node.entries}
    if isinstance(node, SequenceNode):
        return [_read_value(item) for item in node.items]
    return parse_number(node.text, node.text) if isinstance(node.value, Number) else node.value


_RECEIVER_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_CAP_GLOB = re.compile(r"[a-z0-9.*?-]+")


def _check_receiver_name(text: str) -> None:
    if not _RECEIVER_NAME.fullmatch(text):
        message = (
            f"{quote_text(text)} is not a name of a receiver; write lowercase letters, digits and '-', as in platform"
        )
        raise FormatError(policy_codes.BAD_NAME, message)


def _check_secret_file(text: str) -> None:
    """Check a path; an address in its place would be a secret in this file."""
    if "://" in text:
        message = "this is an address, which is a secret; write the path of a file that has it, as a Secret is mounted"
        raise FormatError(policy_codes.BAD_PATH, message)
    if not text or not text.isprintable():
        message = f"{quote_text(text)} is not a path of a file; write one as in /etc/tallygate/notify/slack"
        raise FormatError(policy_codes.BAD_PATH, message)


def _check_cap_pattern(text: str) -> None:
    if not _CAP_GLOB.fullmatch(text):
        letters = "lowercase letters, digits, '-', '.', '*' and '?'"
        message = f"{quote_text(text)} matches no name of a cap; write {letters}, as in gpu-*"
        raise FormatError(policy_codes.BAD_PATTERN, message)


def _check_cluster_name(text: str) -> None:
    if not text.isprintable() or not text.strip():
        raise FormatError(
            policy_codes.BAD_NAME, f"{quote_text(text)} is not a name of a cluster; write one as in prod-eu"
        )


def _check_message_count(text: str) -> None:
    is_whole = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_AT_MOST))
    if not (is_whole and 1 <= int(text) <= MAX_AT_MOST):
        message = (
            f"{quote_text(text)} is not a number of messages in an hour; write a whole number from 1 to {MAX_AT_MOST}"
        )
        raise FormatError(policy_codes.BAD_QUANTITY, message)


_TEXT_CHECKS: dict[str, Callable[[str], None]] = {
    "receiver-name": _check_receiver_name,
    "secret-file": _check_secret_file,
    "cap-pattern": _check_cap_pattern,
    "cluster-name": _check_cluster_name,
    "period": check_period,
    "run-time": check_run_time,
}
