"""The pages of a drawn cluster: their JSON is that of the command and of the API, and their HTML has its numbers."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tallygate.accounting.quantity import Quantity
from tallygate.server.asking.access import AccessReviewer, ResourceAccess
from tallygate.server.asking.identity import Asker, TokenAuthenticator
from tests.agreement.answers import parse_policies, run_command, write_stream
from tests.agreement.drawn import GPU, NAMESPACES, DrawnCase, Object
from tests.agreement.namespace_usages import add_pods, create_ledgers
from tests.agreement.shown_page import (
    Element,
    ShownAmounts,
    check_bar,
    create_quantity,
    parse_amounts,
    read_amounts,
    read_page,
)
from tests.answers.asked_clusters import build_state
from tests.cli.usage.clusters import write_snapshot
from tests.server.pages.browser import Browser
from tests.server.test_ask_app import AskHarness

_HEADERS: Final = {"Authorization": "Bearer admin"}
_OF_PAGES: Final = frozenset({"consumers", "waiting"})
"""What the page Caps has besides the lines of the command."""

_QUOTA: Final = {"requests.cpu": ("4", "1500m"), "pods": ("20", "3"), f"requests.{GPU}": ("9", "2")}


class _Anyone(TokenAuthenticator):
    """An authenticator that knows one user."""

    def __init__(self) -> None:
        pass

    def authenticate(self, authorization: str | None, address: str) -> Asker:  # noqa: ARG002  # any user
        return Asker("admin")


class _Everything(AccessReviewer):
    """A reviewer that allows everything."""

    def __init__(self) -> None:
        pass

    def may(self, asker: Asker, access: ResourceAccess) -> bool:  # noqa: ARG002  # any access
        return True


class DrawnPages:
    """The pages over one cluster after the other, for someone who may see all."""

    def __init__(self) -> None:
        self._browser = Browser(AskHarness(_Anyone(), _Everything()))

    def compare(self, case: DrawnCase, folder: Path) -> None:
        """Compare the pages of a cluster with the command over its snapshot, with the API, and with their own JSON."""
        harness, policies = self._browser.harness, parse_policies(case)
        stored = [*_add_times(add_pods(case.stored)), *map(_create_quota, NAMESPACES)]
        stored += create_ledgers(case, policies, "")
        harness.state, harness.policies = build_state(stored, with_templates=True), policies
        (folder / "policies.yaml").write_text(write_stream(case.policies))
        snapshot = write_snapshot(folder, stored)
        options = ("usage", "--policies", str(folder / "policies.yaml"), "--snapshot", str(snapshot))
        self._compare_caps(run_command(*options, "--total"))
        for namespace in NAMESPACES:
            self._compare_namespace(namespace, run_command(*options, "-n", namespace))
        self._compare_ask(case.created)

    def _compare_caps(self, expected: Mapping[str, Any]) -> None:
        content = json.loads(self._get("/page/caps?o=json"))
        plain = [{key: item[key] for key in item.keys() - _OF_PAGES} for item in content["items"]]
        assert sorted(plain, key=_name_line) == sorted(expected["items"], key=_name_line)
        totals = [{key: total[key] for key in total.keys() - {"capacity"}} for total in content["totals"]]
        assert sorted(totals, key=_name_line) == sorted(expected.get("totals", ()), key=_name_line)
        check_caps(read_page(self._get("/page/caps")), content)

    def _compare_namespace(self, namespace: str, expected: Mapping[str, Any]) -> None:
        path = f"/page/namespace?namespace={namespace}"
        text = self._get(f"{path}&o=json")
        assert text == self._get(f"/v1/usage?namespace={namespace}")
        content = json.loads(text)
        assert {key: content[key] for key in ("items", "notes", "unhealthy")} == {
            key: expected[key] for key in ("items", "notes", "unhealthy")
        }
        check_namespace(read_page(self._get(path)), content)

    def _compare_ask(self, created: Object) -> None:
        text, namespace = json.dumps(created), created["metadata"].get("namespace", NAMESPACES[0])
        as_json = self._browser.ask(text, namespace, o="json")
        assert as_json.status_code == 200, as_json.text
        assert as_json.data == self._browser.harness.ask(text, namespace=namespace).data
        check_answer(read_page(self._browser.ask(text, namespace).text), json.loads(as_json.data))

    def _get(self, path: str) -> str:
        response = self._browser.get(path, _HEADERS)
        assert response.status_code == 200, (path, response.text)
        return response.text


def _add_times(stored: Iterable[Object]) -> Iterator[Object]:
    """Yield objects with a time of creation; one pod of three is being deleted."""
    for number, each in enumerate(stored):
        times = {"creationTimestamp": f"2026-01-01T{number % 10:02}:00:00Z"}
        if each["kind"] == "Pod" and number % 3 == 0:
            times["deletionTimestamp"] = "2026-01-01T10:00:00Z"
        yield {**each, "metadata": {**each["metadata"], **times}}


def _create_quota(namespace: str) -> Object:
    hard = {name: amounts[0] for name, amounts in _QUOTA.items()}
    status = {"hard": hard, "used": {name: amounts[1] for name, amounts in _QUOTA.items()}}
    metadata = {"name": "team", "namespace": namespace, "uid": f"uid-quota-{namespace}", "resourceVersion": "5"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}, "status": status}


def _name_line(line: Object) -> tuple[str, ...]:
    return tuple(line.get(key) or "" for key in ("cap", "group", "namespace", "resource"))


def check_caps(page: Element, content: Object) -> None:
    """Check the numbers of the page Caps against its JSON."""
    rows = _find_table(page, "Table: Caps").list_rows() if content["items"] else []
    assert len(rows) == len(content["items"][:100])
    for row, item in zip(rows, content["items"], strict=False):
        name, _, amounts, consumers = row
        assert name.text == item["cap"]
        check_amounts(amounts, item, {})
        expected = {each["name"]: create_quantity(item["resource"], each["amount"]) for each in item["consumers"] or ()}
        found = re.findall(r"([^,].*?) \((\S+?)\)(?:, |$)", consumers.text)
        assert {each.strip(): Quantity.parse(amount) for each, amount in found} == expected
        waits = re.search(r"Pods without a node have (\S+) of", amounts.text)
        assert (Quantity.parse(waits[1]) if waits else Quantity(0)) == create_quantity(
            item["resource"], item["waiting"] or 0
        )
    totals = _find_table(page, "Table: Limits and capacity").list_rows() if content["totals"] else []
    assert [_read_total(row) for row in totals] == [
        (total["cap"], total["resource"], total["ledgers"], *_convert(total, "hard", "used", "capacity"))
        for total in content["totals"]
    ]


def _read_total(row: list[Element]) -> tuple[object, ...]:
    cap, resource, ledgers, *amounts, _ = (cell.text for cell in row)
    return cap, resource, int(ledgers), *(None if text == "\N{EN DASH}" else Quantity.parse(text) for text in amounts)


def check_namespace(page: Element, content: Object) -> None:
    """Check the numbers of the page My namespace against its JSON."""
    cards = list(page.find_all("article"))
    assert len(cards) == len(content["items"])
    for card, item in zip(cards, content["items"], strict=True):
        assert card.attributes["aria-label"] == f"Cap {item['cap']}, {item['resource']}"
        ledger = next(each for each in content["holders"] if _name_ledger(each) == _name_ledger(item))
        check_amounts(card, item, ledger["others"])
    quotas = [[cell.text for cell in row] for row in _find_table(page, "Table: ResourceQuotas").list_rows()]
    assert [(*row[:2], *map(Quantity.parse, row[2:])) for row in quotas] == [
        (quota["quota"], quota["resource"], *_convert(quota, "hard", "used", "free")) for quota in content["quotas"]
    ]
    _check_pods(page, content)
    _check_holders(page, content)


def _check_pods(page: Element, content: Object) -> None:
    """Check what may start, and what waits."""
    rows = _find_table(page, "Table: What may still start").list_rows() if content["startable"] else []
    assert len(rows) == len(content["startable"])
    for row, shape in zip(rows, content["startable"], strict=True):
        assert f"({shape['pods']} now)" in row[0].text
        assert read_amounts(row[1].text) == _convert_amounts(shape["requests"])
        more = "not known" if shape["copies"] is None else f"{shape['copies']}{' or more' * shape['atLeast']}"
        assert row[2].text == more
        tightest = min(shape["limits"], key=lambda limit: limit["copies"], default=None)
        assert tightest is None or tightest["copies"] == shape["copies"]
    rows = _find_table(page, "Table: What waits").list_rows() if content["waiting"] else []
    assert [int(row[0].text) for row in rows] == [pods["pods"] for pods in content["waiting"]]


def _check_holders(page: Element, content: Object) -> None:
    """Check what the pods and claims of the namespace have, and those of others."""
    shown = {each.attributes["aria-label"]: each for each in page.find_all("div", role="region")}
    for ledger in content["holders"]:
        group = f" for {ledger['group']}" if ledger["group"] else ""
        table = shown.get(f"Table: Pods and claims under the cap {ledger['cap']}{group}")
        holders = [(each["kind"], each["name"], each["amounts"]) for each in ledger["holders"][:100]]
        holders += [("namespace", each["namespace"], each["amounts"]) for each in ledger["byNamespace"] or ()]
        rows = [] if table is None else [[cell.text for cell in row] for row in table.list_rows()]
        assert [(row[0], row[1], read_amounts(row[4])) for row in rows] == [
            (kind, name, _convert_amounts(amounts)) for kind, name, amounts in holders
        ]


def check_amounts(shown: Element, item: Object, others: Mapping[str, int]) -> None:
    """Check the text and the bar of a cap against its line, and the sentences below."""
    name, used, reserved = item["resource"], item["used"], item["reserved"] or 0
    bars = list(shown.find_all("svg", role="img"))
    assert len(bars) == (used is not None and item["hard"] is not None)
    if used is None:
        assert f"{name}: the used amount is not known" in shown.text
        return
    found = parse_amounts(bars[0].attributes["aria-label"] or "") if bars else _read_without_limit(shown, name)
    elsewhere = min(others.get(name, 0), used + reserved) if bars else 0
    own = max(used - elsewhere, 0)
    expected = dict.fromkeys(ShownAmounts._fields) | _convert_present(name, item, "used", "soft")
    if bars:
        expected |= _convert_present(name, item, "free", "hard")
        expected["reserved"] = create_quantity(name, reserved) if reserved else None
        guaranteed = item["hard"] - used - reserved - item["free"]
        expected["guaranteed"] = create_quantity(name, guaranteed) if guaranteed > 0 else None
    if elsewhere:
        expected |= {"own": create_quantity(name, own), "others": create_quantity(name, elsewhere)}
    assert found._asdict() == expected | {"resource": name}
    if bars:
        drawn = [("used", own), ("others", min(elsewhere, used)), ("reserved", reserved)]
        check_bar(bars[0], drawn, {kind: item[kind] for kind in ("hard", "soft") if item[kind] is not None})
    _check_sentences(shown.text, item)


def _read_without_limit(shown: Element, name: str) -> ShownAmounts:
    (text,) = (each.text for each in shown.find_all("p") if each.text.startswith(f"{name}: "))
    return parse_amounts(text)


def _check_sentences(text: str, item: Object) -> None:
    since = f" since {item['exceededSince']} or earlier" if item["exceededSince"] else ""
    exceeded = {"hard": f"over the hard limit{since}", "soft": f"above the soft limit{since}", None: ""}
    assert exceeded[item["exceeded"]] in text
    assert item["exceeded"] or not re.search("over the hard|above the soft", text)
    ending = re.search(r"(\S+) of the used amount is terminating", text)
    assert (Quantity.parse(ending[1]) if ending else Quantity(0)) == create_quantity(
        item["resource"], item["terminating"]
    )


def check_answer(page: Element, content: Object) -> None:
    """Check the numbers of an answer on the page Ask against its JSON."""
    summary = content["summary"]
    section = next(page.find_all("section"))
    counts = ", ".join(f"{summary[key]} {key[:-1]}{'s' * (summary[key] != 1)}" for key in ("errors", "warnings"))
    verdicts = "".join(f", {each['templates']} × {each['verdict']}" for each in summary["verdicts"])
    objects = f"{summary['objects']} object{'s' * (summary['objects'] != 1)}"
    assert f"{objects}: {counts}{verdicts}." in section.text
    cards = list(section.find_all("article"))
    assert len(cards) == len(content["objects"])
    for card, each in zip(cards, content["objects"], strict=True):
        regions = (each for each in card.find_all("div") if "Findings" in (each.attributes.get("aria-label") or ""))
        rows = [[cell.text for cell in row] for region in regions for row in region.list_rows()]
        findings = [(row[0], row[1], row[3]) for row in rows]
        assert findings == [
            (found["level"], str(found["line"]), f"{' '.join(found['message'].split())} ({found['code']})")
            for found in each["findings"]
        ]
        labels = [bar.attributes["aria-label"] for bar in card.find_all("svg", role="img")]
        assert labels == list(_list_labels(each["predictions"]))
        for prediction in each["predictions"]:
            numbers = f": {prediction['placed']} of {prediction['copies']} "
            if prediction["verdict"] != "would be rejected" and prediction["copies"] > 1:
                assert numbers in card.text


def _list_labels(predictions: list[Object]) -> Iterator[str]:
    """Yield the texts of the drawings of predictions."""
    for prediction in predictions:
        yield from (f"{place['copies']} of the pods" for place in prediction["on"])
        for node in prediction["closestNodes"]:
            for lack in node["shortfalls"]:
                used, requests, hard = (_format(lack, key) for key in ("used", "requests", "allocatable"))
                yield f"{lack['resource']}: {used} used + {requests} requested of {hard}"


def _format(lack: Object, key: str) -> str:
    return create_quantity(lack["resource"], lack[key]).canonical


def _find_table(page: Element, label: str) -> Element:
    (region,) = page.find_all("div", **{"aria-label": label})
    return next(region.find_all("table"))


def _name_ledger(line: Object) -> tuple[str, str, str]:
    return line["cap"], line["group"] or "", line["namespace"] or ""


def _convert(line: Object, *keys: str) -> tuple[Quantity | None, ...]:
    return tuple(None if line[key] is None else create_quantity(line["resource"], line[key]) for key in keys)


def _convert_present(name: str, line: Object, *keys: str) -> dict[str, Quantity | None]:
    return {key: None if line[key] is None else create_quantity(name, line[key]) for key in keys}


def _convert_amounts(amounts: Mapping[str, int]) -> dict[str, Quantity]:
    return {name: create_quantity(name, amount) for name, amount in amounts.items()}
