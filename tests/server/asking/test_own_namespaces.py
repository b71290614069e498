"""The namespaces that are offered: those in which the API server allows the user something, within bounds."""

from collections.abc import Callable, Iterable
from http import HTTPStatus

import pytest

from tallygate.answers.namespace_list import AskNamespaces, NamespaceNames
from tallygate.server.asking.access import AccessReviewer, ResourceAccess
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.identity import Asker
from tallygate.server.asking.own_namespaces import MAX_REVIEWED, REVIEW_SECONDS, offer_namespaces
from tallygate.server.asking.rate import create_busy_error
from tests.kube.scripted_server import FakeClock

_ANN = Asker("ann")


class _ScriptedReviewer(AccessReviewer):
    """A reviewer that knows the rights of ann: verbs with namespaces. `before` is called before each review."""

    def __init__(self, *rights: tuple[str, str], before: Callable[[int], object] = lambda _: None) -> None:
        self._rights = frozenset(rights)
        self._before = before
        self.reviewed: list[str] = []

    def may(self, asker: Asker, access: ResourceAccess) -> bool:
        assert (asker, access.group, access.resource) == (_ANN, "", "pods")
        self._before(len(self.reviewed))
        self.reviewed.append(access.namespace)
        return (access.verb, access.namespace) in self._rights


def _offer(
    reviewer: AccessReviewer, names: Iterable[str], capped: Iterable[str] = (), clock: FakeClock | None = None
) -> AskNamespaces:
    found = NamespaceNames(tuple(names), frozenset(capped))
    return offer_namespaces(reviewer, _ANN, lambda: found, (clock or FakeClock()).now)


def _list_names(offered: AskNamespaces) -> list[str]:
    return [each.namespace for each in offered.namespaces]


def _number(count: int) -> list[str]:
    return [f"n{number:04}" for number in range(count)]


def test_a_namespace_is_offered_to_who_may_list_or_create_pods_there() -> None:
    reviewer = _ScriptedReviewer(("list", "b"), ("create", "b"), ("create", "c"), ("list", "d"))
    offered = _offer(reviewer, "abcd", "ad")
    assert [(each.namespace, each.right, each.capped) for each in offered.namespaces] == [
        ("d", "list", True),
        ("b", "list", False),
        ("c", "create", False),
    ]
    assert offered.unknown == []


def test_who_may_list_the_pods_of_all_namespaces_gets_all_by_one_review() -> None:
    reviewer, names = _ScriptedReviewer(("list", "")), _number(5000)
    offered = _offer(reviewer, names, names[-1:])
    assert _list_names(offered) == [names[-1], *names[:-1]]
    assert reviewer.reviewed == [""]


def test_a_stranger_gets_no_name() -> None:
    offered = _offer(_ScriptedReviewer(), "abc", "a")
    assert (offered.namespaces, offered.unknown) == ([], [])


@pytest.mark.parametrize(
    ("capped", "reviews", "unknown"),
    [
        (0, 0, "namespaces without a cap"),
        (MAX_REVIEWED, 2 * MAX_REVIEWED, "namespaces without a cap"),
        (MAX_REVIEWED + 1, 0, "the namespaces in which you have a right"),
    ],
)
def test_many_namespaces_are_not_all_reviewed(capped: int, reviews: int, unknown: str) -> None:
    reviewer, names = _ScriptedReviewer(), _number(MAX_REVIEWED + 10)
    offered = _offer(reviewer, names, names[:capped])
    assert len(reviewer.reviewed) == 1 + reviews
    assert [text.partition(":")[0] for text in offered.unknown] == [unknown]
    assert not any(name in text for text in offered.unknown for name in names)


def test_no_namespace_is_reviewed_after_the_time() -> None:
    clock = FakeClock()
    reviewer = _ScriptedReviewer(("list", "a"), ("list", "c"), before=lambda _: clock.sleep(REVIEW_SECONDS * 0.7))
    offered = _offer(reviewer, "abc", clock=clock)
    assert _list_names(offered) == ["a"]
    assert [text.partition(":")[0] for text in offered.unknown] == ["namespaces that are not here"]


def test_what_was_reviewed_before_a_refusal_is_offered() -> None:
    def refuse(number: int) -> None:
        if number > 1:
            raise create_busy_error("too many namespaces and kinds of this user", 1.0)

    offered = _offer(_ScriptedReviewer(("list", "a"), ("list", "b"), before=refuse), "ab")
    assert _list_names(offered) == ["a"]
    assert "too many namespaces and kinds of this user" in offered.unknown[0]


def test_names_that_cannot_be_read_are_unknown() -> None:
    def fail() -> NamespaceNames:
        raise AskError(HTTPStatus.SERVICE_UNAVAILABLE, "the pods of the cluster are not known", detail="secret")

    offered = offer_namespaces(_ScriptedReviewer(("list", "")), _ANN, fail, FakeClock().now)
    assert (offered.namespaces, offered.unknown) == (
        [],
        ["namespaces that are not here: the pods of the cluster are not known"],
    )
