"""Requests that our own clients signed, at a whole broker's port: served once, soon, and as what they were signed."""

from __future__ import annotations

import pathlib
import random
import tempfile
from typing import Any
from unittest import mock

import attrs

from rocketha.access.replays import AHEAD_MS
from rocketha.access.signature import ACCESS_KEY, SIGNATURE, proven, sign, signed
from rocketha.access.signer import Credentials, Signer
from rocketha.access.stamp import FIELD, NONCE_BYTES
from rocketha.broker.role import Role
from rocketha.services.broker import tap
from rocketha.services.broker.service import BrokerService
from rocketha.services.cluster import tap as cluster_tap
from rocketha.services.cluster.service import ClusterService
from rocketha.services.learner import tap as learner_tap
from rocketha.services.process.platform import Platform
from rocketha.store.disk import Disk
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import VERSION, Command
from tests.services.access.test_accounts_log import ANN, ROOT, AccountsCase
from tests.services.broker_case import BrokerCase, Client, send_fields

SEND = RequestCode.SEND_MESSAGE_V2
SERVED, REFUSED, LATER = ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_BUSY


class ReplayedCase(AccountsCase):
    """With a client of ours.

    :cvar required: signedTimeRequired.
    """

    required = "none"

    def start(self) -> BrokerService:
        self.config += f"signedTimeRequired={self.required}\n"
        return super().start()

    def setUp(self) -> None:
        super().setUp()
        self.chance = random.Random(1)
        self.skew_ms = 0

    def signer(self, who: tuple[str, str] = ROOT) -> Signer:
        """Of a client whose clock is wrong by ``skew_ms``."""
        wall_ms = self.service.platform.wall_ms
        return Signer(Credentials(*who), lambda: wall_ms() + self.skew_ms, lambda: self.chance.randbytes(NONCE_BYTES))

    def frame(self, code: int = SEND, who: tuple[str, str] = ROOT, body: bytes = b"body") -> Command:
        """As it stands on the wire."""
        return Command(code, fields=self.signer(who).sign(code, send_fields("T1"), body), body=body)

    def say(self, command: Command, code: int | None = None) -> tuple[int, str]:
        """Send it, on a connection of its own; what came."""
        client = self.connect()
        client.say(client.command(command.code if code is None else code, command.fields, command.body))
        self.advance(0.2)
        (answer,) = [said for said in client.heard() if said.is_response]
        return answer.code, answer.remark or ""

    def stored(self) -> int:
        return self.broker.store.max_offset("T1", 0)


