"""pytest only: run in a temporary directory, as trial does, so that ``TestCase.mktemp`` leaves nothing in the tree."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The working directory of the whole run."""
    here = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("working-directory"))
    yield
    os.chdir(here)
