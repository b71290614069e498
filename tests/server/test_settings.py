"""Settings: one table, four sources, every mistake at once."""

from dataclasses import fields
from pathlib import Path

import pytest

from tallygate.server.settings.sources import SERVICE_LINK, SettingsError, load_settings
from tallygate.server.settings.table import OPTIONS, Settings
from tallygate.server.settings.value_types import Address
from tests.server.settings_table import DOCUMENT, update_table


def load_errors(
    environment: dict[str, str] | None = None, flags: dict[str, object] | None = None, config: Path | None = None
) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags or {}, environment or {}, config)
    return caught.value.errors


def test_without_anything_every_setting_has_its_default() -> None:
    settings = load_settings({}, {"HOME": "/root", "TALLYGATEWAY": "not ours"})
    assert settings == Settings()
    assert (settings.listen, settings.body_limit, settings.drain_delay) == (Address("0.0.0.0", 8443), 8 << 20, 3.0)  # noqa: S104 - the default


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('threads = 1\nconnections = 1\nbody_limit = "1Ki"\n')
    environment = {"TALLYGATE_THREADS": "2", "TALLYGATE_CONNECTIONS": "2"}
    settings = load_settings({"threads": 3, "connections": None, "policies": ()}, environment, config)
    assert (settings.threads, settings.connections, settings.body_limit) == (3, 2, 1024)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.toml", 'policies = ["a", "b"]\nlisten = "[::1]:8443"\ndrain_delay = "90s"\n'),
        ("a.yaml", "policies: [a, b]\nlisten: '[::1]:8443'\ndrain_delay: 90s\n"),
        ("a.json", '{"policies": ["a", "b"], "listen": "[::1]:8443", "drain_delay": "90s"}'),
    ],
)
def test_the_file_may_be_toml_or_yaml_or_json(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    settings = load_settings({}, {"TALLYGATE_CONFIG": str(tmp_path / name)})
    assert settings == Settings(policies=(Path("a"), Path("b")), listen=Address("::1", 8443), drain_delay=90.0)


def test_every_mistake_is_reported_at_once_with_its_source(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("body_limt: 1\nthreads: many\n")
    environment = {"TALLYGATE_LISTN": "x", "TALLYGATE_MONITOR": "localhost:1"}
    assert load_errors(environment, {"drain_delay": "soon"}, config) == (
        f"{config}: there is no setting body_limt; did you mean body_limit?",
        "environment: there is no setting TALLYGATE_LISTN; did you mean TALLYGATE_LISTEN?",
        f"{config}: threads: 'many' is not a whole number of at least 1",
        "TALLYGATE_MONITOR: 'localhost:1' is not an IP address and a port, such as 0.0.0.0:8443 or [::]:8443",
        "--drain-delay: 'soon' is not a duration; write a number and a unit, such as 10s or 1m30s",
    )


def test_a_setting_of_an_earlier_version_is_an_error_that_names_what_to_do(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("namespaces_file: namespaces.json\n")
    in_file, variable = load_errors({"TALLYGATE_IDLE_TIMEOUT": "1m"}, {}, config)
    assert in_file.startswith(f"{config}: there is no setting namespaces_file any more: name the cluster by --cluster")
    assert variable == "environment: there is no setting TALLYGATE_IDLE_TIMEOUT any more: it is 2m"


def test_an_error_about_an_unknown_setting_points_to_the_list() -> None:
    assert load_errors({"TALLYGATE_ZZZZZ": ""}) == (
        "environment: there is no setting TALLYGATE_ZZZZZ; docs/reference/settings.md lists them all",
    )


BAD_VALUES = {
    "a count of nothing": ("threads", "0"),
    "a negative count": ("threads", "-1"),
    "a count with a fraction": ("threads", "1.5"),
    "a count in Arabic digits": ("threads", "٣"),
    "a truth for a count": ("threads", True),
    "a count beyond reason": ("threads", "9" * 5000),
    "a size of nothing": ("body_limit", "0"),
    "a negative size": ("body_limit", "-1Mi"),
    "a size with a fraction": ("body_limit", "1.5"),
    "a size without meaning": ("body_limit", "8MB"),
    "a size beyond reason": ("body_limit", "1e999999999"),
    "a number for a duration": ("drain_delay", 10),
    "a name for an address": ("listen", "localhost:8443"),
    "an address without a port": ("listen", "127.0.0.1"),
    "a port beyond the last": ("listen", "127.0.0.1:65536"),
    "a port of many digits": ("listen", "127.0.0.1:" + "9" * 5000),
    "a bare IPv6 address": ("listen", "::1"),
    "a word that is not in the list": ("tls_min_version", "1.1"),
    "an unknown level": ("log_level", "loud"),
    "no names of clients": ("client_names", []),
    "an empty name of a client": ("client_names", "kube-apiserver,"),
    "a name of a client that no certificate has": ("client_names", "*"),
    "a header with an underscore, which is never read": ("proxy_user_header", "X_Remote_User"),
    "a header with a colon": ("proxy_group_header", "X-Remote-Group:"),
    "an empty prefix, which each header has": ("proxy_extra_prefix", ""),
    "a feature gate without a value": ("feature_gates", "GenericWorkload"),
    "a feature gate on which nothing depends": ("feature_gates", "GenericWorkload=true,GangScheduling=true"),
    "a feature gate as a list": ("feature_gates", ["GenericWorkload=true"]),
    "an empty path": ("tls_cert", ""),
    "an address of HTTP": ("page_url", "http://gate.example.com"),
    "an address with a user": ("page_url", "https://jane@gate.example.com"),
    "an address with a query": ("page_url", "https://gate.example.com/?a=b"),
    "an address with two lines": ("page_url", "https://gate.example.com\nsee https://other.example.com"),
    "a number for a path": ("tls_cert", 5),
    "an empty list of paths": ("policies", []),
    "a path among numbers": ("policies", ["a", 1]),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_an_invalid_value_is_an_error(case: str) -> None:
    name, value = BAD_VALUES[case]
    (error,) = load_errors(flags={name: value})
    assert error.startswith(f"--{name.replace('_', '-')}: ")
    assert " is not " in error


BAD_FILES = {
    "a list": ("a.yaml", b"- a\n", "settings are written as"),
    "nothing in it": ("a.yaml", b"", "settings are written as"),
    "broken YAML": ("a.yaml", b"a: [", "while parsing"),
    "a key twice": ("a.yaml", b"threads: 1\nthreads: 2\n", "written twice"),
    "two documents": ("a.yaml", b"threads: 1\n---\nthreads: 2\n", "a second document"),
    "many brackets": ("a.yaml", b"[" * 500, "nest more than 10 deep"),
    "too large": ("a.yaml", b"#" * (1 << 20) + b"\n", "larger than 1 MiB"),
    "a tag that constructs": (
        "a.yaml",
        b"threads: !!python/object/apply:os.getpid []\n",
        "tag !!python/object/apply:os.getpid is refused",
    ),
    "broken TOML": ("a.toml", b"threads = \n", "Invalid value"),
    "not UTF-8": ("a.toml", b"\xff", "decode"),
    "another ending": ("a.conf", b"threads: 1\n", "name it .toml, .yaml"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_an_invalid_settings_file_is_an_error(tmp_path: Path, case: str) -> None:
    name, content, words = BAD_FILES[case]
    path = tmp_path / name
    path.write_bytes(content)
    (error,) = load_errors(config=path)
    assert error.startswith(f"{path}: ")
    assert words in error


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert load_errors({"TALLYGATE_CONFIG": str(path)}) == (f"{path}: cannot be read: No such file or directory",)


SERVICE_LINKS = (
    "TALLYGATE_SERVICE_HOST",
    "TALLYGATE_SERVICE_PORT",
    "TALLYGATE_SERVICE_PORT_HTTPS",
    "TALLYGATE_PORT",
    "TALLYGATE_PORT_443_TCP",
    "TALLYGATE_PORT_443_TCP_PROTO",
    "TALLYGATE_PORT_443_TCP_PORT",
    "TALLYGATE_PORT_443_TCP_ADDR",
    "TALLYGATE_WEBHOOK_SERVICE_HOST",
    "TALLYGATE_MONITOR_PORT_9090_TCP_ADDR",
)


def test_variables_of_the_kubelet_for_services_are_ignored() -> None:
    assert load_settings({}, dict.fromkeys(SERVICE_LINKS, "tcp://10.0.0.1:443")) == Settings()


def test_no_setting_has_a_name_of_a_variable_of_the_kubelet_for_services() -> None:
    assert [option.variable for option in OPTIONS if SERVICE_LINK.fullmatch(option.variable)] == []


def test_the_table_has_every_setting_and_each_default_reads_as_itself() -> None:
    assert [option.name for option in OPTIONS] == [item.name for item in fields(Settings)]
    for option in OPTIONS:
        if option.default:
            assert option.value_type.parse(option.default) == getattr(Settings(), option.name)
        assert option.description.endswith(".")


def test_every_setting_is_documented() -> None:
    document = DOCUMENT.read_text()
    assert document == update_table(document), "run `python -m tests.server.settings_table`"
