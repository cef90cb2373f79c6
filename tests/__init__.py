"""The tests, mirroring src/rocketha. `trial tests.<ring>` and `pytest` both run them."""
