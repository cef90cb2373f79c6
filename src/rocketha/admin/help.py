"""``rocketha help``: the help of any command or action, and the manual's page of all of them.

``docs/command.rst`` is this command's output, and a test says when it is stale.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import click

from rocketha.admin import cli
from rocketha.admin.commands import CONTEXT, DONE, EXIT_CODES, Common, Given
from rocketha.admin.commands import command as declared

HEAD = f"""The ``rocketha`` command
========================

Written by ``rocketha help --rst docs/command.rst`` from the commands themselves. Options may stand anywhere behind the
command: before the action, behind it, and between its words.

``--json`` prints JSON on standard output, and nothing else. An error is one line on standard error; with ``--json``
``{{"error": TEXT, "exit": CODE}}``. Tables fit the terminal (with ``rocketha[terminal]``, and without colours where
``NO_COLOR`` is set); elsewhere columns are aligned by blanks, a line a row.

{EXIT_CODES}

What cannot be undone asks first on a terminal, and wants ``--yes`` elsewhere.

Completion of commands, actions, options and their values::

    $ echo 'eval "$(rocketha completion bash)"' >> ~/.bashrc
    $ echo 'eval "$(rocketha completion zsh)"' >> ~/.zshrc
    $ rocketha completion fish > ~/.config/fish/completions/rocketha.fish
"""
COMMON = """Common options
--------------

Those that several commands have.
"""


@declared("help")
@click.argument("words", metavar="[COMMAND [ACTION]]", nargs=-1)
@click.option("--rst", metavar="FILE", help="Write the manual's page of all commands there instead.")
def command(args: Given) -> int:
    """Print the help of a command or of an action."""
    if args.rst is not None:
        pathlib.Path(args.rst).write_text(page(), encoding="utf-8")
        return DONE
    ctx = click.Context(cli.root(), info_name=cli.PROGRAM, **CONTEXT)
    for word in args.words:
        if not isinstance(ctx.command, click.Group):
            raise click.UsageError(f"{ctx.command_path} has no actions.")
        name, found, _ = ctx.command.resolve_command(ctx, [word])
        assert found is not None
        ctx = click.Context(found, info_name=name, parent=ctx, **CONTEXT)
    click.echo(ctx.get_help())
    return DONE


def everything() -> Iterator[click.Context]:
    """A context of each command, and behind it of each of its actions."""
    root = click.Context(cli.root(), info_name=cli.PROGRAM)
    for name in cli.SUBCOMMANDS:
        found = cli.root().get_command(root, name)
        assert found is not None
        ctx = click.Context(found, info_name=name, parent=root)
        yield ctx
        if isinstance(found, click.Group):
            yield from (click.Context(each, info_name=action, parent=ctx) for action, each in found.commands.items())


def page() -> str:
    """docs/command.rst."""
    lines, common = [HEAD], {}
    for ctx in everything():
        assert ctx.command.help is not None
        heading = ctx.command_path.removeprefix(f"{cli.PROGRAM} ")
        lines += [heading, ("~" if " " in heading else "-") * len(heading), ""]
        if not isinstance(ctx.command, click.Group):
            usage = " ".join(ctx.command.collect_usage_pieces(ctx))
            lines += [f"``{ctx.command_path} {usage}``", ""]
        lines += [*_paragraphs(ctx.command.help), ""]
        for param in ctx.command.params:
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is None:
                continue
            if isinstance(param, Common):
                common[record[0]] = record[1]
            elif not isinstance(ctx.command, click.Group):
                lines += [f"``{record[0]}``", f"   {_escaped(record[1])}", ""]
        shared = [f"``{each.opts[-1]}``" for each in ctx.command.params if isinstance(each, Common)]
        if shared and not isinstance(ctx.command, click.Group):
            lines += [f"And {', '.join(shared)}.", ""]
    lines += [COMMON]
    for name, said in sorted(common.items()):
        lines += [f"``{name}``", f"   {_escaped(said)}", ""]
    return "\n".join(lines)


def _paragraphs(text: str) -> Iterator[str]:
    """Help as reStructuredText: what is laid out stays so."""
    for number, part in enumerate(text.split("\n\n")):
        if number:
            yield ""
        if part.lstrip().startswith("\b"):
            yield from ("::", "", *(f"    {line}" for line in part.splitlines()[1:]))
        else:
            yield _escaped(" ".join(part.split()))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("|", "\\|").replace("`", "\\`")
