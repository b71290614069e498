"""The answer about further copies: that of the command, without hidden names, and within bounds."""

import json
from collections.abc import Iterator, Sequence

import msgspec
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from tallygate.answers.answer_json import VisibleNames, convert_headroom
from tallygate.answers.answer_records import AskHeadroom
from tallygate.answers.asked_headroom import PodCapacityError, TooManyRowsError, answer_headroom
from tallygate.answers.prediction_lines import format_headroom, format_headroom_details
from tallygate.cli.app import root
from tallygate.cluster.cluster_state import ClusterState
from tallygate.manifests.kind_manifests import ManifestsError
from tallygate.policy.model import PolicySet
from tests.accounting.scheduling.clusters import node
from tests.answers.asked_clusters import (
    ALL_NAMES,
    NO_NAMES,
    NOW,
    Ask,
    Object,
    build_state,
    create_context,
    list_recorded_asks,
    read_manifests,
    read_policies,
)
from tests.answers.test_answer_json import (
    ASKED,
    CLUSTER,
    MARK,
    NODE_MARK,
    RECORDED,
    create_asked_pod,
    mark_names,
)
from tests.answers.test_asked_manifests import describe, fail_at
from tests.cli.check_case import change_directory
from tests.cli.predict import CASES
from tests.schemas import generate_headroom_schema

SHAPES = """
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: large}
spec: {labels: {disk: ssd}, allocatable: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 8}, most: 2}
---
apiVersion: tallygate.dev/v1alpha1
kind: NodeShape
metadata: {name: small}
spec: {allocatable: {cpu: 1}}
"""
SPREAD = (
    "[{maxSkew: 9, topologyKey: host, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: spread}}}]"
)
ASKED_COPIES = "".join(
    (
        ASKED,
        create_asked_pod("spread", '{cpu: "2"}', topologySpreadConstraints=SPREAD),
    )
)


def ask_headroom(
    text: str,
    state: ClusterState,
    visible: VisibleNames = ALL_NAMES,
    policies: PolicySet | None = None,
    namespace: str = "team-a",
) -> Object:
    """Return the answer about the copies of the pods of a text as JSON."""
    answered = answer_headroom(read_manifests(text), create_context(state, policies, namespace))
    content: Object = json.loads(json.dumps(convert_headroom(answered, state, NOW, visible)))
    return content


def list_lines(content: Object) -> Iterator[str]:
    """Yield the lines of an answer."""
    for record in msgspec.convert(content, AskHeadroom).items:
        yield format_headroom(record)
        yield from format_headroom_details(record)


def validate(content: Object) -> None:
    """Check that an answer has the form of the schema, and no other keys."""
    schema = generate_headroom_schema()
    for definition in schema["$defs"].values():
        definition["additionalProperties"] = False
    Draft202012Validator(schema).validate(content)


def run_headroom(ask: Ask) -> tuple[int, str, str]:
    """Return the exit code and the output of `tallygate headroom` for the file of a recorded prediction."""
    words = [word for word in ask.words[1:] if word not in {"-v", "--verbose"}]
    if "-o" in words:
        del words[words.index("-o") : words.index("-o") + 2]
    with change_directory(CASES / ask.name.partition(" ")[0]):
        result = CliRunner().invoke(root, ["headroom", *words, "-o", "json"], prog_name="tallygate")
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    "ask", [each for each in list_recorded_asks() if "wrong.yaml" not in each.words], ids=lambda ask: ask.name
)
def test_an_answer_has_the_copies_of_the_command_and_leaves_the_state_as_it_was(ask: Ask) -> None:
    state = ask.build_state()
    before = describe(state)
    code, stdout, stderr = run_headroom(ask)
    try:
        answered = ask_headroom(ask.text, state, policies=ask.policies, namespace=ask.namespace)
    except (ManifestsError, PodCapacityError) as error:
        reason = str(error).splitlines()[0].partition(": ")[2]
    else:
        reason = ""
    assert describe(state) == before
    if reason:
        assert (code, reason in stderr) == (2, True), stderr
        return
    validate(answered)
    if "tallygate.dev" in ask.text:  # policies in a file act for the command
        assert answered["notModelled"]
    elif not answered["items"]:
        assert (code, "neither a pod nor a pod template" in stderr) == (2, True), stderr
    else:
        assert code == bool(answered["unread"])
        assert answered["items"] == json.loads(stdout)["items"]
        # a snapshot may have no version, and an API server reports one
        remarks = [remark for remark in answered["remarks"] if "does not report its version" not in remark]
        assert all(remark in stderr for remark in remarks)