class ReplayedTests(ReplayedCase):
    def test_once(self) -> None:
        frame = self.frame()
        self.assertEqual(self.say(frame)[0], SERVED)
        self.assertEqual(self.say(frame), (REFUSED, "this request was sent before."))
        self.assertEqual(self.say(self.frame())[0], SERVED)
        self.assertEqual(self.stored(), 2)

    def test_as_what_it_was_signed(self) -> None:
        """The signature of a look at a topic deletes none."""
        frame = self.frame(RequestCode.GET_TOPIC_CONFIG)
        code, said = self.say(frame, RequestCode.DELETE_TOPIC_IN_BROKER)
        self.assertEqual((code, said), (REFUSED, "signed as a request 351, sent as 215."))

    def test_the_stamp_cannot_be_taken_off(self) -> None:
        """By another name, or as part of another value."""
        frame = self.frame()
        fields = dict(frame.fields)
        fields["0x"] = fields.pop(FIELD)
        self.assertIsNotNone(proven(ROOT[1], fields, frame.body, VERSION))
        self.assertEqual(
            self.say(Command(SEND, fields=fields, body=frame.body)), (REFUSED, "signed with other fields.")
        )
        fields = dict(frame.fields)
        text = fields.pop(FIELD)
        fields |= {"0": text[:20], "1": text[20:]}
        self.assertIsNotNone(proven(ROOT[1], fields, frame.body, VERSION))
        self.assertEqual(
            self.say(Command(SEND, fields=fields, body=frame.body)), (REFUSED, "signed with other fields.")
        )
        self.assertEqual(self.stored(), 0)

    def test_too_old(self) -> None:
        frame = self.frame()
        self.advance(310, 10)
        code, said = self.say(frame)
        self.assertEqual(code, REFUSED)
        self.assertIn("before the time of this broker: check both clocks", said)

    def test_clocks(self) -> None:
        self.advance(400, 10)
        for skew_ms, code in ((-299_000, SERVED), (-301_000, REFUSED), (AHEAD_MS, SERVED), (AHEAD_MS + 1000, REFUSED)):
            self.skew_ms = skew_ms
            self.assertEqual(self.say(self.frame())[0], code, skew_ms)

    def test_after_a_restart(self) -> None:
        """Nothing is remembered, and nothing of before is served."""
        frame = self.frame()
        self.assertEqual(self.say(frame)[0], SERVED)
        self.stop()
        self.service = self.start()
        self.advance(1)
        code, said = self.say(frame)
        self.assertEqual(code, LATER)
        self.assertIn("before this broker began to serve: sign it again", said)
        self.assertEqual(self.say(self.frame())[0], SERVED)

    def test_others_sign_as_ever(self) -> None:
        """Without a stamp the same frame is served again, as Java does."""
        fields = {**send_fields("T1"), ACCESS_KEY: ROOT[0]}
        fields[SIGNATURE] = sign(ROOT[1], signed(fields, b"body"))
        frame = Command(SEND, fields=fields, body=b"body")
        for _ in range(2):
            self.assertEqual(self.say(frame)[0], SERVED)

    def test_a_text_that_is_no_stamp(self) -> None:
        fields = {**send_fields("T1"), ACCESS_KEY: ROOT[0], FIELD: "rocketha/1 310 now;"}
        fields[SIGNATURE] = sign(ROOT[1], signed(fields, b"body"))
        said = self.say(Command(SEND, fields=fields, body=b"body"))
        self.assertEqual(said, (REFUSED, "the stamp cannot be read."))

    def test_rights_are_the_same(self) -> None:
        self.make_ann()
        self.assertEqual(self.say(self.frame(who=ANN))[0], SERVED)
        code, said = self.say(self.frame(RequestCode.DELETE_TOPIC_IN_BROKER, ANN))
        self.assertEqual(code, REFUSED)
        self.assertIn("User:ann has no permission to access", said)
        self.assertEqual(self.say(self.frame(who=("ann", "guess"))), (REFUSED, "check signature failed."))

    def test_a_forged_one_is_not_remembered(self) -> None:
        """Nobody can use up another's nonce."""
        frame = self.frame()
        forged = Command(SEND, fields={**frame.fields, SIGNATURE: "x"}, body=frame.body)
        self.assertEqual(self.say(forged), (REFUSED, "check signature failed."))
        self.assertEqual(self.say(frame)[0], SERVED)

    def test_what_is_stored_has_no_stamp(self) -> None:
        self.assertEqual(self.say(self.frame())[0], SERVED)
        found = self.broker.store.get("T1", 0, 0, 1, 1 << 20)
        data = b"".join(map(bytes, found.buffers))
        self.assertIn(b"body", data)
        self.assertNotIn(b"rocketha/1", data)


