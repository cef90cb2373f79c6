"""Scripts of a group's life, with all that the nodes say and do: the golden traces in ``traces/``.

A trace is made of commands, each followed by a line ``----`` and what it printed.  Messages are printed when they are
delivered (or lost), in order; what a node saves, sends and applies is printed when its Ready is carried out.
"""

from __future__ import annotations

from rocketha.raft.errors import RaftRefused
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Entry, EntryKind, Kind, Members, Message, Ready
from tests.raft.cluster import Cluster, Server, group


def entry_text(entry: Entry) -> str:
    """An entry as "index/term what"."""
    kind = EntryKind(entry.kind)
    if kind is EntryKind.MEMBERSHIP:
        what = members_text(Members.decode(entry.data))
    else:
        what = kind.name if kind is EntryKind.NO_OP else entry.data.decode()
        if len(what) > 20:
            what = f"{what[0]}*{len(what)}"
    return f"{entry.index}/{entry.term} {what}"


def members_text(members: Members) -> str:
    """A configuration in one line."""
    parts = [f"voters({' '.join(sorted(members.voters))})"]
    for name in ("outgoing", "learners", "learners_next"):
        ids = sorted(getattr(members, name))
        if ids:
            parts.append(f"{name}({' '.join(ids)})")
    return " ".join(parts)


def message_text(message: Message) -> str:
    """A message with the fields that say something."""
    kind = Kind(message.kind)
    text = f"{message.sender}->{message.to} {kind.name} term {message.term}"
    if kind in (Kind.VOTE, Kind.PRE_VOTE):
        text += f" last {message.index}/{message.log_term}"
    elif kind is Kind.APPEND and message.context:
        text += " commit only"
    elif kind is Kind.APPEND:
        text += f" after {message.index}/{message.log_term}"
    elif message.index or kind is Kind.APPEND_ANSWER:
        text += f" index {message.index}"
    if message.commit:
        text += f" commit {message.commit}"
    if message.reject:
        text += " unhealthy" if kind is Kind.HEART_BEAT_ANSWER else " NO"
    if message.hint_index and kind is Kind.APPEND_ANSWER:
        text += f" hint {message.hint_index}" + (f"/{message.hint_term}" if message.reject else "")
    if message.context and kind is not Kind.APPEND:
        text += " forced" if kind is Kind.VOTE else f" #{message.context}"
    if message.entries:
        text += " [" + ", ".join(map(entry_text, message.entries)) + "]"
    if message.snapshot is not None:
        text += f" snapshot {message.snapshot.index}/{message.snapshot.term} {len(message.data)} bytes"
    if kind in (Kind.SNAPSHOT, Kind.SNAPSHOT_ANSWER):
        text += f" at {message.offset}" + (" done" if message.done else "")
    return text


