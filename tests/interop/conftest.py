"""What pytest must know before it reads the tests of this folder."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: longer with ROCKETHA_SOAK=1; `make soak` runs only these")
