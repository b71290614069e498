"""The file of receivers: what it means, and one clear finding for each mistake."""

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tallygate.gate.notifications import MAX_CONDITIONS, MAX_RECEIVERS, NotificationEvent, Subscription
from tallygate.server.notify.message_body import PLACEHOLDERS
from tallygate.server.notify.notify_config_reader import (
    NotifyConfigError,
    get_notify_schema,
    read_notify_config,
    read_notify_file,
)

_ROOT = Path(__file__).parents[3]
_CASES = Path(__file__).parent / "cases" / "configs.txt"
HEAD = "apiVersion: tallygate.dev/v1alpha1\nkind: NotifyConfig\n"


def _read_cases() -> dict[str, tuple[str, list[str]]]:
    """Return the cases by their sentence: a text, and the findings expected of it."""
    cases = {}
    for section in _CASES.read_text("utf-8").split("== ")[1:]:
        name, _, rest = section.partition("\n")
        text, _, findings = rest.partition("-- findings\n")
        cases[name] = (text, findings.split("\n")[:-1])
    return cases


@pytest.mark.parametrize("name", _read_cases())
def test_a_file_has_these_findings(name: str) -> None:
    text, expected = _read_cases()[name]
    config, findings = read_notify_config("notify.yaml", text.encode())
    assert [str(each).removeprefix("notify.yaml:") for each in findings] == [each for each in expected if each]
    assert config is None


def test_a_whole_file_is_read() -> None:
    text = """
cluster: prod-eu
receivers:
- name: platform
  format: slack
  urlFile: /secrets/slack
- name: own
  urlFile: own/url
  headersFile: own/headers
  caFile: ca.crt
  plainHttp: true
  body: {a: 1.5, b: -3, c: true, d: null, e: [1234567890, "${cap}"]}
  events: {softLimitCrossed: {}, capFull: {for: 1h}}
  caps: ["gpu-*", licences]
  atMost: 3
"""
    config, findings = read_notify_config("/etc/notify.yaml", (HEAD + text).encode())
    assert findings == ()
    assert config is not None
    assert config.cluster == "prod-eu"
    first, second = config.receivers
    seconds = {
        NotificationEvent.SOFT_LIMIT_CROSSED: 0.0,
        NotificationEvent.CAP_FULL: 1800.0,
        NotificationEvent.OVERRIDE_ENDS: 86400.0,
        NotificationEvent.GATE_DEGRADED: 300.0,
    }
    assert first.create_subscription() == Subscription("platform", seconds, (), 20)
    assert (first.url_file, first.format, first.body, first.plain_http) == ("/secrets/slack", "slack", None, False)
    seconds = {NotificationEvent.SOFT_LIMIT_CROSSED: 0.0, NotificationEvent.CAP_FULL: 3600.0}
    assert second.create_subscription() == Subscription("own", seconds, ("gpu-*", "licences"), 3)
    files = (second.url_file, second.headers_file, second.ca_file)
    assert files == ("/etc/own/url", "/etc/own/headers", "/etc/ca.crt")
    assert second.body == {"a": 1.5, "b": -3, "c": True, "d": None, "e": [1234567890, "${cap}"]}


def test_every_event_may_be_chosen_with_its_times() -> None:
    events = "{overrideEnds: {before: 48h}, gateDegraded: {for: 1m}}"
    config, _ = read_notify_config("n.yaml", f"{HEAD}receivers: [{{name: a, urlFile: a, events: {events}}}]".encode())
    assert config is not None
    (receiver,) = config.receivers
    seconds = {NotificationEvent.OVERRIDE_ENDS: 172800.0, NotificationEvent.GATE_DEGRADED: 60.0}
    assert receiver.create_subscription().seconds == seconds


def test_the_examples_of_the_page_and_of_the_component_are_valid() -> None:
    page = (_ROOT / "docs/tasks/get-notified.md").read_text("utf-8")
    examples = [each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "NotifyConfig" in each]
    examples.append((_ROOT / "deploy/kustomize/components/notify/notify.yaml").read_text("utf-8"))
    assert len(examples) == 3
    for example in examples:
        assert read_notify_config("notify.yaml", example.encode())[1] == ()


def test_the_page_has_all_placeholders_and_bounds() -> None:
    page = (_ROOT / "docs/tasks/get-notified.md").read_text("utf-8")
    assert all(f"`${{{name}}}`" in page for name in PLACEHOLDERS)
    assert (MAX_RECEIVERS, f"{MAX_CONDITIONS:,} conditions" in page) == (10, True)


def test_the_schema_is_valid_and_accepts_its_examples() -> None:
    schema = get_notify_schema().schema
    Draft202012Validator.check_schema(schema)
    for example in schema["examples"]:
        get_notify_schema().validator.validate(example)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: \x00", b"[" * 100_000, b"a" * (1 << 20) + b"a"])
def test_hostile_bytes_are_one_finding(content: bytes) -> None:
    config, findings = read_notify_config("notify.yaml", content)
    assert (config, len(findings)) == (None, 1)


def test_a_file_that_is_missing_or_wrong_says_so(tmp_path: Path) -> None:
    path = tmp_path / "notify.yaml"
    with pytest.raises(NotifyConfigError, match=r"notify_file: .*/notify.yaml cannot be read: No such file"):
        read_notify_file(path)
    path.write_text(f"{HEAD}receivers: [{{name: a, urlFile: a}}, {{name: a, urlFile: a}}]")
    with pytest.raises(NotifyConfigError, match=r'notify.yaml:3:43: error: receivers\[1\].name: "a" stands at line 3'):
        read_notify_file(path)
    path.write_text(f"{HEAD}receivers: [{{name: a, urlFile: a, {', '.join(f'x{n}: 1' for n in range(9))}}}]")
    with pytest.raises(NotifyConfigError, match=r"and 4 more$"):
        read_notify_file(path)
