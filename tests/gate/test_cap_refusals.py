"""What a cap says to those whom it refuses, and above its soft part to those whom it lets in."""

import pytest

from tests.gate.scene import CAP, GPU, Scene, pod, response
from webhook.accounting.amounts import Amounts


def test_a_refusal_says_the_arithmetic() -> None:
    scene = Scene()
    scene.create(3)
    answer = scene.create(2)
    status = response(answer)["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'Pod "p": cap gpus of this namespace exceeded: requested 2 nvidia.com/gpu, used 0, reserved 3, hard 4, free 1; '
        "top consumers: Pod p (3, reserved). Request 1 or less, or wait until pods end (TG201, cap gpus)"
    )
    assert (answer.record.verdict, answer.record.codes, answer.record.rules) == ("deny", ("TG201",), ("gpus",))
    assert scene.promised() == {GPU: 3}


def test_cpu_and_memory_are_said_as_people_write_them() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", 'requests.cpu: "1", memory: 1Gi'))
    resources = {"requests": {"cpu": "1500m", "memory": "1536Mi"}}
    body = {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c", "resources": resources}]}}
    message = response(scene.admit(body))["status"]["message"]
    assert "requested 1500m cpu, used 0, reserved 0, hard 1, free 1." in message
    assert "requested 1536Mi memory, used 0, reserved 0, hard 1Gi, free 1Gi." in message


@pytest.mark.parametrize(
    ("hard", "held", "asks", "advice"),
    [
        (4, 4, 1, "Wait until pods end"),
        (4, 1, 4, "Request 3 or less, or wait until pods end"),
        (4, 1, 5, "Request 3 or less"),
        (4, 4, 5, "Request 4 or less, and wait until pods end"),
        (0, 0, 1, "The cap allows none in this namespace"),
    ],
)
def test_a_refusal_advises_to_wait_only_where_waiting_helps(hard: int, held: int, asks: int, advice: str) -> None:
    scene = Scene(CAP.replace("4}", f"{hard}}}"))
    scene.create(held)
    assert response(scene.create(asks))["status"]["message"].endswith(f". {advice} (TG201, cap gpus)")


def test_a_shared_cap_of_none_says_where_nothing_may_be_held() -> None:
    scene = Scene(CAP.replace("4}", "0}").replace("hard:", "shared: true\n  hard:"))
    assert "free 0. The cap allows none in these namespaces" in response(scene.create(1))["status"]["message"]


def test_the_growth_of_a_refused_change_is_what_it_asks_and_the_whole_what_would_pass() -> None:
    scene = Scene()
    scene.create(1)
    answer = scene.admit(pod("u", 9), oldObject=pod("u", 2), subResource="resize")
    assert response(answer)["status"]["message"] == (
        'Pod "p": cap gpus of this namespace exceeded: requested 7 nvidia.com/gpu on top of 2, used 0, reserved 1, '
        "hard 4, free 3; top consumers: Pod p (1, reserved). Request 5 or less (TG201, cap gpus)"
    )
    assert response(scene.admit(pod("u", 5), oldObject=pod("u", 2), subResource="resize"))["allowed"] is True


def test_what_is_held_and_what_is_promised_both_take_room() -> None:
    scene = Scene()
    scene.create(1)
    scene.change(used=Amounts({GPU: 2}))
    message = response(scene.create(2))["status"]["message"]
    assert "used 2, reserved 1, hard 4, free 1; top consumers: Pod p (1, reserved). Request 1" in message


def test_every_cap_that_refuses_is_told() -> None:
    scene = Scene(CAP + "---" + CAP.replace("gpus", "all").replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 2"))
    assert len(response(scene.create(5))["status"]["details"]["causes"]) == 2


def test_above_the_soft_part_there_is_a_warning() -> None:
    scene = Scene(CAP + "  soft: {nvidia.com/gpu: 2}\n")
    assert "warnings" not in response(scene.create(2))
    assert response(scene.create(1))["warnings"] == [
        (
            'Pod "p": cap gpus of this namespace is above its soft limit: charged 3 nvidia.com/gpu, soft 2, '
            "hard 4 (TG202, cap gpus)"
        )
    ]


def test_a_soft_part_needs_no_hard_one() -> None:
    (warning,) = response(Scene(CAP + "  soft: {pods: 0}\n").create(1))["warnings"]
    assert "charged 1 pods, soft 0, hard none" in warning
