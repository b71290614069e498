"""The command `tallygate device-plugin`: devices of a node, published to its kubelet."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from tallygate.answers import columns
from tallygate.cli.framework import DATA_FORMATS, EXIT_USAGE_ERROR, Command, UsageError
from tallygate.cli.output import tables
from tallygate.device_plugin.device_config import DeviceResource
from tallygate.device_plugin.device_config_reader import read_device_config
from tallygate.device_plugin.device_discovery import HostFiles
from tallygate.device_plugin.device_inventory import OfferedDevice, list_offered, observe_devices, record_check
from tallygate.device_plugin.device_plugin_run import PluginSettings, run_device_plugin
from tallygate.device_plugin.health_probes import HealthProbes
from tallygate.manifests.findings import Finding, FindingSeverity, RunSummary
from tallygate.manifests.manifest_files import format_file_name
from tallygate.policy.parse import MAX_FILE_BYTES
from tallygate.server.settings.value_types import ADDRESS, Address
from tallygate.server.telemetry.json_log import LEVELS, create_logger

_KUBELET_FOLDER = Path("/var/lib/kubelet/device-plugins")


def _parse_address(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Address | None:
    try:
        return None if value is None else ADDRESS.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(
    "device-plugin",
    cls=Command,
    examples=(
        ("tallygate device-plugin --config devices.yaml --check", "the devices of this machine, without a kubelet"),
        ("tallygate device-plugin --config devices.yaml", "publish them to the kubelet of this node, as root"),
        (
            "tallygate device-plugin --config devices.yaml --host-root /host --monitor 0.0.0.0:9090",
            "in a pod with the host's /dev at /host/dev, with metrics",
        ),
        ("tallygate schema devices > schema.json", "the schema of the file, for an editor"),
    ),
)
@click.option(
    "--config",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The resources and their devices, as YAML or JSON.",
)
@click.option("--check", is_flag=True, help="Check the file, list the devices once with their health, and exit.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(DATA_FORMATS),
    default="table",
    show_default=True,
    help="How --check prints the devices.",
)
@click.option(
    "--kubelet-folder",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    default=_KUBELET_FOLDER,
    show_default=True,
    help="The folder with the kubelet's socket, where the plugin creates its own.",
)
@click.option(
    "--host-root",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    default=Path("/"),
    show_default=True,
    help="The folder where the host's files are mounted. Paths in the configuration are those of the host.",
)
@click.option("--monitor", metavar="IP:PORT", callback=_parse_address, help="The address for metrics, over plain HTTP.")
@click.option(
    "--log-level",
    type=click.Choice(tuple(LEVELS)),
    default="info",
    show_default=True,
    help="The lowest level that is logged.",
)
def device_plugin(config: Path, output: str, log_level: str, *, check: bool, **folders: Any) -> None:
    """Publish devices of this node to its kubelet, as extended resources that pods request.

    For devices without a driver in the cluster: dongles, serial ports, FPGAs by path, licences of a node. For a GPU use
    the device plugin or DRA driver of its vendor, which knows its health and its partitions.

    The plugin registers with the kubelet by its device plugin API v1beta1, and again when the kubelet restarts. IDs of
    devices depend only on the file and on paths, so a restart of the plugin changes no allocation. A shared device
    (`replicas`) is given to several containers at a time, without isolation. An example of the file:

    \b
        apiVersion: tallygate.dev/v1alpha1
        kind: DevicePluginConfig
        resources:
        - name: example.com/dongle
          devices: [{path: /dev/ttyUSB*}]
          container:
            env: {DONGLES: "{paths}"}
          health: {file: "/run/dongles/{id}.ok"}

    Exit codes: 0 stopped, or checked; 1 with --check: a device is unhealthy; 2 an error in the file, or it cannot run.
    """  # noqa: D301 -- \b keeps click from filling the example
    resources = _read_resources(config, output)
    settings = PluginSettings(folders["kubelet_folder"], HostFiles(folders["host_root"]), folders["monitor"])
    if check:
        sys.exit(_print_devices(resources, settings.host, output))
    run_device_plugin(resources, settings, create_logger(log_level))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a check that waits for a slow server would delay the exit until its timeout


def _read_resources(config: Path, output: str) -> tuple[DeviceResource, ...]:
    """Return the resources; print all findings of the file and exit if there are any."""
    try:
        with config.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{config} cannot be read: {error.strerror}; check that it is there and readable") from error
    read = read_device_config(format_file_name(str(config)), content)
    if read.findings:
        findings = [
            Finding(finding.file, finding.line, finding.column, FindingSeverity.ERROR, finding.code, finding.message)
            for finding in read.findings
        ]
        tables.print_findings("DeviceReport", findings, RunSummary("configuration", 1, 1), output)
        sys.exit(EXIT_USAGE_ERROR)
    return read.resources


def _print_devices(resources: tuple[DeviceResource, ...], host: HostFiles, output: str) -> int:
    """Print the devices as the plugin would publish them; return the exit code."""
    offered = [(resource, device) for resource in resources for device in _list_devices(resource, host)]
    tables.print_records(_DEVICES, "Device", offered, output)
    return int(any(offer.problem for _, offer in offered))


def _list_devices(resource: DeviceResource, host: HostFiles) -> tuple[OfferedDevice, ...]:
    inventory = observe_devices({}, host.find_devices(resource), resource, 0.0)
    probes, checked = HealthProbes(host), dict(inventory)
    if resource.health is not None:
        for device_id, tracked in inventory.items():
            if not tracked.found.problem:
                result = probes.check(tracked.found, resource.health)
                checked.update(record_check(checked, device_id, result, resource))
    return list_offered(checked, resource)


def _format_numa(numa: int | None) -> str:
    return "" if numa is None else str(numa)


def _format_health(offered: OfferedDevice) -> str:
    return f"unhealthy: {offered.problem}" if offered.problem else "healthy"


_DEVICES = columns.Columns[tuple[DeviceResource, OfferedDevice]](
    columns.Column("RESOURCE", "resource", lambda pair: pair[0].name),
    columns.Column("DEVICE", "id", lambda pair: pair[1].offered_id),
    columns.Column("PATH", "path", lambda pair: pair[1].device.path or None, lambda pair: pair[1].device.path),
    columns.Column("NUMA", "numa", lambda pair: pair[1].device.numa, lambda pair: _format_numa(pair[1].device.numa)),
    columns.Column("HEALTH", "healthy", lambda pair: not pair[1].problem, lambda pair: _format_health(pair[1])),
    columns.Column("", "reason", lambda pair: pair[1].problem or None),
)
