"""The requests of a client that impersonates another user: the headers that arrive at a server."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root
from tallygate.kube.client import ApiClient
from tallygate.kube.config import ClientConfigError, load_kubeconfig
from tallygate.kube.impersonation import NO_IMPERSONATION, Impersonation
from tests.kube.kubeconfig import write_kubeconfig
from tests.kube.raw_server import full_response, raw_server

_CASES: dict[str, tuple[dict[str, Any], Impersonation, list[str]]] = {
    "no field": ({}, NO_IMPERSONATION, []),
    "empty fields": ({"as": "", "as-groups": [], "as-uid": None, "as-user-extra": {}}, NO_IMPERSONATION, []),
    "a user of the kubeconfig": ({"as": "jane"}, NO_IMPERSONATION, ["Impersonate-User: jane"]),
    "every field of the kubeconfig": (
        {"as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": {"team": ["a", "b"], "x/y": ["z"]}},
        NO_IMPERSONATION,
        [
            "Impersonate-User: jane",
            "Impersonate-Uid: 7",
            "Impersonate-Group: dev",
            "Impersonate-Group: ops",
            "Impersonate-Extra-team: a",
            "Impersonate-Extra-team: b",
            "Impersonate-Extra-x%2Fy: z",
        ],
    ),
    "an option in place of the user, beside the groups of the kubeconfig": (
        {"as": "jane", "as-groups": ["dev"]},
        Impersonation("joe"),
        ["Impersonate-User: joe", "Impersonate-Group: dev"],
    ),
    "options in place of groups and of one extra key": (
        {"as": "jane", "as-groups": ["dev"], "as-user-extra": {"team": ["a"], "site": ["b"]}},
        Impersonation(groups=("ops", "night"), extra={"team": ["c"]}),
        [
            "Impersonate-User: jane",
            "Impersonate-Group: ops",
            "Impersonate-Group: night",
            "Impersonate-Extra-team: c",
            "Impersonate-Extra-site: b",
        ],
    ),
    "a key with a percent sign and a letter beyond ASCII": (
        {"as": "jane", "as-user-extra": {"50%é": ["x"]}},
        NO_IMPERSONATION,
        ["Impersonate-User: jane", "Impersonate-Extra-50%25%C3%A9: x"],
    ),
}


@pytest.mark.parametrize("timeout", [None, 5.0], ids=["over the pool", "with a timeout of its own"])
@pytest.mark.parametrize("name", _CASES)
def test_every_request_has_the_headers_of_kubectl(name: str, timeout: float | None, tmp_path: Path) -> None:
    user, options, expected = _CASES[name]
    with raw_server([full_response(b"{}")]) as server:
        path = _write(tmp_path, server.port, user)
        ApiClient(load_kubeconfig(path, impersonation=options)).get("/api", timeout=timeout)
    lines = server.requests[0].decode().split("\r\n")
    assert [line for line in lines if line.lower().startswith("impersonate-")] == expected
    assert "Authorization: Bearer t0ken" in lines


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"as-groups": ["dev"]}, "impersonated without a user: name one by `as` or --as"),
        ({"as-uid": "7"}, "impersonated without a user"),
        ({"as": 7}, "as of its user is no string"),
        ({"as": "jane", "as-groups": "dev"}, "as-groups of its user is no list of strings"),
        ({"as": "jane", "as-user-extra": {"a": [1]}}, "as-user-extra.a of its user is no list of strings"),
        ({"as": "jane", "as-user-extra": ["a"]}, "as-user-extra of its user is no mapping"),
        ({"as": "a\r\nX: b"}, "characters that no header may have"),
        ({"as": "jäne"}, "characters that no header may have"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_impersonation_that_cannot_be_sent_is_an_error(user: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = _write(tmp_path, 1, user)
    with pytest.raises(ClientConfigError, match=message.replace("?", r"\?")) as caught:
        load_kubeconfig(path)
    assert f"kubeconfig {path}" in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        ("--as", "jane", "--as-group", "dev", "--as-group", "ops", "--as-user-extra", "team=a=b", "snapshot"),
        ("snapshot", "--as", "jane", "--as-group", "dev", "--as-group", "ops", "--as-user-extra", "team=a=b"),
    ],
    ids=["before the command", "after the command"],
)
def test_a_command_sends_what_its_options_name(
    words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raw_server(*[[full_response(b"{}", "403 Forbidden")]] * 30) as server:
        monkeypatch.setenv("KUBECONFIG", str(_write(tmp_path, server.port, {"as": "root"})))
        result = CliRunner().invoke(root, list(words))
    assert result.exit_code == 2, result.output
    lines = server.requests[0].decode().split("\r\n")
    assert [line for line in lines if line.startswith("Impersonate-")] == [
        "Impersonate-User: jane",
        "Impersonate-Group: dev",
        "Impersonate-Group: ops",
        "Impersonate-Extra-team: a=b",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--as-user-extra", "team", "--as", "jane"), "--as-user-extra team: write KEY=VALUE"),
        (("--as-group", "dev"), "impersonated without a user"),
        (("--as", "jane", "--snapshot", "now.json"), "--snapshot takes no --kubeconfig"),
    ],
)
def test_a_command_with_options_that_do_not_fit_is_misuse(
    words: Sequence[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(_write(tmp_path, 1, {})))
    result = CliRunner().invoke(root, ["usage", *words])
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


def _write(folder: Path, port: int, user: Mapping[str, Any]) -> Path:
    path = write_kubeconfig(folder, f"http://127.0.0.1:{port}", token="t0ken")  # noqa: S106  # a made-up token
    content = json.loads(path.read_text())
    content["users"][0]["user"] |= user
    path.write_text(json.dumps(content))
    return path
