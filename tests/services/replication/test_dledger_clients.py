"""What clients and operators of a group in DLedger mode see: who answers, batches, upgrades, checks, expired files."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet import defer
from zope.interface import implementer

from rocketha.interfaces import FeatureParts, IHealthCheck
from rocketha.services.features.finding import Enabled
from rocketha.simulation.host import Host
from rocketha.store import commitlog
from rocketha.wire import batch, properties
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.json_dialect import loads
from tests.services.broker_case import pull_fields, records, send_fields
from tests.services.dledger_case import RAFT_PORT, DLedgerCase
from tests.services.features.cases import Feature
from tests.services.replication_case import NAMESERVER_PORT


class WhoAnswersTests(DLedgerCase):
    """Requests to a master and to a follower."""

    def test_what_no_majority_has_is_not_shown(self) -> None:
        """Nobody is told of a message before its sender may be."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 8), 8)
        self.whole()
        for follower in self.followers():
            self.world.network.link(follower.address, master.address).blocks.add("their answers")
        sending = self.sending(master, b"not yet", queue_id="0")
        self.run_for(0.1)
        self.assertFalse(self.answered(sending))
        self.assertGreater(self.log(master).end, self.log(master).store.confirm_offset)
        pulled = self.pull(master, 2)
        self.assertEqual((pulled.code, pulled.fields["maxOffset"]), (ResponseCode.PULL_NOT_FOUND, "2"))
        self.world.network.heal_all()
        self.until("it is acknowledged", lambda: self.answered(sending))
        self.assertEqual(records(self.pull(master, 2))[0].body, b"not yet")

    def test_a_follower(self) -> None:
        """It passes on what a client with an old route sends it: messages, and pulls, which show what is committed."""
        master = self.start_group()
        self.whole()
        for number, follower in enumerate(self.followers()):
            sent = self.await_(self.sending(follower, b"passed on", queue_id="0"))
            self.assertEqual((sent.code, sent.fields["queueOffset"]), (ResponseCode.SUCCESS, str(number)))
            for host in (master, follower):
                self.assertEqual(records(self.pull(host, number))[0].body, b"passed on")


class BatchTests(DLedgerCase):
    """SEND_BATCH_MESSAGE."""

    def test_a_batch(self) -> None:
        """One acknowledgement, an entry a message; a successor has them all, in order."""
        master = self.start_group()
        body = batch.join(
            batch.BatchMessage(number, bytes([number]) * 20, properties.build({"TAGS": "a"})) for number in range(50)
        )
        before = self.replication(master).raft.node.last_index
        answer = self.ask(master, RequestCode.SEND_BATCH_MESSAGE, send_fields(m="true"), body)
        self.assertEqual((answer.code, answer.fields["queueOffset"]), (ResponseCode.SUCCESS, "0"))
        self.assertEqual(len(answer.fields["msgId"].split(",")), 50)
        self.assertEqual(self.replication(master).raft.node.last_index, before + 50)
        self.whole()
        master.kill()
        other = self.master()
        found = [
            (record.queue_offset, record.body)
            for offset in (0, 32)
            for record in records(self.ask(other, RequestCode.PULL_MESSAGE, pull_fields(offset=offset, maxMsgNums=32)))
        ]
        self.assertEqual(found, [(number, bytes([number]) * 20) for number in range(50)])


