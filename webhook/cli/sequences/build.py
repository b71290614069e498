"""Building: from a document that has the right shape to a sequence, or to what the shape alone does not tell."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from webhook.accounting.names import REQUESTS_PREFIX
from webhook.accounting.quantity import Quantity
from webhook.admission.change import UserInfo
from webhook.cli.sequences.actions import action
from webhook.cli.sequences.model import (
    Action,
    Create,
    Expected,
    LedgerExpected,
    Sequence,
    Step,
    Verdict,
)
from webhook.cli.sequences.objects import ObjectError
from webhook.cli.sequences.plain import mapping, number, plain
from webhook.policy.build import Fields
from webhook.policy.codes import UNKNOWN_VALUE
from webhook.policy.finding import LintFinding, Severity
from webhook.policy.formats import quote_text
from webhook.policy.load import SHIPPED_POLICIES, load_policies
from webhook.policy.model import NamespaceCap, PolicySet, SourceLocation
from webhook.policy.nodes import Mapping, Node, Scalar
from webhook.policy.suggest import format_suggestion

_AUTHENTICATED: Final = "system:authenticated"
_DEVELOPER: Final = "developer"
_DEFAULT: Final = "default"
_LOOKED_AT: Final = ("held", "promised", "free")


class _Builder:
    """Builds one sequence, and notes what is wrong with it."""

    def __init__(self, file: str, document: Mapping) -> None:
        self.file = file
        self.document = document
        self.fields = Fields(document)
        self.findings: list[LintFinding] = []
        self.usable = False

    def sequence(self) -> Sequence | None:
        """The sequence; None when something is wrong with it."""
        policies = self._policies()
        namespaces = {name: mapping(Fields(node), "labels") for name, node in self._each("namespaces")}
        namespaces = namespaces or {_DEFAULT: {}}
        steps: list[Step | None] = []
        known = list(namespaces)
        for node in self.fields.get_items("steps"):
            steps.append(self._step(node, policies, known))
            known += _namespaces(steps[-1])
        if self.findings:
            return None
        return Sequence(
            self.fields.get_text("name"),
            policies,
            namespaces,
            tuple(step for step in steps if step is not None),
            self._source(self.document),
            {name: plain(node) for name, node in self._each("nodes")},
        )

    def _each(self, name: str) -> Iterator[tuple[str, Node]]:
        node = self.fields.get_node(name)
        for key, value in node.pairs if isinstance(node, Mapping) else ():
            yield key.text, value

    def _source(self, node: Node) -> SourceLocation:
        return SourceLocation(self.file, node.line, node.column)

    def _policies(self) -> PolicySet:
        given = self.fields.get_items("policies")
        folder = Path(self.file).parent
        paths = [folder / node.text for node in given if isinstance(node, Scalar)]
        written = [(self.file, node) for node in given if isinstance(node, Mapping)]
        parsed = load_policies(paths if given else (SHIPPED_POLICIES,), written)
        self.usable = parsed.is_usable
        self.findings += [each for each in parsed.findings if each.severity is Severity.ERROR]
        return parsed.policies

    def _step(self, node: Node, policies: PolicySet, namespaces: list[str]) -> Step | None:
        fields = Fields(node)
        place = fields.get_node("namespace")
        namespace = fields.get_text("namespace", namespaces[0])
        if place is not None:
            self._known(place, namespace, namespaces, "namespace")
        done = self._action(node)
        expected = self._expected(fields.get_fields("expect"), policies, namespaces, namespace)
        if done is None:
            return None
        dry_run = fields.get_flag("dryRun", default=False)
        return Step(done, namespace, _user(fields.get_fields("as")), expected, self._source(node), dry_run)

    def _action(self, node: Node) -> Action | None:
        try:
            return action(node, self._source(node))
        except ObjectError as error:
            self.findings.append(error.finding)
            return None

    def _expected(self, fields: Fields, policies: PolicySet, namespaces: list[str], namespace: str) -> Expected:
        pods = fields.get_fields("pods")
        return Expected(
            Verdict(fields.get_text("verdict", Verdict.ALLOWED)),
            fields.get_texts("codes") if fields.get_node("codes") else None,
            fields.get_text("message") if fields.get_node("message") else None,
            fields.get_texts("warnings") if fields.get_node("warnings") else None,
            dict(fields.get_fields("filled").get_pairs()) if fields.get_node("filled") else None,
            number(pods.get_node("made")),
            number(pods.get_node("missing")),
            tuple(self._ledger(item, policies, namespaces, namespace) for item in fields.get_items("ledger")),
        )

    def _ledger(self, node: Node, policies: PolicySet, namespaces: list[str], namespace: str) -> LedgerExpected:
        fields = Fields(node)
        caps = {cap.name: cap for cap in policies.caps}
        name = fields.get_text("cap")
        if self.usable:
            self._known(fields.get_node("cap") or node, name, list(caps), "cap")
            self._counted(fields, caps.get(name))
        place = fields.get_node("namespace")
        if place is not None:
            self._known(place, fields.get_text("namespace"), namespaces, "namespace")
        shared = name in caps and caps[name].shared
        amounts = {each: _quantities(fields.get_fields(each)) for each in _LOOKED_AT if fields.get_node(each) is not None}
        whose = "" if shared else fields.get_text("namespace", namespace)
        return LedgerExpected(name, whose, amounts, self._source(node))

    def _counted(self, fields: Fields, cap: NamespaceCap | None) -> None:
        """What a cap does not count would be taken for nothing of it."""
        counted = sorted({*cap.hard, *cap.soft}) if cap is not None else []
        for each in _LOOKED_AT:
            below = fields.get_node(each)
            for key, _ in below.pairs if cap is not None and isinstance(below, Mapping) else ():
                self._known(key, key.text.removeprefix(REQUESTS_PREFIX), counted, "name that the cap counts")

    def _known(self, node: Node, name: str, known: list[str], what: str) -> None:
        if name not in known:
            hint = format_suggestion(name, known) or (f"; there is {', '.join(known[:5])}" if known else "")
            self._say(node, UNKNOWN_VALUE, f"{quote_text(name)} is no {what} here{hint}")

    def _say(self, node: Node, code: str, message: str) -> None:
        self.findings.append(LintFinding.create(self._source(node), code, Severity.ERROR, message))


def build(file: str, document: Mapping) -> tuple[Sequence | None, list[LintFinding]]:
    """The sequence that a document says, or everything that is wrong with it beyond its shape."""
    builder = _Builder(file, document)
    sequence = builder.sequence()
    return sequence, builder.findings


def _namespaces(step: Step | None) -> Iterator[str]:
    """The namespace that a step creates, if it does."""
    if step is not None and isinstance(step.action, Create) and step.action.body["kind"] == "Namespace":
        yield str((step.action.body.get("metadata") or {}).get("name") or "")


def _user(fields: Fields) -> UserInfo:
    return UserInfo(fields.get_text("user", _DEVELOPER), (*fields.get_texts("groups"), _AUTHENTICATED))


def _quantities(fields: Fields) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in fields.get_pairs().items()}
