"""The bodies of messages: what each format is, and that no value ends the text in which it stands."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.server.notify.message_body import BODIES, PLACEHOLDERS, find_unknown_placeholders, render_body

FIELDS = {"message": "Cap gpus is full.", "event": "capFull", "cap": "gpus", "cluster": "prod"}


def _render(template: Any, format_name: str = "json", **fields: str) -> Any:
    return json.loads(render_body(template, format_name, {**FIELDS, **fields}))


def test_slack_gets_its_three_characters_escaped_and_neither_markup_nor_links() -> None:
    body = _render(BODIES["slack"], "slack", message="a < b & c > d <!channel> *x* of www.example.com")
    text = "prod: a &lt; b &amp; c &gt; d &lt;!channel&gt; *x* of www.example.com"
    assert body == {"text": text, "mrkdwn": False, "parse": "none"}


@pytest.mark.parametrize("character", ["&", "\n", '"', "é", "\U0001f600"])
def test_the_longest_message_is_within_the_limits_of_slack_and_teams(character: str) -> None:
    """Send at most 28 KB to Teams, also if it counts two bytes for a character, and 40,000 characters to Slack."""
    longest = {"message": character * 5_000, "cluster": character * 100}
    body = render_body(BODIES["teams"], "teams", longest)
    text = json.loads(render_body(BODIES["slack"], "slack", longest))["text"]
    assert max(len(body), 2 * len(body.decode())) < 28_000
    assert len(text) < 40_000


def test_teams_gets_a_message_with_one_adaptive_card_whose_text_is_no_markdown() -> None:
    body = _render(BODIES["teams"], "teams", message="[x](http://y) **z** <b>")
    assert body["type"] == "message"
    (attachment,) = body["attachments"]
    card = attachment["content"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    title, text = card["body"]
    assert title == {"type": "TextBlock", "text": "tallygate", "weight": "Bolder"}
    run = {"type": "TextRun", "text": "prod: [x](http://y) **z** <b>"}
    assert text == {"type": "RichTextBlock", "inlines": [run]}


def test_json_has_all_fields() -> None:
    body = _render(BODIES["json"], cluster="")
    assert list(body) == list(PLACEHOLDERS)
    assert {name: value for name, value in body.items() if value} == {
        "message": "Cap gpus is full.",
        "event": "capFull",
        "cap": "gpus",
    }


def test_a_template_is_filled_in_texts_at_any_depth() -> None:
    template = {"${cap}": ["${cap} is ${event}", 1, None, True, {"x": "$${cap} costs $5 {cap}"}]}
    assert _render(template) == {"${cap}": ["gpus is capFull", 1, None, True, {"x": "${cap} costs $5 {cap}"}]}


def test_the_values_of_an_own_body_are_escaped_for_slack_if_that_is_its_format() -> None:
    assert _render({"text": "<!here> ${cap}"}, "slack", cap="<!channel>") == {"text": "<!here> &lt;!channel&gt;"}
    assert _render({"text": "${cap}"}, "json", cap="<b>") == {"text": "<b>"}


@given(st.text(), st.text())
def test_no_value_changes_another_part_of_a_body(cap: str, message: str) -> None:
    template = {"a": "x${cap}y", "b": ["${message}", "z"], "c": "z"}
    body = json.loads(render_body(template, "json", {"cap": cap, "message": message}))
    assert body == {"a": f"x{cap[:499]}{'…' if len(cap) > 500 else cap[499:]}y", "b": [message, "z"], "c": "z"}


def test_a_value_that_looks_like_a_placeholder_is_not_filled() -> None:
    assert _render({"a": "${cap}"}, cap="${message}") == {"a": "${message}"}


def test_long_values_are_shortened() -> None:
    body = _render({"a": "${cap}", "b": "${message}"}, cap="c" * 10_000, message="m" * 10_000, cluster="")
    assert (len(body["a"]), len(body["b"]), body["a"][-1]) == (500, 3000, "…")


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("plain $ {cap} $cap", []),
        ("${cap}${message}", []),
        ("$${nope}", []),
        ("${nope} ${Cap}", ["${nope}", "${Cap}"]),
        ("${", ["${"]),
        ("${a b} ${}", ["${a b}", "${}"]),
        ("$$${cap}", []),
    ],
)
def test_unknown_placeholders_are_found(text: str, unknown: list[str]) -> None:
    assert list(find_unknown_placeholders(text)) == unknown
