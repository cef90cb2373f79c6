"""The tests, mirroring src/rocketha. `trial tests.<ring>` and `pytest` both run them."""

from hypothesis import settings

# Hypothesis would fail an example that takes 200 ms: on a busy machine any may.
settings.register_profile("rocketha", deadline=None)
settings.load_profile("rocketha")
