"""Resource names, whole: their grammar, their families, and which are allowed where."""

from webhook.accounting.name_families import (
    ATTACHABLE_VOLUMES_PREFIX,
    HUGEPAGES_PREFIX,
    LIMITS_PREFIX,
    OPAQUE_PREFIX,
    REQUESTS_PREFIX,
    Family,
    classify_name,
    is_countable,
    is_extended,
    is_hugepage,
    is_integer,
    is_native,
    is_overcommit_allowed,
    is_prefixed_native,
    is_scheduler_scalar,
)
from webhook.accounting.name_grammar import find_qualified_name_errors
from webhook.accounting.name_rules import NameContext, NameProblem, find_advertised_name_problems, find_name_problems

__all__ = [
    "ATTACHABLE_VOLUMES_PREFIX",
    "HUGEPAGES_PREFIX",
    "LIMITS_PREFIX",
    "OPAQUE_PREFIX",
    "REQUESTS_PREFIX",
    "Family",
    "NameContext",
    "NameProblem",
    "classify_name",
    "find_advertised_name_problems",
    "find_name_problems",
    "find_qualified_name_errors",
    "is_countable",
    "is_extended",
    "is_hugepage",
    "is_integer",
    "is_native",
    "is_overcommit_allowed",
    "is_prefixed_native",
    "is_scheduler_scalar",
]
