"""The ``rocketha`` command: finds the subcommand's module by name, hands over, and tells what went wrong.

What it must not know: what a subcommand does.  A subcommand is a module of this package with a ``command``
(:mod:`rocketha.admin.commands`), listed in :data:`SUBCOMMANDS`; it is imported only when it is used or completed, so
that ``--help`` is quick.

Standard output has what was asked for and nothing else.  An error is one line on standard error, with ``--json`` a JSON
object; the exit codes are those of :data:`~rocketha.admin.commands.EXIT_CODES`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

import rocketha
from rocketha.admin.commands import CONTEXT, DONE, EXIT_CODES, FAILED, INTERRUPTED, USAGE, Suggesting
from rocketha.errors import ConfigError, RockethaError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SUBCOMMANDS = {
    "send": "send messages",
    "receive": "print messages as they come",
    "cluster": "see every process of a cluster: status",
    "doctor": "say what is wrong with a cluster, why, and what to do next",
    "bundle": "collect all that helps to help into one archive, without secrets",
    "log-level": "show or change what a running process logs",
    "topic": "see, make, change and delete topics",
    "group": "see, make and delete consumer groups, how far they are, and move them",
    "route": "show where clients of a topic send to and read from",
    "message": "look up messages, follow what became of them, and watch a topic",
    "broker": "see the brokers, take a set or a replica out of service",
    "clients": "list who is connected to the brokers, what for, and what was refused",
    "controller": "see and manage the controllers: status, why, transfer, members, add, remove",
    "dledger": "see who leads a group in DLedger mode, and hand its leadership over",
    "plan": "reckon what a group in DLedger mode may take in, by its network",
    "pki": "make, renew and show the certificates of a cluster",
    "keys": "print the configuration keys, or those with a word in them",
    "config": "tell whether a configuration would start, and what it amounts to: check",
    "check": "the same as config check, of a broker",
    "requests": "print which requests a broker serves in which role",
    "formats": "print the layout of every wire and disk format",
    "export": "copy a broker's store, checked, for other programs; again for what came since",
    "pyfiles": "write a zip for spark-submit --py-files, for clusters without rocketha",
    "simulate": "run a cluster with faults in simulated time, from a seed, and check what must hold",
    "fuzz": "attack a format's reader, a port or a file with valid, cut, mutated and hostile values",
    "help": "print the help of a command or of an action",
    "completion": "print the script that makes a shell complete commands and options",
}

MODULES = {"cluster": "cluster_status", "log-level": "log_level"}
"""Of subcommands whose module has another name."""

PROGRAM = "rocketha"
COMPLETION = "_ROCKETHA_COMPLETE"
"""The variable by which a shell asks for completions."""


class _Root(Suggesting):
    """Knows the subcommands by name and summary."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The one of that name, imported now."""
        if cmd_name not in SUBCOMMANDS:
            return None
        found: click.Command = importlib.import_module(f"rocketha.admin.{MODULES.get(cmd_name, cmd_name)}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without an import."""
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and summaries, without an import."""
        from click.shell_completion import CompletionItem

        named = [CompletionItem(name, help=said) for name, said in SUBCOMMANDS.items() if name.startswith(incomplete)]
        return named + click.Command.shell_complete(self, ctx, incomplete)


def root() -> click.Group:
    """The whole command."""
    made = _Root(
        PROGRAM,
        help="Talk to a RocketMQ cluster, and take formats apart.",
        epilog=EXIT_CODES,
        subcommand_metavar="COMMAND ...",
        context_settings=CONTEXT,
    )
    return click.version_option(rocketha.__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")(made)


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script.

    :return: an exit code.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if COMPLETION in os.environ:
        from click.shell_completion import shell_complete

        return shell_complete(root(), {}, PROGRAM, COMPLETION, os.environ[COMPLETION])
    path = " ".join([PROGRAM, *[each for each in given if not each.startswith("-")][:1]])
    try:
        with root().make_context(PROGRAM, list(given)) as ctx:
            return int(ctx.command.invoke(ctx) or DONE)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as problem:
        print(problem.format_message(), file=sys.stderr)
        return USAGE
    except click.ClickException as problem:
        at = getattr(problem, "ctx", None)
        where = at.command_path if at is not None else path
        return _failed(given, where, f"{problem.format_message()} See {where} --help", problem.exit_code)
    except click.Abort:
        return _failed(given, path, "not done", FAILED)
    except ConfigError as problem:
        return _failed(given, path, str(problem), USAGE)
    except RockethaError as problem:
        return _failed(given, path, str(problem), FAILED)
    except BrokenPipeError:
        # Somebody piped us into head. Point stdout elsewhere, or the interpreter complains once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as problem:
        return _failed(given, path, str(problem), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def _failed(given: Sequence[str], path: str, problem: str, code: int) -> int:
    text = " ".join(problem.split())
    if "--json" in given:
        import json  # here, because --help is to be quick

        print(json.dumps({"error": text, "exit": code}), file=sys.stderr)
    else:
        print(f"{path}: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