class RollingTests(DLedgerCase):
    """All members of a group, one after the other."""

    def test_each_is_stopped_and_started(self) -> None:
        """Followers first, the master last, with a load: no send fails, and all have the same log (rolling upgrade)."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.whole()
        sent, total = [master], 20
        for host in (*self.followers(), master):
            waiting: list[defer.Deferred[Any]] = []
            stopped = defer.maybeDeferred(self.service(host).stopService)
            while not stopped.called:  # its clients go on with who was the master
                waiting.append(self.sending(sent[-1], b"under way" * 20))
                self.run_for(0.05)
                sent += [each for each in self.masters() if each is not sent[-1] and each is not host]
            host.exited("stopped")
            self.until("answers", lambda sent=waiting: all(map(self.answered, sent)))  # type: ignore[misc]
            self.assertEqual({answer.result.code for answer in waiting}, {ResponseCode.SUCCESS}, host.name)
            total += len(waiting)
            self.restart(host)
            self.whole()
        self.assertEqual(self.stored(self.master()), total)
        self.same_logs(*self.brokers)


@implementer(IHealthCheck)
class Flag:
    """Fails while it is told to."""

    name, every_s, timeout_s, hands_over = "flag", 0.5, 2.0, True

    def __init__(self) -> None:
        self.reason: str | None = None

    def check(self) -> str | None:
        return self.reason


class CheckTests(DLedgerCase):
    """A plug-in's health check."""

    def broker(self, name: str, settings: str, **more: Any) -> Host:  # type: ignore[override]
        self.flags: dict[str, Flag] = getattr(self, "flags", {})
        flag = self.flags[name] = Flag()
        plugin = Feature(lambda context: FeatureParts(health=[flag]))
        return super().broker(name, settings, plugins=[Enabled(plugin, {})], **more)

    def test_a_master_that_is_not_well(self) -> None:
        """Another one leads, the sick one says why; where all are sick, one leads all the same."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.flags[master.name].reason = "the rack is on fire"
        took_s = self.until("another master", lambda: self.masters() and self.masters() != [master])
        self.assertLess(took_s, 3.0)
        self.assertIn("the rack is on fire", self.service(master).ready() or "")
        other = self.master()
        self.assertEqual(self.acknowledged(other, 20), 20)
        third = next(host for host in self.brokers if host not in (master, other))
        self.flags[other.name].reason = "water"
        self.until("the third one", lambda: self.masters() == [third])
        self.flags[third.name].reason = "and here"
        self.run_for(10.0)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.flags[other.name].reason = None
        self.until("the one that is well", lambda: self.masters() == [other])
        other.kill()
        self.assertEqual(self.acknowledged(self.master(), 20), 20)


class WarmTests(DLedgerCase):
    """warmMapedFileEnable."""

    keys = "warmMapedFileEnable=true"

    def test_files_are_written_ahead(self) -> None:
        """With zeros, before there is anything for them, at masters and followers; logs are as without."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 130), 130)
        self.run_for(3.0)
        for host in self.brokers:
            segments = self.log(host).store.log.segments
            self.assertEqual(len(segments.bases), 2, host.name)
            ahead = segments.file(segments.bases[1])
            self.assertEqual(ahead.next_data(0), 0, "zeros that were written, no hole")
            self.assertFalse(any(ahead.read(0, segments.file_size)))
        self.assertEqual(self.acknowledged(master, 500), 500)
        self.whole()
        self.same_logs(*self.brokers)


class ExpiryTests(DLedgerCase):
    """Files that expire."""

    keys = f"fileReservedTime=1\ndeleteWhen={';'.join(f'{hour:02}' for hour in range(24))}\npeerPushQuota=200000"

    def test_while_a_wiped_member_is_filled(self) -> None:
        """It begins where the leader's log begins then, and gets all of that."""
        master = self.start_group()
        follower = self.followers()[0]
        self.assertEqual(self.acknowledged(master, 1500), 1500)
        self.whole()
        follower.kill()
        follower.disk.remove_tree("/store")
        for _ in range(32):
            self.run_for(100.0)
        self.assertEqual(self.log(master).begin, 0)
        self.restart(follower)
        for _ in range(40):
            self.run_for(20.0)
            self.assertEqual(self.acknowledged(self.master(), 20), 20)
        self.assertGreater(self.log(self.master()).begin, 0)
        self.whole()
        self.same_logs(*self.brokers)


class ScaleTests(DLedgerCase):
    """Another group beside one, and one that is taken away: what docs/operations.rst says."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = self.nameserver()
        for host in self.brokers:
            host.settings += f"\n{self.namesrv}"  # type: ignore[attr-defined]

    @property
    def namesrv(self) -> str:
        return f"namesrvAddr={self.directory.address}:{NAMESERVER_PORT}\n"

    def route(self) -> dict[str, int]:
        """The permission of topic T at each group."""
        answer = self.await_(
            self.asking(self.directory, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"}, port=NAMESERVER_PORT)
        )
        if answer.code != ResponseCode.SUCCESS:
            return {}
        return {each["brokerName"]: each["perm"] for each in loads(answer.body, len(answer.body))["queueDatas"]}

    def another(self) -> Host:
        """A group of one, with the topics of the other."""
        host = self.broker("other", "", start=False)
        host.settings = (  # type: ignore[attr-defined]
            f"brokerName=h\nenableDLegerCommitLog=true\ndLegerGroup=h\ndLegerSelfId=n0\n"
            f"dLegerPeers=n0-{host.address}:{RAFT_PORT}\n{self.namesrv}"
        )
        host.disk.make_dirs("/store/config")
        for name in ("topics.json", "subscriptionGroup.json"):
            data = self.master().disk.read_all(f"/store/config/{name}", 1 << 20)
            file = host.disk.create(f"/store/config/{name}", 0)
            file.write(0, [data])
            file.close()
        host.start()
        self.started(host)
        return host

    def test_out_and_in(self) -> None:
        """The new group has the topics' queues at once; the old one takes no messages, is read, and goes."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 40), 40)
        self.until("a route", lambda: self.route() == {"g": 6})
        self.run_for(10.0)  # tables are written each five seconds
        other = self.another()
        self.until("both", lambda: self.route() == {"g": 6, "h": 6})
        self.assertEqual(self.acknowledged(other, 40), 40)

        for host in (*self.followers(), master):
            self.stop(host)
            self.restart(host, f"{host.settings}brokerPermission=4\n")  # type: ignore[attr-defined]
            self.whole()
        self.until("no writes", lambda: self.route() == {"g": 4, "h": 6}, 5.0)
        self.assertEqual(self.stored(self.master()), 40)
        for host in (*self.followers(), self.master()):
            self.stop(host)
        self.until("it is gone", lambda: self.route() == {"h": 6}, 130.0)


