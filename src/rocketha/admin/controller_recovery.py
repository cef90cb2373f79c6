"""``rocketha controller elect``, ``clean``, ``snapshot``, ``import``, ``force-new-cluster``: ways back from disasters.

What it must not know: how a state is copied or written; that is in :mod:`rocketha.admin.controller_state` and
:mod:`rocketha.services.controller.offline`.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from rocketha.admin import controller_state, options, output
from rocketha.admin.client import Client
from rocketha.admin.commands import DONE, Command, Given, confirm
from rocketha.admin.controllers import Controllers, opened
from rocketha.admin.main_loop import run_with
from rocketha.admin.secure import dialer_of
from rocketha.controller.copied import CopiedSet
from rocketha.errors import ConfigError, RockethaError
from rocketha.services.config import loading
from rocketha.services.config.checks import key_and_value
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.controller import offline
from rocketha.services.controller.offline import SavedController, Survivor
from rocketha.store.posix_disk import PosixDisk

CONFIG = click.option(
    "-c", "--config", metavar="FILE", help="The controller's configuration file (controller.conf, or namesrv.conf)."
)
KEYS = click.option("-s", "--set", metavar="KEY=VALUE", multiple=True, help="One key over the file; may be repeated.")
SETS = ("CLUSTER", "BROKERS", "MASTER", "EPOCH", "IN SYNC", "SET EPOCH", "IDS", "SILENT")
LOGS = ("ID", "ADDRESS", "EPOCH", "END OF LOG", "PROBLEM")


def _configured(args: Given) -> ControllerConfig:
    data = loading.read_file(args.config) if args.config is not None else b""
    flags = dict(map(key_and_value, args.set))
    return loading.load_controller(data, args.config or "controller.conf", flags, embedded=True).config


# -- snapshot ---------------------------------------------------------------------------------------------------------


@click.command("snapshot", cls=Command)
@click.argument("what", type=click.Choice(["save", "restore"]))
@click.argument("file")
@CONFIG
@KEYS
@click.option(
    "--exact", is_flag=True, help="To restore: nothing was decided since it was saved; masters and epochs stay."
)
def snapshot(args: Given) -> int:
    """Save the controllers' state to a file, or make a controller's directory of one.

    save asks the leading controller, which goes on meanwhile.  restore is done at each controller, with the same file,
    while none of them runs; its directory must be empty or not there.  Without --exact no broker set has a master
    afterwards: see the elect action.
    """
    if args.what == "save":
        return _save(args)
    config, saved = _configured(args), offline.load(PosixDisk(), os.path.abspath(args.file))
    offline.restore(PosixDisk(), config, saved, args.exact)
    rest = "as they were" if args.exact else "without masters: elect them when the brokers are heard"
    output.say(
        args,
        f"{config.raft_directory}: controller {config.controller_dleger_self_id} of {len(config.peers)}, entry "
        f"{saved.index}; {_sets(saved)}, {rest}",
        directory=config.raft_directory,
        exact=args.exact,
        **_facts(saved),
    )
    return DONE


@run_with(opened)
async def _save(controllers: Controllers, args: Given) -> int:
    saved = await controller_state.save(controllers)
    _store(args, saved)
    return DONE


def _store(args: Given, saved: SavedController) -> None:
    path = os.path.abspath(args.file)
    offline.store(PosixDisk(), path, saved)
    output.say(
        args,
        f"{path}: {_sets(saved)} as of entry {saved.index} of term {saved.term}, {len(saved.data)} bytes",
        file=path,
        **_facts(saved),
    )


def _sets(saved: SavedController) -> str:
    count = _count(saved)
    return f"{count} broker set{'' if count == 1 else 's'}"


def _count(saved: SavedController) -> int:
    return sum(1 for _ in saved.state().groups())


def _facts(saved: SavedController) -> dict[str, Any]:
    return {
        "group": saved.group,
        "source": saved.source,
        "index": saved.index,
        "term": saved.term,
        "brokerSets": _count(saved),
    }


# -- import -----------------------------------------------------------------------------------------------------------


class _Both(NamedTuple):
    controllers: Controllers
    client: Client


@contextmanager
def _both(reactor: Any, args: Given) -> Iterator[_Both]:
    with opened(reactor, args) as controllers:
        client = Client(dialer_of(reactor, args), options.addresses(args.namesrv, "--namesrv"), random.Random())
        try:
            yield _Both(controllers, client)
        finally:
            client.close()


@click.command("import", cls=Command)
@click.argument("file")
@click.option(
    "--broker",
    metavar="CLUSTER/NAME",
    multiple=True,
    help="Only this broker set; may be repeated (default: all that the nameservers know).",
)
@options.NAMESRV
@run_with(_both)
async def import_(both: _Both, args: Given) -> int:
    """Copy the state of Java's controllers (--controllers) to a file for snapshot restore --exact.

    Master, epochs, SyncStateSet and ids of each set: brokers that come to our controllers find what they have, and
    nobody is elected.  Nothing is changed at Java's.  docs/migration.rst has all steps.
    """
    named = dict(map(_named, args.broker))
    names = named or await both.client.broker_sets()
    sets = await controller_state.copied_sets(both.controllers, names)
    missing = sorted({*names} - {each.broker_name for each in sets})
    if missing and named:
        raise RockethaError(f"the controllers do not know {', '.join(missing)}")
    if not sets:
        raise RockethaError("the controllers know none of the nameservers' brokers")
    group = (await both.controllers.metadata()).fields.get("group", "")
    saved = controller_state.copied_state(sets, group)
    if not args.json:
        output.table(SETS, map(_row, sets))
        for name in missing:
            print(f"{output.clean(name)} is not under controllers")
    _store(args, saved)
    return DONE


def _named(text: str) -> tuple[str, str]:
    cluster, slash, name = text.partition("/")
    if not (cluster and slash and name):
        raise ConfigError(f"--broker {text}: wanted is CLUSTER/NAME")
    return name, cluster


def _row(each: CopiedSet) -> Sequence[object]:
    replicas = each.replicas
    silent = sorted({*replicas.members} - replicas.alive)
    return (
        each.cluster,
        each.broker_name,
        replicas.master or "none",
        replicas.master_epoch,
        _ids(replicas.in_sync),
        replicas.set_epoch,
        _ids(replicas.members),
        _ids(silent),
    )


def _ids(numbers: Sequence[int] | Mapping[int, str]) -> str:
    return ",".join(map(str, numbers)) or "none"


# -- elect ------------------------------------------------------------------------------------------------------------


@click.command("elect", cls=Command)
@click.argument("broker", metavar="BROKER_NAME")
@click.argument("broker_id", metavar="[ID]", type=int, default=0)
@click.option("--cluster", default="", metavar="NAME", help="Needed where several clusters have a set of this name.")
@click.option("--dry-run", is_flag=True, help="Only show what each broker of the set has.")
@options.YES
@run_with(opened)
async def elect(controllers: Controllers, args: Given) -> int:
    """Make a broker the master of its set: the one with the newest log, or ID.

    Every broker of the set is asked for its epoch and the end of its log.  Without ID all must answer, for the one that
    does not may have the most; with ID whatever the others have more is given up, which is asked for.  Of a broker in
    the SyncStateSet, with allAckInSyncStateSet, that is nothing that was acknowledged.
    """
    cluster = args.cluster or await controller_state.cluster_of(controllers, args.broker)
    logs = await controller_state.replica_logs(controllers, cluster, args.broker)
    if not args.json:
        output.table(LOGS, [(each.broker_id, each.address, *_log_cells(each)) for each in logs])
    if args.dry_run:
        return DONE
    chosen = args.broker_id or controller_state.newest(logs).broker_id
    ahead = controller_state.may_have_more(logs, chosen)
    if ahead:
        confirm(args, f"Give up what broker {_ids(ahead)} may have more than broker {chosen}")
    wall_ms = time.time_ns() // 1_000_000
    master = await controller_state.elect(controllers, cluster, args.broker, chosen, wall_ms)
    who = f"broker {master.master_id} at {master.master_address}"
    output.say(
        args,
        f"{who} is master of {args.broker} in epoch {master.master_epoch}",
        brokerName=args.broker,
        masterBrokerId=master.master_id,
        masterAddress=master.master_address,
        masterEpoch=master.master_epoch,
    )
    return DONE


def _log_cells(each: controller_state.ReplicaLog) -> Sequence[object]:
    return ("", "", each.problem) if each.problem else (each.epoch, each.max_offset, "")


# -- clean ------------------------------------------------------------------------------------------------------------


@click.command("clean", cls=Command)
@click.argument("broker", metavar="BROKER_NAME")
@click.argument("broker_ids", metavar="ID...", type=int, nargs=-1, required=True)
@click.option("--cluster", default="", metavar="NAME", help="Needed where several clusters have a set of this name.")
@options.YES
@run_with(opened)
async def clean(controllers: Controllers, args: Given) -> int:
    """Remove brokers that are gone from their set, by their ids.

    Refused for one that is heard.  It is a member again if it comes back at its address.  Ids that are no
    members are named.
    """
    ids = _ids(args.broker_ids)
    confirm(args, f"Forget broker {ids} of {args.broker}")
    sets = await controller_state.replica_sets(controllers, {args.broker: args.cluster})
    await controller_state.clean(controllers, args.cluster, args.broker, args.broker_ids)
    none = [each for each in args.broker_ids if args.broker in sets and each not in sets[args.broker].members]
    output.say(
        args,
        f"{args.broker}: without {ids}" + (f"; there was no {_ids(none)}" if none else ""),
        brokerName=args.broker,
        brokerIds=list(args.broker_ids),
        noMembers=none,
    )
    return DONE


# -- force-new-cluster ------------------------------------------------------------------------------------------------


@click.command("force-new-cluster", cls=Command)
@CONFIG
@KEYS
@click.option("--dry-run", is_flag=True, help="Only say what would be done, and what is risked.")
@options.YES
def force_new_cluster(args: Given) -> int:
    """Make a controller that does not run the only one of its group, because the majority is gone for good.

    What the others decided and this one never received is lost.  None of them may start again on its old data: add
    them as new ones.
    """
    disk, config = PosixDisk(), _configured(args)
    _check_owner(config.raft_directory)
    found = offline.survey(disk, config)
    if not args.json:
        for line in survey_lines(found, config.self_address):
            print(output.clean(line))
    if args.dry_run:
        output.say(args, "nothing was changed", changed=False, **_survey_facts(found))
        return DONE
    confirm(args, f"Make {found.place.id} the only controller of {found.place.group}")
    index = offline.force(disk, config, time.time_ns() // 1_000_000)
    output.say(
        args,
        f"entry {index} makes {found.place.id} the only controller: start it, then add the others on empty disks",
        changed=True,
        index=index,
        **_survey_facts(found),
    )
    return DONE


def _check_owner(directory: str) -> None:
    """Files that another user makes cannot be read by the controller afterwards; a look makes some, too.

    :raises ConfigError: the directory is another user's.
    """
    if not os.path.isdir(directory):
        return
    owner, user = os.stat(directory).st_uid, os.geteuid()
    if owner != user:
        raise ConfigError(f"{directory} belongs to user {owner}, and this is user {user}: run it as the controller's")


def survey_lines(found: Survivor, address: str) -> list[str]:
    """What a person should know before."""
    log, others = found.log, _others(found)
    at = datetime.fromtimestamp(found.decided_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    decided = f", decided {at}" if found.decided_ms else ""
    left_out = ", ".join(f"{node} ({where})" for node, where in others.items()) or "nobody"
    sets = [
        f"  {group.cluster}/{group.broker_name}: master {group.master or 'none'} in epoch {group.master_epoch}, "
        f"in sync {_ids(group.in_sync)}"
        for group in found.state.groups()
    ]
    return [
        f"controller {found.place.id} ({address}) of {found.place.group}, log in {found.place.directory}",
        f"its log ends with entry {log.last_index} of term {log.last_term}{decided}; all up to entry {log.commit} was "
        "certainly committed, later ones may have been and are kept",
        f"broker sets that it knows: {len(sets) or 'none'}",
        *sets,
        f"left out: {left_out}",
        f"lost is what they decided behind entry {log.last_index}: elections, changes of SyncStateSets, new broker ids",
    ]


def _others(found: Survivor) -> Mapping[str, str]:
    members = found.log.members
    return {node: members.addresses.get(node, "") for node in members.ids() if node != found.place.id}


def _survey_facts(found: Survivor) -> dict[str, Any]:
    return {
        "id": found.place.id,
        "group": found.place.group,
        "directory": found.place.directory,
        "lastIndex": found.log.last_index,
        "lastTerm": found.log.last_term,
        "committedIndex": found.log.commit,
        "decidedMillis": found.decided_ms,
        "leftOut": dict(_others(found)),
        "brokerSets": [f"{group.cluster}/{group.broker_name}" for group in found.state.groups()],
    }


ACTIONS = (elect, clean, snapshot, import_, force_new_cluster)
