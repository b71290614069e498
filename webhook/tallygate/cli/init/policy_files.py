"""The texts of policies and scenarios that `tallygate init` writes.

A rule and a cap have a file each, so that a scenario of the one does not depend on the other. Every amount that a
scenario expects follows from the choices.
"""

import json
import re
from collections.abc import Iterator, Mapping
from string import Template

from tallygate.cli.init.choices import GPU, Choices, GpuCount, Purpose, create_namespace_name
from tallygate.policy.load import SHIPPED_POLICIES

POLICY_SCHEMA = ".schemas/policy.json"
SCENARIO_SCHEMA = ".schemas/scenario.json"
"""The schemas for editors, in the folder of the policies. A hidden folder is read by no command and by no gate."""

_SLICE = "nvidia.com/mig-1g.10gb"
_SLICES_OF_A_GPU = 7
_WEIGHTS = f"{_SLICE}: 1, nvidia.com/mig-2g.20gb: 2, nvidia.com/mig-3g.40gb: 4, {GPU}: {_SLICES_OF_A_GPU}"
_GPU_MEMORY_RESOURCE = "nvidia.com/gpumem"
_GPU_MEMORY = 81920
"""MiB of one GPU."""

_PLAIN = re.compile(r"[A-Za-z][\w./-]*", re.ASCII)
_OTHER_SCALARS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})

_RULE = Template("""\
# The amounts of $resource that one container and one pod may request.
# A denial shows the annotation tallygate.dev/why: name a contact and an alternative in it.
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata:
  name: $name
  annotations:
    tallygate.dev/why: "$why"
spec:
  resources: [$resource]
  # `audit` only reports, `warn` admits with a warning, `deny` denies. A new rule begins with audit or warn.
  enforcement: $enforcement
  checks:
$checks
""")

_SLICE_RULE = """\
---
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata:
  name: one-slice-per-container
  annotations:
    tallygate.dev/why: "a CUDA program uses only one MIG slice of its container"
spec:
  resources: ["nvidia.com/mig-*"]
  checks:
    perContainer: {max: 1}
"""

_RULE_SCENARIO = Template("""\
# Steps run in order; a step without `expect` must be allowed.
name: a container requests $amounts of $resource
policies: [../$file]
steps:
- create: {pod: allowed, resources: {$resource: $most}}
- create: {pod: other, resources: {$resource: $other}}
$denied
- create: {deployment: others, resources: {$resource: $other}}
$denied
""")

_CAP = Template("""\
$about
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata:
  name: $name
  annotations:
    tallygate.dev/why: "$why"
spec:
$scope
  # Above hard a request is denied; above soft it is admitted with a warning. A new cap may begin with only soft.
  hard: {$resource: $hard}
$others""")

_CAP_SCENARIO = Template("""\
# In the ledger of a cap, amounts become free when pods end.
name: $name
policies: [../$file]
namespaces:
$namespaces
steps:
- create: {pod: first, resources: {$first}} # one large pod in place of many
  namespace: $namespace
$warned- create: {pod: second, resources: {$second}}
  namespace: $neighbour
  expect: {verdict: denied, codes: [TG201], message: free 0}
$elsewhere- finish: {pod: first}
  namespace: $namespace
- create: {pod: second, resources: {$second}}
  namespace: $neighbour
""")


def list_policy_texts(choices: Choices) -> Iterator[tuple[str, str, str]]:
    """Yield the files of the policies' folder: path, text, and what each is for. The first one is the shipped rules."""
    yield "default.yaml", _create_default_text(), "the rules that tallygate ships; your own set replaces them"
    stem = {Purpose.GPUS: "gpu-", Purpose.LICENCES: "licence-", Purpose.RULES: ""}[choices.purpose]
    rule_file, cap_file = f"{stem}requests.yaml", f"{stem}caps.yaml"
    yield rule_file, _add_schema(_create_rule(choices), POLICY_SCHEMA), "what a pod may request"
    if choices.purpose is not Purpose.RULES:
        yield cap_file, _add_schema(_create_cap(choices), POLICY_SCHEMA), "what all pods together may use"
    yield f"tests/{rule_file}", _create_scenario_text(_create_rule_scenarios(choices, rule_file)), "a test of the rule"
    if choices.purpose is not Purpose.RULES:
        yield f"tests/{cap_file}", _create_scenario_text(_create_cap_scenario(choices, cap_file)), "a test of the cap"


