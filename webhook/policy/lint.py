"""Lint: what a set of well-formed policies means that its author cannot have meant.

Errors are what no request could ever meet or satisfy; they keep a set from being used. Warnings are what is legal and
probably a slip. Each stands at the field it is about.
"""

from webhook.policy.finding import LintFinding
from webhook.policy.lint_caps import lint_cap, lint_redundant_caps
from webhook.policy.lint_names import lint_names
from webhook.policy.lint_pairs import lint_pairs
from webhook.policy.lint_rules import lint_rule
from webhook.policy.model import PolicySet


def lint_policies(policies: PolicySet) -> tuple[LintFinding, ...]:
    """Every finding about a set, sorted by place."""
    findings = {
        *(finding for rule in policies.rules for finding in lint_rule(rule)),
        *(finding for cap in policies.caps for finding in lint_cap(cap)),
        *lint_pairs(policies.rules),
        *lint_redundant_caps(policies.caps),
        *lint_names(policies),
    }
    return tuple(sorted(findings))
