"""The package of plug-ins: any distribution may add modules to it.

A distribution brings a file ``rocketha/plugins/NAME.py`` and no ``__init__.py`` beside it.
:mod:`rocketha.services.features.finding` looks here.
"""

from __future__ import annotations

from twisted.plugin import pluginPackagePaths

__path__.extend(pluginPackagePaths(__name__))  # type: ignore[no-untyped-call]