class WaitedTests(ReplayedCase):
    """What was let in before this broker became master, and is served by it as that."""

    def ask_and_wait(self, *frames: Command) -> list[Client]:
        """A client each; nothing is answered yet."""
        clients = []
        for frame in frames:
            client = self.connect()
            client.say(client.command(frame.code, frame.fields, frame.body))
            clients.append(client)
        self.advance(0.2)
        for client in clients:
            self.assertEqual(client.heard(), [])
        return clients

    def heard(self, clients: list[Client]) -> list[int]:
        self.advance(0.2)
        return [said.code for client in clients for said in client.heard()]

    def plain(self) -> Command:
        fields = {**send_fields("T1"), ACCESS_KEY: ROOT[0]}
        fields[SIGNATURE] = sign(ROOT[1], signed(fields, b"body"))
        return Command(SEND, fields=fields, body=b"body")

    def test_kept_for_a_master(self) -> None:
        """The one before may have served it; without a stamp it is served, as in RocketMQ."""
        captured, replication = self.frame(), self.broker.replication
        self.advance(1)
        replication._end_role("test")
        self.broker.watch.unknown()
        clients = self.ask_and_wait(captured, self.plain())
        self.assertEqual(self.broker.forwarding.kept, 2)
        replication._become(Role.MASTER)
        self.broker.watch.own(2)
        self.assertEqual(self.heard(clients), [LATER, SERVED])
        self.assertEqual(self.stored(), 1)
        self.assertEqual(self.say(captured)[0], LATER)
        self.assertEqual(self.say(self.frame())[0], SERVED)

    def test_parked_while_the_log_is_changed(self) -> None:
        """As when a replica becomes master."""
        captured, replication, changes = self.frame(), self.broker.replication, self.broker.core.changes
        self.advance(1)
        replication._end_role("test")
        changes.busy = True
        clients = self.ask_and_wait(captured, self.plain())
        self.assertEqual(len(self.broker.dispatcher.parked), 2)
        replication._become(Role.MASTER)
        self.broker.watch.own(2)
        changes.busy = False
        self.broker.dispatcher.new_topics.go_on()
        self.assertEqual(self.heard(clients), [LATER, SERVED])
        self.assertEqual(self.stored(), 1)

    def test_parked_by_one_that_stays_master(self) -> None:
        """It is remembered, and served all the same."""
        frame, changes = self.frame(), self.broker.core.changes
        changes.busy = True
        clients = self.ask_and_wait(frame)
        changes.busy = False
        self.broker.dispatcher.new_topics.go_on()
        self.assertEqual(self.heard(clients), [SERVED])
        self.assertEqual(self.say(frame), (REFUSED, "this request was sent before."))


class RequiredTests(ReplayedCase):
    """``signedTimeRequired``."""

    required = "super"

    def test_of_super_users(self) -> None:
        self.assertEqual(self.say(self.frame())[0], SERVED)
        said = self.ask(SEND, send_fields("T1"), b"body")
        self.assertEqual(said.remark, "User:root must sign the time of his requests, too (signedTimeRequired).")

    def test_others_need_none(self) -> None:
        made = Command(
            RequestCode.AUTH_CREATE_USER,
            fields=self.signer().sign(RequestCode.AUTH_CREATE_USER, {"username": "ann"}, b'{"password":"ann-secret"}'),
            body=b'{"password":"ann-secret"}',
        )
        self.assertEqual(self.say(made)[0], SERVED)
        said = self.ask(SEND, send_fields("T1"), b"body", ANN)
        self.assertIn("User:ann has no permission", said.remark or "")


class RequiredOfAllTests(ReplayedCase):
    required = "all"

    def test_all(self) -> None:
        self.assertEqual(self.may_send(ROOT), REFUSED)
        self.assertEqual(self.say(self.frame())[0], SERVED)


class OwnRequestsTests(BrokerCase):
    """What a broker asks others, as innerClientAuthenticationCredentials say."""

    config = 'innerClientAuthenticationCredentials={"accessKey":"inner","secretKey":"s"}\n'

    def platform(self, disk: Disk | None = None) -> Platform:
        return attrs.evolve(super().platform(disk), credentials=Credentials("inner", "s"))

    def test_signed_but_for_what_clients_signed(self) -> None:
        signer = self.broker.registration._client._factory.signer
        assert signer is not None
        self.assertEqual(signer.sign(310, None, b"")[ACCESS_KEY], "inner")
        self.assertEqual(len({signer.nonce() for _ in range(100)}), 100)
        self.assertIsNone(self.broker.forwarding._client._factory.signer)

    def test_read_from_the_configuration(self) -> None:
        """Of a broker, of one in a cluster's process, whose nameserver signs nothing, and of a learner."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "broker.conf"
            path.write_text(self.config)
            path.chmod(0o600)
            for maker, more in (
                (tap, []),
                (cluster_tap, []),
                (learner_tap, ["--master", "127.0.0.1:1", "--data", f"{folder}/data", "--export", f"{folder}/export"]),
            ):
                with mock.patch.object(maker, "Platform", wraps=Platform) as made:
                    options = maker.Options()
                    options.parseOptions(["--config", str(path), *more])
                    whole: Any = maker.makeService(options)
                given = made.call_args.kwargs.get("credentials")
                self.assertEqual(given, None if maker is cluster_tap else Credentials("inner", "s"))
                if maker is cluster_tap:
                    (cluster,) = [each for each in whole if isinstance(each, ClusterService)]
                    self.assertEqual(cluster.broker.platform.credentials, Credentials("inner", "s"))