class Interaction:
    """The state between the commands of one trace."""

    def __init__(self) -> None:
        self.cluster = Cluster(Members())
        self.lines: list[str] = []

    def run(self, command: str) -> str:
        """Carry out one command; what it printed."""
        self.lines = []
        words = command.split()
        arguments = [word for word in words[1:] if "=" not in word]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        method = getattr(self, "do_" + words[0].replace("-", "_"))
        try:
            method(*arguments, **options)
        except RaftRefused as refused:
            self.lines.append(f"{type(refused).__name__}: {refused}")
        return "\n".join(self.lines) or "ok"

    # What is printed

    def show_ready(self, server: Server, ready: Ready) -> None:
        """What a Ready asks for."""
        name, node = server.name, server.node
        if ready.leader_changed:
            self.lines.append(f"{name} is {node.role.value}, term {node.term}, leader {node.leader_id or '-'}")
        if ready.hard_state is not None:
            state = ready.hard_state
            self.lines.append(f"{name} saves term {state.term} vote {state.vote or '-'} commit {state.commit}")
        if ready.snapshot is not None:
            meta, data = ready.snapshot
            place = f"{meta.index}/{meta.term} {members_text(meta.members)}"
            self.lines.append(f"{name} installs snapshot {place} ({len(data)} bytes)")
        if ready.entries:
            self.lines.append(f"{name} appends " + ", ".join(map(entry_text, ready.entries)))
        if ready.committed:
            self.lines.append(f"{name} applies " + ", ".join(map(entry_text, ready.committed)))
        for read in ready.reads:
            self.lines.append(f"{name} may read #{read.context} at {read.index}")
        for context in ready.lost_reads:
            self.lines.append(f"{name} lost read #{context}")

    def collect(self) -> None:
        """Carry out the Readys of all."""
        cluster = self.cluster
        for server in cluster.servers.values():
            server.turn()
            for message in server.outbox:
                if (message.sender, message.to) in cluster.cut or message.to not in cluster.servers:
                    self.lines.append(f"lost: {message_text(message)}")
                else:
                    cluster.wire.append(message)
            server.outbox.clear()

    def _add(self, server: Server) -> None:
        server.on_ready = self.show_ready
        self.cluster.servers[server.name] = server

    # Commands

    def do_add_nodes(self, count: str, learners: str = "", **settings: str) -> None:
        """add-nodes 3 [learners=4,5] [setting=value]: the group."""
        voters = [str(each + 1) for each in range(int(count))]
        members = group(voters, [each for each in learners.split(",") if each])
        numbers = {
            key: tuple(value.split(",")) if key == "preferred" else int(value) for key, value in settings.items()
        }
        self.cluster = Cluster(Members(), **numbers)
        for name in members.ids():
            self._add(self.cluster.make(name, members))

    def do_add_node(self, name: str) -> None:
        """add-node 4: a node that knows nothing yet."""
        self._add(self.cluster.make(name, Members()))

    def do_campaign(self, name: str) -> None:
        """campaign 1: it stands for election."""
        self.cluster.node(name).campaign()
        self.collect()

    def do_propose(self, name: str, *datas: str) -> None:
        """propose 1 a b x*5000: entries, the last one large."""
        parts = [each.partition("*") for each in datas]
        self.cluster.node(name).propose([text.encode() * int(times or 1) for text, _, times in parts])
        self.collect()

    def do_tick(self, *words: str) -> None:
        """tick 1 10: ten ticks for node 1 (its timeouts are drawn from a seed)."""
        for _ in range(int(words[1])):
            self.cluster.node(words[0]).tick()
        self.collect()

    def do_time_out(self, name: str) -> None:
        """time-out 1: ticks until its election timer ends."""
        node = self.cluster.node(name)
        for _ in range(node._elections.timeout - node._elections.elapsed):
            node.tick()
        self.collect()

    def do_deliver(self, to: str = "", sender: str = "", drop: str = "") -> None:
        """deliver [to=2] [sender=1] [drop=3]: messages under way; those to ``drop`` are lost."""
        wire, self.cluster.wire = self.cluster.wire, []
        for message in wire:
            if (to and message.to != to) or (sender and message.sender != sender):
                self.cluster.wire.append(message)
                continue
            if message.to in drop.split(","):
                self.lines.append(f"lost: {message_text(message)}")
                continue
            self.lines.append(message_text(message))
            self.cluster.node(message.to).step(message)
        self.collect()

    def do_stabilize(self) -> None:
        """stabilize: deliver until nobody says anything more."""
        for _ in range(100):
            self.collect()
            if not self.cluster.wire:
                return
            self.do_deliver()
        raise AssertionError("never stable")

    def do_quietly(self, *words: str) -> None:
        """quietly COMMAND: without its output."""
        self.run(" ".join(words))
        self.lines = []

    def do_isolate(self, *names: str) -> None:
        """isolate 1 2: cut these from the others."""
        self.cluster.isolate(*names)

    def do_cut(self, sender: str, to: str) -> None:
        """cut 1 2: what 1 sends to 2 is lost."""
        self.cluster.cut.add((sender, to))

    def do_heal(self) -> None:
        """heal: all links work."""
        self.cluster.heal()

    def do_crash(self, name: str) -> None:
        """crash 1: it loses what it did not sync, and begins again."""
        self.cluster[name].crash()
        self.cluster.wire = [each for each in self.cluster.wire if each.sender != name and each.to != name]

    def do_wipe(self, name: str) -> None:
        """wipe 3: its disk is replaced by an empty one."""
        self._add(self.cluster.make(name, Members()))

    def do_lazy(self, name: str) -> None:
        """lazy 1: its disk syncs only when told."""
        self.cluster[name].lazy = True

    def do_sync(self, name: str) -> None:
        """sync 1: what it wrote is on disk."""
        self.cluster[name].sync()
        self.collect()

    def do_snapshot(self, name: str, keep: str = "0") -> None:
        """snapshot 1 [keep=2]: save a snapshot and compact the log."""
        self.cluster[name].take_snapshot(int(keep))
        storage = self.cluster[name].storage
        self.lines.append(f"{name} has snapshot {storage.snapshot().index}, entries from {storage.first_index()}")

    def do_transfer(self, name: str, to: str) -> None:
        """transfer 1 2: leadership goes from 1 to 2."""
        self.cluster.node(name).transfer(to)
        self.collect()

    def do_members(self, name: str, voters: str = "", learners: str = "", remove: str = "") -> None:
        """members 1 [voters=4,5] [learners=6] [remove=2]: change the group."""

        def named(words: str) -> dict[str, str]:
            return {each: f"host{each}:9878" for each in words.split(",") if each}

        self.cluster.node(name).propose_members(MembersChange(named(voters), named(learners), set(named(remove))))
        self.collect()

    def do_read(self, name: str, context: str) -> None:
        """read 2 7: node 2 asks for a linearizable read, number 7."""
        self.cluster.node(name).read_index(int(context))
        self.collect()

    def do_refused(self, name: str, peer: str) -> None:
        """refused 2 1: node 2's connection to node 1 was refused."""
        delay = self.cluster.node(name).peer_refused(peer)
        self.lines.append(f"{name} waits {delay} ms" if delay else "ok")

    def do_leader_gone(self, name: str) -> None:
        """leader-gone 2: that time is over."""
        self.cluster.node(name).campaign_if_leader_gone()
        self.collect()

    def do_unreachable(self, name: str, peer: str) -> None:
        """unreachable 1 2: node 1's connection to node 2 broke."""
        self.cluster.node(name).unreachable(peer)
        self.collect()

    def do_unhealthy(self, name: str) -> None:
        """unhealthy 1: its disk fails."""
        self.cluster.wire += self.cluster.node(name).unhealthy("disk")
        self.collect()

    def do_healthy(self, name: str) -> None:
        """healthy 1: its disk works again."""
        self.cluster.node(name).healthy()

    def do_log(self, *names: str) -> None:
        """log 1 2: what their logs hold."""
        for name in names or sorted(self.cluster.servers):
            server = self.cluster[name]
            storage = server.storage
            entries = storage.entries(storage.first_index(), storage.last_index() + 1, 1 << 30)
            self.lines.append(f"{name}: commit {server.node.commit}: " + ", ".join(map(entry_text, entries)))

    def do_status(self, name: str) -> None:
        """status 1: its role, and what it knows of the others."""
        status = self.cluster.node(name).status()
        self.lines.append(
            f"{name} is {status.role.value}, term {status.term}, leader {status.leader_id or '-'}, "
            f"last {status.last_index} persisted {status.persisted} commit {status.commit} applied {status.applied}, "
            f"{members_text(status.members)}"
        )
        for peer, known in status.peers.items():
            self.lines.append(f"  {peer} {known.state} match {known.match} next {known.next}")


def play(text: str) -> str:
    """A trace with the output that its commands give now; comments (#) and blank lines stay."""
    interaction = Interaction()
    played: list[str] = []
    output = False
    for line in text.splitlines():
        if line == "----":
            output = True
        elif not line.strip() or line.startswith("#"):
            output = False
            if not line.strip() and played and played[-1] == "":
                continue
            played.append(line)
        elif not output:
            played += [line, "----", *interaction.run(line).splitlines(), ""]
    while played and not played[-1]:
        played.pop()
    return "\n".join(played) + "\n"