def _add_schema(text: str, schema: str) -> str:
    return f"# yaml-language-server: $schema={schema}\n#\n{text}"


def _create_scenario_text(text: str) -> str:
    return _add_schema(text, f"../{SCENARIO_SCHEMA}")


def _create_default_text() -> str:
    """Return the shipped rules with a head of their own."""
    shipped = (SHIPPED_POLICIES / "default.yaml").read_text(encoding="utf-8")
    rules = shipped[shipped.index("apiVersion:") :]
    return _add_schema(
        f"# The rules that tallygate ships. Your own set replaces them, so they are a part of it.\n{rules}",
        POLICY_SCHEMA,
    )


def _create_rule(choices: Choices) -> str:
    if choices.purpose is Purpose.LICENCES:
        return _RULE.substitute(
            name="one-licence-per-pod",
            resource=choices.resource,
            why="one pod uses one licence; ask the platform team if yours needs more",
            enforcement="deny",
            checks="    perPod: {max: 1}",
        )
    amounts = ", ".join(map(str, choices.amounts))
    rule = _RULE.substitute(
        name="gpu-amounts" if choices.purpose is Purpose.GPUS else "allowed-amounts",
        resource=choices.resource,
        why="other numbers leave parts of nodes that no pod can use; ask the platform team for another shape",
        enforcement="warn" if choices.purpose is Purpose.RULES else "deny",
        checks=f"    perContainer: {{oneOf: [{amounts}]}}\n    perPod: {{max: {choices.amounts[-1]}}}",
    )
    return f"{rule}{_SLICE_RULE}" if choices.gpu_count is GpuCount.SLICES else rule


def _create_rule_scenarios(choices: Choices, file: str) -> str:
    is_licence = choices.purpose is Purpose.LICENCES
    amounts = (1,) if is_licence else choices.amounts
    other = next(each for each in range(1, amounts[-1] + 2) if each not in amounts)
    codes = (["TG107"] if not is_licence else []) + (["TG108"] if other > amounts[-1] else [])
    expected = f"[{', '.join(codes)}]"
    denied = f"warnings: {expected}" if choices.purpose is Purpose.RULES else f"verdict: denied, codes: {expected}"
    text = _RULE_SCENARIO.substitute(
        amounts=_join_words([str(each) for each in amounts]),
        resource=choices.resource,
        file=file,
        most=amounts[-1],
        other=other,
        denied=f"  expect: {{{denied}}}",
    )
    if choices.gpu_count is not GpuCount.SLICES:
        return text
    slices = f"{{{_SLICE}: 2}}"
    return f"{text}- create: {{pod: slices, resources: {slices}}}\n  expect: {{verdict: denied}}\n"


def _create_cap(choices: Choices) -> str:
    name, hard = _get_limit(choices)
    return _CAP.substitute(
        about=_describe_cap(choices),
        name=_get_cap_name(choices),
        why=_get_cap_reason(choices),
        scope=_format_scope(choices),
        resource=name,
        hard=hard,
        others="".join(f"{line}\n" for line in _list_other_lines(choices)),
    )


def _describe_cap(choices: Choices) -> str:
    if choices.purpose is Purpose.LICENCES:
        return f"# The site has {choices.hard} {choices.resource}, for all namespaces together."
    if choices.team_label:
        return (
            f"# Each team has {_count_gpus(choices)} in all its namespaces together: "
            f"those with one value of the label\n"
            f"# {choices.team_label}. A namespace without the label is not limited."
        )
    return f"# Each namespace whose name matches {choices.team_namespaces} has {_count_gpus(choices)} for itself."


def _count_gpus(choices: Choices) -> str:
    return f"{choices.hard} GPU{'s' * (choices.hard != 1)}"


def _get_cap_name(choices: Choices) -> str:
    return "licences" if choices.purpose is Purpose.LICENCES else "team-gpus"


def _get_cap_reason(choices: Choices) -> str:
    if choices.purpose is Purpose.LICENCES:
        return f"the site has {choices.hard} licence{'s' * (choices.hard != 1)}; ask the platform team for more"
    return f"a team has {_count_gpus(choices)}; ask the platform team for more"


def _format_scope(choices: Choices) -> str:
    if choices.purpose is Purpose.LICENCES:
        return "  shared: true"
    if choices.team_label:
        return f"  groupBy: {{label: {_quote_scalar(choices.team_label)}}}"
    return f"  namespaces: {{include: [{json.dumps(choices.team_namespaces)}]}}"


