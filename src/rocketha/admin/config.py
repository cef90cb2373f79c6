"""``rocketha config``: what a configuration file amounts to."""

from __future__ import annotations

import click

from rocketha.admin import config_check, options, output
from rocketha.admin.commands import DONE, FAILED, Given, actions
from rocketha.services.config.checks import key_and_value


@actions("config")
@options.JSON
def command() -> None:
    """See whether a configuration would start, and what it amounts to."""


@command.command("check")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option(
    "--as",
    "kind",
    type=click.Choice(config_check.KINDS),
    help="Of which process it is (default: as its keys tell).",
)
@click.option("-s", "--set", metavar="KEY=VALUE", multiple=True, help="One key over the file; may be repeated.")
@click.option("--effective", is_flag=True, help="Print every key with the value that counts, and where it comes from.")
def check(args: Given) -> int:
    """Tell whether a process would start with FILE: errors, warnings, unknown keys, and a broker's plug-ins.

    Exit code 0: it would, as far as this can tell without opening a port or a store; 1: it would not.
    """
    verdict = config_check.examine(args.file, args.kind, dict(map(key_and_value, args.set)))
    if args.json:
        output.say_json(config_check.as_json(verdict, args.effective))
    else:
        for line in config_check.as_text(verdict, args.effective):
            print(output.clean(line))
    return FAILED if verdict.problems else DONE
