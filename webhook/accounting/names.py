"""Resource names, whole: their grammar, their families, and which are allowed where."""

from webhook.accounting.name_families import (
    ATTACHABLE_VOLUMES_PREFIX,
    HUGEPAGES_PREFIX,
    LIMITS_PREFIX,
    OPAQUE_PREFIX,
    REQUESTS_PREFIX,
    Family,
    family,
    is_countable,
    is_extended,
    is_hugepage,
    is_integer,
    is_native,
    is_overcommit_allowed,
    is_prefixed_native,
    is_scheduler_scalar,
)
from webhook.accounting.name_grammar import qualified_name_faults
from webhook.accounting.name_rules import NameFault, Place, advertising_faults, faults

__all__ = [
    "ATTACHABLE_VOLUMES_PREFIX",
    "HUGEPAGES_PREFIX",
    "LIMITS_PREFIX",
    "OPAQUE_PREFIX",
    "REQUESTS_PREFIX",
    "Family",
    "NameFault",
    "Place",
    "advertising_faults",
    "family",
    "faults",
    "is_countable",
    "is_extended",
    "is_hugepage",
    "is_integer",
    "is_native",
    "is_overcommit_allowed",
    "is_prefixed_native",
    "is_scheduler_scalar",
    "qualified_name_faults",
]
