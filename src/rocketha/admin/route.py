"""``rocketha route TOPIC``: where clients send to and read from.

Java: ``mqadmin topicRoute``.
"""

from __future__ import annotations

import click

from rocketha.admin import options, output
from rocketha.admin.cluster import Cluster, opened
from rocketha.admin.commands import DONE, Given
from rocketha.admin.commands import command as declared
from rocketha.admin.main_loop import run_with
from rocketha.wire.cluster_info import MASTER_ID


@declared("route")
@click.argument("topic")
@options.cluster
@run_with(opened)
async def command(cluster: Cluster, args: Given) -> int:
    """Show the brokers and queues of TOPIC, as a nameserver tells them to clients."""
    route = await cluster.client.route(args.topic, fresh=True)
    found = [
        {
            "broker": name,
            "id": number,
            "address": address,
            "readQueues": route.queues.get(name, (0, 0))[0],
            "writeQueues": route.queues.get(name, (0, 0))[1],
        }
        for name, addresses in sorted(route.brokers.items())
        for number, address in sorted(addresses.items())
    ]
    rows = [
        (
            each["broker"],
            each["id"],
            each["address"],
            each["readQueues"],
            each["writeQueues"] if not each["id"] else "-",
        )
        for each in found
    ]
    lacking = [name for name, addresses in sorted(route.brokers.items()) if MASTER_ID not in addresses]
    notes = [f"{name} has no master: nobody can send there" for name in lacking]
    output.show(args, found, ("BROKER", "ID", "ADDRESS", "READ", "WRITE"), rows, notes)
    return DONE
