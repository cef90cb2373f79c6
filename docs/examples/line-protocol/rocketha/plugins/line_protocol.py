"""A protocol of its own on a port of its own: topics by telnet.

``put TOPIC TEXT`` stores a message and answers ``stored QUEUE OFFSET``, once it is acknowledged as configured;
``follow TOPIC`` prints each message that comes from then on; ``bye`` ends the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.protocol import ServerFactory
from twisted.protocols.basic import LineReceiver
from zope.interface import implementer

from rocketha.interfaces import API, FeatureParts, IBrokerFeature, Key, Listener, Message


class TopicLines(LineReceiver):
    """One connection."""

    delimiter = b"\n"
    MAX_LENGTH = 64 * 1024

    def __init__(self, messages: Any) -> None:
        self._messages = messages
        self._following: list[Any] = []

    def lineReceived(self, line: bytes) -> None:
        word, _, rest = line.rstrip(b"\r").decode("utf-8", "replace").partition(" ")
        topic, _, text = rest.partition(" ")
        if word == "put" and topic and text:
            placing = self._messages.put(topic, text.encode())
            placing.addCallbacks(
                lambda placed: self._say(f"stored {placed.queue_id} {placed.offset}"),
                lambda failure: self._say(f"error {failure.getErrorMessage()}"),
            )
        elif word == "follow" and topic:
            self._following.append(self._messages.follow(topic, self._show))
            self._say(f"following {topic}")
        elif word == "bye":
            self.transport.loseConnection()
        else:
            self._say("error: put TOPIC TEXT, follow TOPIC or bye is wanted")

    def _show(self, message: Message) -> None:
        self._say(f"message {message.queue_id} {message.offset} {message.body.decode('utf-8', 'replace')}")

    def _say(self, text: str) -> None:
        if self.transport.connected:
            self.sendLine(text.replace("\n", " ").encode())

    def connectionLost(self, reason: Any = None) -> None:
        for following in self._following:
            following.stop()


class TopicLinesFactory(ServerFactory):
    """Makes a protocol for each connection."""

    def __init__(self, messages: Any) -> None:
        self._messages = messages

    def buildProtocol(self, addr: Any) -> TopicLines:
        return TopicLines(self._messages)


@implementer(IBrokerFeature)
class LineProtocol:
    """The plug-in."""

    name = "line-protocol"
    api = API
    version = "1.0"
    summary = "put and follow topics with telnet"
    keys: Mapping[str, Key] = {"listen": Key("tcp:7000:interface=127.0.0.1", "Twisted endpoint string of the port.")}

    def check_keys(self, keys: Mapping[str, str]) -> list[str]:
        return []

    def build(self, context: Any) -> FeatureParts:
        factory = TopicLinesFactory(context.messages)
        return FeatureParts(listeners=[Listener("lines", context.keys["listen"], factory)])


plugin = LineProtocol()
