"""What tests of others may use: servers to test clients against, and help for authors of plug-ins.

Public, like :mod:`rocketha.interfaces`.  :class:`RocketMQ` starts and ends servers, from any test framework;
:mod:`rocketha.testing.fixtures` is the same as a plug-in of pytest.  :class:`FeatureContract` and :class:`FakeContext`
test plug-ins without a broker.

Every run of pytest imports this package where rocketha is installed, so what needs Twisted is loaded when it is asked
for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketha.testing.servers import NotStarted, RocketMQ

if TYPE_CHECKING:
    from rocketha.testing.features import FakeContext, FakeMessages, FeatureContract

__all__ = ["FakeContext", "FakeMessages", "FeatureContract", "NotStarted", "RocketMQ"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rocketha.testing import features  # see above

    return getattr(features, name)