class FollowerReadsTests(DLedgerCase):
    """slaveReadEnable."""

    keys = "slaveReadEnable=true"

    def passed_on(self, host: Host) -> int:
        return self.service(host).broker.forwarding.forwarded

    def test_all_that_was_acknowledged(self) -> None:
        """A follower shows it, whatever it had when it was asked."""
        master = self.start_group()
        follower, other = self.followers()
        for number in range(20):
            self.assertEqual(self.send(master, b"%d" % number, queue_id="0"), ResponseCode.SUCCESS)
            self.assertEqual(records(self.pull(follower, number))[0].body, b"%d" % number)
        for link in self.ways(follower, master):
            link.blocks.add("a moment")
        self.assertEqual(self.send(master, b"late", queue_id="0"), ResponseCode.SUCCESS)
        pulled = self.asking(follower, RequestCode.PULL_MESSAGE, pull_fields(offset=20, queue_id=0))
        self.run_for(0.3)
        self.assertFalse(self.answered(pulled))
        self.world.network.heal_all()
        self.assertEqual(records(self.await_(pulled))[0].body, b"late")
        self.assertEqual((self.passed_on(follower), self.passed_on(other)), (0, 0))

    def test_one_that_is_cut_off(self) -> None:
        """It shows nothing that may be old: the client is told to try another broker."""
        master = self.start_group()
        follower = self.followers()[0]
        self.assertEqual(self.acknowledged(master, 8), 8)
        self.whole()
        self.assertEqual(self.pull(follower).code, ResponseCode.SUCCESS)
        self.cut_off(follower)
        began = self.world.now
        pulled = self.pull(follower)
        self.assertEqual(pulled.code, ResponseCode.SYSTEM_BUSY)
        self.assertLess(self.world.now - began, 3.0)

    def test_what_is_not_in_memory(self) -> None:
        """It is fetched once, and the leader asked once, also where a file has to be opened first."""
        self.patch(commitlog, "RECENT_BYTES", 0)
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 600), 600)
        self.whole()
        follower = self.followers()[0]
        raft = self.replication(follower).raft
        for cached in (True, False):
            follower.disk.cached = cached
            self.log(follower).store._files.close()
            with mock.patch.object(raft, "barrier", wraps=raft.barrier) as asked:
                self.assertEqual(self.pull(follower).code, ResponseCode.SUCCESS)
            self.assertEqual(asked.call_count, 1)

    def test_what_comes_wakes_it(self) -> None:
        """A pull at the end of a queue is held, and answered when there is a message."""
        master = self.start_group()
        follower = self.followers()[0]
        self.assertEqual(self.acknowledged(master, 4), 4)
        self.whole()
        waits = pull_fields(offset=1, queue_id=0, sysFlag="6")
        pulled = self.asking(follower, RequestCode.PULL_MESSAGE, waits)
        self.run_for(1.0)
        self.assertFalse(self.answered(pulled))
        self.assertEqual(self.send(master, b"next", queue_id="0"), ResponseCode.SUCCESS)
        self.assertEqual(records(self.await_(pulled))[0].body, b"next")

    def test_it_becomes_the_master_meanwhile(self) -> None:
        """Then it answers as such."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 8), 8)
        self.whole()
        master.kill()
        others = [host for host in self.brokers if host is not master]
        pulling = [self.asking(host, RequestCode.PULL_MESSAGE, pull_fields(offset=0)) for host in others]
        for pulled in pulling:
            self.assertIn(self.await_(pulled).code, (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY))
