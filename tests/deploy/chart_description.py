"""The chart's Chart.yaml, from pyproject.toml: what Helm and Artifact Hub show of the chart."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from tallygate.state.kubernetes import cap_ledger

_OLDEST_KUBERNETES: Final = ">=1.30.0-0"  # matchConditions; -0 accepts versions of providers, such as v1.34.1-gke.2
ICON: Final = "icon.svg"  # in the chart's folder; docs/site puts it at the top of the site
_LINKS: Final = ("documentation", "changelog", "issues")


def describe_chart(project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of Chart.yaml for the table `project` of pyproject.toml, with the version of what it installs.

    Without `urls` there is no home, no source and no icon, since an icon is an address; without people who have names
    there are no maintainers. The release adds the address of the repository that it runs in, if `urls` has none.
    """
    urls = {label.lower(): url.rstrip("/") for label, url in project.get("urls", {}).items()}
    source = urls.get("source") or urls.get("repository") or ""
    homepage = urls.get("homepage", "")
    optional = {
        "home": homepage or source,
        "icon": f"{homepage}/{ICON}" if homepage else "",
        "sources": [source] if source else [],
        "maintainers": [each for each in project.get("maintainers") or project.get("authors") or () if "name" in each],
    }
    return {
        "apiVersion": "v2",
        "name": project["name"],
        "description": project["description"],
        "type": "application",
        "version": project["version"],
        "appVersion": project["version"],
        "kubeVersion": _OLDEST_KUBERNETES,
        "keywords": list(project["keywords"]),
        **{name: value for name, value in optional.items() if value},
        "annotations": _annotate(project, urls),
    }


def _annotate(project: Mapping[str, Any], urls: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of Artifact Hub; those that are lists are text."""
    definition = {
        "kind": cap_ledger.KIND,
        "version": cap_ledger.VERSION,
        "name": f"{cap_ledger.PLURAL}.{cap_ledger.GROUP}",
        "displayName": "Ledger of a cap",
        "description": "The amounts that the pods under one cap use, and its reservations. The gate writes it.",
    }
    links = [{"name": label, "url": urls[label]} for label in _LINKS if label in urls]
    return {
        "artifacthub.io/category": "security",
        "artifacthub.io/license": project["license"],
        "artifacthub.io/crds": yaml.safe_dump([definition], sort_keys=False, width=120),
        **({"artifacthub.io/links": yaml.safe_dump(links, sort_keys=False)} if links else {}),
    }
