"""What a command makes of its words, without running it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click

from rocketha.admin.commands import Given


def parsed(command: click.Command, *words: str) -> tuple[Callable[..., Any], Given]:
    """The function that is named, without what puts it on the reactor, and what it is given.

    :raises click.UsageError: the words are wrong.
    """
    with command.make_context("it", list(words)) as ctx:
        if isinstance(command, click.Group):
            _, action, rest = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
            assert action is not None
            return parsed(action, *rest)
        assert command.callback is not None
        return inspect.unwrap(command.callback), Given(**ctx.params)
