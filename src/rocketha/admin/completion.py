"""``rocketha completion``: the script by which a shell completes commands, actions, options and their values.

What it must not know: what there is to complete.  The script asks the command itself, each time.
"""

from __future__ import annotations

import click

from rocketha.admin import cli
from rocketha.admin.commands import DONE, Given
from rocketha.admin.commands import command as declared

SHELLS = ("bash", "zsh", "fish")


@declared("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(given: Given) -> int:
    """Print the script that makes a shell complete commands, actions, options and their values.

    \b
    bash:  echo 'eval "$(rocketha completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(rocketha completion zsh)"' >> ~/.zshrc
    fish:  rocketha completion fish > ~/.config/fish/completions/rocketha.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(given.shell)
    assert made is not None
    click.echo(made(cli.root(), {}, cli.PROGRAM, cli.COMPLETION).source())
    return DONE