def _get_limit(choices: Choices) -> tuple[str, int]:
    """Return the counted name of the cap, and its hard limit."""
    match choices.gpu_count:
        case GpuCount.SLICES:
            return "gpu-slices", choices.hard * _SLICES_OF_A_GPU
        case GpuCount.MEMORY:
            return "gpu-memory", choices.hard * _GPU_MEMORY
        case GpuCount.WHOLE:
            return choices.resource, choices.hard


def _compute_soft(choices: Choices) -> int:
    """Return three quarters of the hard limit; 0 where it is so small that no warning could come before the denial."""
    return _get_limit(choices)[1] * 3 // 4


def _list_other_lines(choices: Choices) -> Iterator[str]:
    name, _ = _get_limit(choices)
    if soft := _compute_soft(choices):
        yield f"  soft: {{{name}: {soft}}}"
    match choices.gpu_count:
        case GpuCount.SLICES:
            yield "  counts:"
            yield f"    gpu-slices: # sevenths of a GPU; {_count_gpus(choices)}. Use the resource names of your nodes"
            yield "      weights:"
            yield f"        {{{_WEIGHTS}}}"
        case GpuCount.MEMORY:
            yield "  counts:"
            yield f"    gpu-memory: # MiB; {_count_gpus(choices)} of {_GPU_MEMORY} MiB"
            yield f"      product: [{GPU}, {_GPU_MEMORY_RESOURCE}]"
        case GpuCount.WHOLE:
            pass
    yield "  # Users who may exceed hard; the audit log names them:"
    yield (
        "  # exceed: {groups: [gpu-admins]}"
        if choices.purpose is Purpose.GPUS
        else "  # exceed: {groups: [licence-admins]}"
    )


def _create_cap_scenario(choices: Choices, file: str) -> str:
    names = list(_list_namespaces(choices))
    namespace, neighbour = names[0], names[1] if _shares_limit(choices) else names[0]
    soft = _compute_soft(choices)
    amounts, one = _get_scenario_amounts(choices)
    others = names[-1] if choices.purpose is Purpose.GPUS and names[-1] not in (namespace, neighbour) else ""
    return _CAP_SCENARIO.substitute(
        name=f"{_get_cap_reason(choices).partition(';')[0]}, and those of pods that have ended are free",
        file=file,
        namespaces="\n".join(f"  {name}: {labels}" for name, labels in _list_namespaces(choices).items()),
        namespace=namespace,
        neighbour=neighbour,
        first=amounts,
        second=one,
        warned=f"  expect: {{warnings: [soft {soft}]}}\n" if soft else "",
        elsewhere=f"- create: {{pod: other, resources: {{{one}}}}} # with a limit of its own\n  namespace: {others}\n"
        if others
        else "",
    )


def _shares_limit(choices: Choices) -> bool:
    """Return whether the first two namespaces of the scenario use one amount."""
    return choices.purpose is Purpose.LICENCES or bool(choices.team_label)


def _list_namespaces(choices: Choices) -> Mapping[str, str]:
    """Return the namespaces of the scenario of a cap with their labels, as YAML."""
    if choices.purpose is Purpose.LICENCES:
        return {"team-a": "{}", "team-b": "{}"}
    if choices.team_label:
        vision, audio = (f"{{labels: {{{_quote_scalar(choices.team_label)}: {team}}}}}" for team in ("vision", "audio"))
        return {"vision-dev": vision, "vision-prod": vision, "audio-dev": audio}
    return {_quote_scalar(create_namespace_name(choices.team_namespaces, letter)): "{}" for letter in "ab"}


def _get_scenario_amounts(choices: Choices) -> tuple[str, str]:
    """Return the requests that use the whole limit, and the smallest ones, as entries of a mapping in YAML."""
    match choices.gpu_count:
        case GpuCount.SLICES:
            return f"{GPU}: {choices.hard}", f"{_SLICE}: 1"
        case GpuCount.MEMORY:
            whole = f"{GPU}: {choices.hard}, {_GPU_MEMORY_RESOURCE}: {_GPU_MEMORY}"
            return whole, f"{GPU}: 1, {_GPU_MEMORY_RESOURCE}: 1024"
        case GpuCount.WHOLE:
            return f"{choices.resource}: {choices.hard}", f"{choices.resource}: 1"


def _join_words(words: list[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _quote_scalar(text: str) -> str:
    """Return a text as YAML that every reader takes for a text, in quotes where it needs them."""
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _OTHER_SCALARS
    return text if is_plain else json.dumps(text)
