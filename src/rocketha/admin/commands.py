"""What every subcommand is built from: :class:`Command`, which does something, and :class:`Actions`, which has actions.

What it must not know: any subcommand.  A command's function gets one object with all parameters as attributes
(:data:`Given`) and returns an exit code; its docstring is the help.  Options may stand anywhere: those of an
:class:`Actions` are accepted before and behind the action's name, since every action has them, too.
"""

from __future__ import annotations

import copy
import os
import signal
import sys
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import click

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes of every command."""

EXIT_CODES = (
    f"Exit codes: {DONE} done, {FAILED} it failed or nobody answered, {USAGE} wrong usage, "
    f"{INTERRUPTED} stopped by Ctrl-C."
)

Given = SimpleNamespace
"""The parameters of a command, by their names."""

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 120}


class Common(click.Option):
    """An option that many commands have: in the help it stands behind the command's own."""


class _InTwoSections(click.Command):
    """The help shows a command's own options first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options, then common options."""
        own: list[tuple[str, str]] = []
        common: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                (common if isinstance(param, Common) else own).append(record)
        for title, records in (("Options", own), ("Common options", common)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Command(_InTwoSections):
    """Calls its function with one :data:`Given`."""

    def invoke(self, ctx: click.Context) -> Any:
        """What the function returns: an exit code."""
        assert self.callback is not None
        return ctx.invoke(self.callback, Given(**ctx.params))


def _close(word: str, names: Iterable[str]) -> list[str]:
    from difflib import get_close_matches  # here, because --help is to be quick

    return get_close_matches(word, list(names))


class Suggesting(click.Group):
    """Says which name may have been meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names.

        :raises click.UsageError: there is none.
        """
        names = self.list_commands(ctx)
        if args[0] not in names and not args[0].startswith("-") and not ctx.resilient_parsing:
            likely = _close(args[0], names)
            meant = f" Did you mean {' or '.join(likely)}?" if likely else f" There are {', '.join(names)}."
            raise click.UsageError(f"No such {self.subcommand_metavar_name} {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    subcommand_metavar_name = "command"


class Actions(_InTwoSections, Suggesting):
    """A subcommand with actions.  Its options are each action's, too.

    :param default: the action that is meant where the first word is none.
    """

    command_class = Command
    subcommand_metavar_name = "action"

    def __init__(self, name: str | None = None, default: str = "", **attrs: Any) -> None:
        super().__init__(name, **{"subcommand_metavar": "[ACTION] ..." if default else "ACTION ...", **attrs})
        self._default = default
        self.callback = None  # its docstring was the help
        self._shared = self.params
        self.params = [copy.copy(each) for each in self._shared]
        for each in self.params:
            each.required = False  # whether it is there is looked at when the action is known

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add an action."""
        cmd.params += self._shared
        cmd.context_settings = CONTEXT
        super().add_command(cmd, name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What stands before the action is moved behind it, where it is parsed."""
        args = self._with_default(args)
        rest = self.make_parser(ctx).parse_args(list(args))[1]
        if rest:
            before = args[: len(args) - len(rest)]
            args = [rest[0], *(each for each in before if each != "--"), *rest[1:]]
        left = super().parse_args(ctx, args)
        if not rest and not ctx.resilient_parsing:
            raise click.UsageError("Missing action.", ctx)
        return left

    def _with_default(self, args: list[str]) -> list[str]:
        shared = {word for param in self.params for word in param.opts}
        first = next((each for each in args if each not in shared), None)
        if not self._default or first is None or first in (*self.commands, *CONTEXT["help_option_names"]):
            return args
        if not os.path.exists(first) and _close(first, self.commands):  # a slip of the pen, and no place
            return args
        return [self._default, *args]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Actions first: they are what is looked for."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each with the first sentence of its help."""
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))
        with formatter.section("Actions"):
            formatter.write_dl([(name, self.commands[name].get_short_help_str(width)) for name in names])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they were declared."""
        return list(self.commands)


def command(name: str, **attrs: Any) -> Callable[[Callable[[Given], int]], click.Command]:
    """A decorator: the function becomes a subcommand."""
    return click.command(name, cls=Command, context_settings=CONTEXT, **attrs)


def actions(name: str, default: str = "") -> Callable[[Callable[..., Any]], Actions]:
    """A decorator: the function's options and docstring become those of a subcommand with actions.

    :param default: the action that is meant where none is named.
    """
    return click.command(name, cls=Actions, default=default, context_settings=CONTEXT)


def only_one(given: Given, names: Iterable[str]) -> None:
    """Of options that exclude each other at most one may be given.

    :param names: as the options have them: ``--oneway``.
    :raises click.UsageError: two are.
    """
    found = [name for name in names if getattr(given, name.lstrip("-").replace("-", "_"))]
    if len(found) > 1:
        raise click.UsageError(f"{' and '.join(found)} exclude each other.", click.get_current_context(silent=True))


def confirm(given: Given, what: str) -> None:
    """Ask whether something that cannot be undone shall be done; ``--yes`` answers beforehand.

    :param what: the question, without its mark.
    :raises click.Abort: no.
    :raises KeyboardInterrupt: Ctrl-C.
    :raises click.UsageError: nobody can be asked.
    """
    if given.yes:
        return
    if not sys.stdin.isatty():
        here = click.get_current_context(silent=True)
        raise click.UsageError(f"{what}? Without a terminal --yes must be given.", here)
    # Not click.confirm, some versions of which write to standard output.
    print(f"{what}? [y/N]: ", end="", file=sys.stderr, flush=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a reactor's would be heard after the answer
    try:
        answer = sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
    if answer.strip().lower() not in ("y", "yes"):
        raise click.Abort
