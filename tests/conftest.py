"""How the tests run: property tests judge answers, not seconds, so a busy machine fails none of them."""

from hypothesis import HealthCheck, settings

settings.register_profile("tallygate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tallygate")
