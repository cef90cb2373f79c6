"""The tests, mirroring src/rocketha. `trial tests.<ring>` and `pytest` both run them."""

from hypothesis import HealthCheck, settings

# Hypothesis would fail an example that takes 200 ms, or ten whose drawing takes seconds: on a busy machine any may.
settings.register_profile("rocketha", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rocketha")
