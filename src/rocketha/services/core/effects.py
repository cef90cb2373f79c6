"""Carries out what the broker's request handlers want done.

Theory of operation: the service calls :meth:`BrokerEffects.carry_out` after each handler and before its answer is
written, because Java clients see NOTIFY_CONSUMER_IDS_CHANGED before the answer to the heartbeat that caused it.  What
takes the disk some time is begun then, and says when it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet import defer

from rocketha.broker import effects as wanted
from rocketha.broker.state import BrokerState
from rocketha.observe.logging import make_logger
from rocketha.observe.refusals import Ended
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.services.core.proxied_calls import ProxiedCalls
from rocketha.services.tables.broker_files import BrokerFiles, Saved


class BrokerEffects:
    """The hands of one broker.

    :param factories: its ports; a list that grows while it starts.
    :param log_on_disk: fires when the log is on the disk up to an offset, with what went wrong.
    """

    def __init__(
        self,
        state: BrokerState,
        factories: Sequence[RemotingFactory],
        files: BrokerFiles,
        log_on_disk: Callable[[int], defer.Deferred[Exception | None]],
    ) -> None:
        self._state = state
        self._factories = factories
        self._files = files
        self._topics_watchers: list[Callable[[Sequence[str]], None]] = []
        self._log_on_disk = log_on_disk
        self._proxied = ProxiedCalls(self.connection)
        self._log = make_logger()

    def watch_topics(self, changed: Callable[[Sequence[str]], None]) -> None:
        """Have it told the topics that are made, changed or deleted (none named: any)."""
        self._topics_watchers.append(changed)

    def topics_changed(self, topics: Sequence[str]) -> None:
        """Tell those who watch: of topics that changed other than by a request."""
        for changed in self._topics_watchers:
            changed(topics)

    def connection(self, connection_id: int) -> RemotingProtocol | None:
        """An open connection by its id."""
        for factory in self._factories:
            found = factory.connections.get(connection_id)
            if found is not None and not found.closed:
                return found
        return None

    def carry_out(self) -> list[Saved]:
        """Carry out the effects of a handler; what its answer has to wait for.

        The tables are as the handler left them, so each is saved once, and all topics are told at once: a heartbeat
        may make a thousand.
        """
        saves: dict[str, Saved] = {}
        topics: dict[str, None] = {}
        any_topic = False
        for effect in self._state.take_effects():
            if isinstance(effect, wanted.NotifyClient):
                connection = self.connection(effect.connection_id)
                if connection is not None:
                    connection.notify(effect.code, effect.fields, effect.body)
            elif isinstance(effect, wanted.SaveConfig):
                if effect.which not in saves:
                    saves[effect.which] = self.save(effect.which)
            elif isinstance(effect, wanted.RegisterTopics):
                topics |= dict.fromkeys(effect.topics or ())
                any_topic |= not effect.topics
            elif isinstance(effect, wanted.CallClients):
                self._proxied.call(effect)
            elif isinstance(effect, wanted.CloseConnection):
                connection = self.connection(effect.connection_id)
                if connection is not None:
                    connection.end(Ended.EXPIRED, effect.reason)
            elif isinstance(effect, wanted.Audit):
                self._log.info(
                    "{event} by {peer}: {details}", event=effect.event, peer=effect.peer, details=effect.details
                )
        if topics:
            self.topics_changed(tuple(topics))
        if any_topic:
            self.topics_changed(())
        return list(saves.values())

    def save(self, which: str) -> Saved:
        """Have a table saved; fires when it is on the disk as it is now, or could not be."""
        file = self._files[which]
        if which == "offsets":  # frequent, and a consumer can live with older ones
            file.begin()
            return defer.succeed(None)
        deleted = self._state.store.deleted_topics
        if which == "deleted" and deleted.dirty:  # about the log as it is now, which no power cut may shorten
            synced = self._log_on_disk(self._state.store.max_physical_offset)
            return synced.addCallback(lambda failure: failure or file.save())
        return file.save()
