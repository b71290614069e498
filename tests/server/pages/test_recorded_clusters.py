"""Each page over the clusters of the recorded predictions: it shows the texts of its JSON, whatever is missing."""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from jinja2 import Environment

from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.answer_records import AskAnswer
from tallygate.answers.cap_overview import convert_caps, describe_caps
from tallygate.answers.namespace_usage import UsageContext, answer_usage
from tallygate.answers.namespace_usage_json import convert_usage
from tallygate.answers.node_overview import AskNodes, describe_nodes
from tallygate.answers.prediction_lines import format_details
from tallygate.server.web.pages.page_forms import AskForm
from tallygate.server.web.pages.page_views import create_environment
from tests.answers.asked_clusters import ALL_NAMES, NO_NAMES, NOW, Ask, build_state, list_recorded_asks
from tests.answers.test_answer_json import MARK, mark_names
from tests.server.pages.browser import Outline

RECORDED: Final = [*list_recorded_asks()]
_ENVIRONMENT: Final[Environment] = create_environment("/page/style.css")
_PAGE: Final[dict[str, Any]] = {
    "asker": None,
    "has_cookie": False,
    "pages": (),
    "current": "",
    "namespace": "",
    "json_path": "/",
}


def show(template: str, **content: Any) -> str:
    """Return the text of a page, in which each row of blanks is one."""
    html = _ENVIRONMENT.get_template(template).render(_PAGE, **content)
    return " ".join(Outline(html).text.split())


def normalize(text: str) -> str:
    """Return a text as `show` has it."""
    return " ".join(text.split())


def list_texts(answer: AskAnswer) -> Iterator[str]:
    """Yield what a page about an answer has to show."""
    for item in answer.objects:
        yield item.object.name
        yield from (finding.message for finding in item.findings)
        for prediction in item.predictions:
            yield prediction.verdict.value
            yield from format_details(prediction)
            yield from (place.node for place in prediction.on if place.node)
    yield from answer.remarks


@pytest.mark.parametrize("visible", [ALL_NAMES, NO_NAMES], ids=["all names", "no names"])
@pytest.mark.parametrize("ask", RECORDED, ids=lambda ask: ask.name)
def test_an_answer_is_shown_as_predict_prints_it(ask: Ask, visible: VisibleNames) -> None:
    content = json.dumps(ask.answer(ask.build_state(mark_names(ask)), visible)).encode()
    answer = msgspec.json.decode(content, type=AskAnswer)
    text = show("ask.html", form=AskForm(ask.text, ask.namespace), answer=answer, error=None)
    assert [each for each in list_texts(answer) if normalize(each) not in text] == []
    assert visible.nodes or MARK not in text


@pytest.mark.parametrize("ask", RECORDED, ids=lambda ask: ask.name)
def test_the_pages_about_a_cluster_show_its_caps_and_nodes(ask: Ask) -> None:
    state = ask.build_state()
    caps = convert_caps(describe_caps(state, state.index_caps(ask.policies, NOW)), NOW)
    text = show("caps.html", content=json.loads(json.dumps(caps)))
    assert [item["cap"] for item in caps["items"] if item["cap"] not in text] == []
    nodes = msgspec.json.decode(msgspec.json.encode(describe_nodes(state, ask.policies, NOW, ALL_NAMES)), type=AskNodes)
    text = show("nodes.html", content=nodes)
    assert [each.node for each in nodes.nodes[:100] if each.node not in text] == []
    assert [each.shape for each in nodes.shapes if each.shape not in text] == []


@pytest.mark.parametrize("visible", [ALL_NAMES, NO_NAMES], ids=["all names", "no names"])
@pytest.mark.parametrize("ask", RECORDED, ids=lambda ask: ask.name)
def test_the_usage_of_a_namespace_is_shown_without_hidden_names(ask: Ask, visible: VisibleNames) -> None:
    state = build_state(mark_names(ask), with_templates=True)
    context = UsageContext(policies=ask.policies, state=state, namespace=ask.namespace, now=NOW, shows=visible.shows)
    content = json.loads(json.dumps(convert_usage(answer_usage(context), state, NOW, visible)))
    text = show("namespace.html", content=content)
    shown = [*(item["cap"] for item in content["items"]), *content["notes"]]
    shown += [pods["sentence"] for pods in content["waiting"] or ()]
    assert [each for each in shown if normalize(each) not in text] == []
    assert visible.nodes or MARK not in text