@pytest.mark.parametrize("ask", RECORDED, ids=lambda ask: ask.name)
def test_no_name_of_the_cluster_is_in_an_answer_for_someone_without_rights(ask: Ask) -> None:
    state = ask.build_state(mark_names(ask))
    try:
        answered = ask_headroom(ask.text, state, NO_NAMES, ask.policies, ask.namespace)
    except (ManifestsError, PodCapacityError) as error:
        text = str(error)
    else:
        validate(answered)
        text = json.dumps([answered, *list_lines(answered)])
    assert MARK not in text


def test_the_marks_are_in_the_answers_for_someone_with_all_rights() -> None:
    text = json.dumps(ask_headroom(ASKED_COPIES, build_state(CLUSTER)))
    assert NODE_MARK in text


@pytest.mark.parametrize("visible", [NO_NAMES, VisibleNames(frozenset({"team-a"}), nodes=False)])
def test_nodes_without_names_keep_their_numbers_in_an_order_of_their_own(visible: VisibleNames) -> None:
    state = build_state(CLUSTER)
    shown = ask_headroom(ASKED_COPIES, state, ALL_NAMES, read_policies(SHAPES))
    hidden = ask_headroom(ASKED_COPIES, state, visible, read_policies(SHAPES))
    validate(hidden)
    for full, reduced in zip(shown["items"], hidden["items"], strict=True):
        assert reduced["copies"] == full["copies"]
        assert [each["node"] for each in reduced["nodes"]] == [None] * len(full["nodes"])
        copies = [each["copies"] for each in reduced["nodes"]]
        assert copies == sorted((each["copies"] for each in full["nodes"]), reverse=True)
        assert reduced["newNodes"] == full["newNodes"]
    text = json.dumps([hidden, *list_lines(hidden)])
    assert not {MARK, NODE_MARK} & {mark for mark in (MARK, NODE_MARK) if mark in text}


def test_each_pod_is_counted_by_itself_and_a_workload_is_one() -> None:
    deployment = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: many}
spec:
  replicas: 100000
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]}
---"""
    answered = ask_headroom(f"{deployment}{deployment.replace('many', 'more')}", build_state(CLUSTER))
    assert [(each["object"]["name"], each["copies"]) for each in answered["items"]] == [("many", 2), ("more", 2)]


def test_policies_among_the_objects_do_not_act() -> None:
    """Send a WorkloadKind with an object of its kind, for which no right is checked."""
    text = f"""
apiVersion: tallygate.dev/v1alpha1
kind: WorkloadKind
metadata: {{name: gangs}}
spec:
  {{group: example.com, kind: Gang, resource: gangs, versions: [v1], pods: [{{template: spec.template}}]}}
---{SHAPES}---
apiVersion: example.com/v1
kind: Gang
metadata: {{name: all}}
spec: {{template: {{spec: {{containers: [{{name: main, image: x}}]}}}}}}
"""
    answered = ask_headroom(text, build_state(CLUSTER))
    validate(answered)
    assert answered["items"] == []
    assert [each["object"]["name"] for each in answered["unread"]] == ["all"]
    assert answered["notModelled"] == ["WorkloadKind gangs", "NodeShape large", "NodeShape small"]


def test_the_state_is_as_before_wherever_the_time_ends() -> None:
    state, policies = build_state(CLUSTER), read_policies(SHAPES)
    before, manifests, ends = describe(state), read_manifests(ASKED_COPIES), 0
    for number in range(200):
        context = create_context(state, policies, "team-a", check_time=fail_at(number))
        try:
            answer_headroom(manifests, context)
        except TimeoutError:
            ends += 1
        else:
            break
        assert describe(state) == before, number
    assert 40 < ends < 199


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (create_asked_pod("p", '{cpu: "x"}'), PodCapacityError, "Pod team-a/p: "),
        (create_asked_pod("p", priorityClassName="none"), PodCapacityError, "no PriorityClass with name none"),
        (create_asked_pod("p").replace("image:", "images:"), ManifestsError, "images"),
        (create_asked_pod("p").replace("Pod", "pod"), ManifestsError, "write kind: Pod"),
    ],
)
def test_an_object_that_is_never_stored_is_an_error(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask_headroom(text, build_state(CLUSTER))


def test_a_longer_answer_than_one_has_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: Sequence[Object] = [node(f"n{number}") | {"kind": "Node"} for number in range(10)]
    text, state = "".join(create_asked_pod(f"p{number}") for number in range(9)), build_state(cluster)
    monkeypatch.setattr("tallygate.answers.asked_headroom.MAX_ROWS", 99)
    assert len(ask_headroom(text, state)["items"]) == 9
    with pytest.raises(TooManyRowsError, match="the first 10 of 10 pods has 110 rows of nodes"):
        ask_headroom(f"{text}{create_asked_pod('last')}", state)
