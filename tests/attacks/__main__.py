"""``python -m tests.attacks [--list] [NAME ...]``: run attacks, print a line each and a total.

The exit status is 1 if one did not hold. A name may be the begin of several, such as ``notice``.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile
import time
import traceback

from tests.attacks.attack import Run, Verdict, known


def chosen(names: list[str]) -> dict[str, Run]:
    """The attacks whose names begin so."""
    attacks = known()
    for name in names:
        if not any(each.startswith(name) for each in attacks):
            raise SystemExit(f"no attack is called {name}; --list prints their names")
    return {name: run for name, run in attacks.items() if not names or name.startswith(tuple(names))}


def carried_out(run: Run) -> Verdict:
    """Run one in a directory of its own, which stays where it failed."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="rocketha-attack-"))
    try:
        verdict = run(directory)
    except Exception as problem:
        traceback.print_exc()
        verdict = Verdict(False, f"the attack itself ended with {type(problem).__name__}: {problem}")
    if verdict.held:
        shutil.rmtree(directory, ignore_errors=True)
        return verdict
    return Verdict(False, f"{verdict.figures}; logs in {directory}")


def main(arguments: list[str]) -> int:
    """Run what was asked for."""
    if "--list" in arguments:
        sys.stdout.write("".join(f"{name}\n" for name in known()))
        return 0
    failed = 0
    attacks = chosen(arguments)
    for name, run in attacks.items():
        began = time.monotonic()
        verdict = carried_out(run)
        failed += not verdict.held
        word = "held" if verdict.held else "FAILED"
        sys.stdout.write(f"{name}: {verdict.figures}: {word} ({time.monotonic() - began:.0f} s)\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(attacks)} attacks: {len(attacks) - failed} held, {failed} failed\n")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
