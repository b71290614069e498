"""A store and a gate for each test."""

from pathlib import Path

import pytest

from tallygate_certs.certificate_names import create_service_names
from tallygate_certs.renewal import issue
from tests.admission.test_self_registration import KINDS, configuration
from tests.server.registration.memory_registration import NOW, Gate, MemoryRegistrationStore


@pytest.fixture
def store() -> MemoryRegistrationStore:
    """Return a store with both configurations, without webhooks and left to the gate."""
    return MemoryRegistrationStore(*(configuration(kind) for kind in KINDS))


@pytest.fixture
def gate(tmp_path: Path, store: MemoryRegistrationStore) -> Gate:
    """Return a ready gate with a certificate for its Service, whose controller has not run."""
    issue(tmp_path, create_service_names("tallygate", "here"), NOW)
    return Gate(tmp_path, store)
