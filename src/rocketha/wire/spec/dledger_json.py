"""The JSON bodies of DLedger's members and clients, of dledger 0.3.2 as RocketMQ 5.5.0 ships it.  Declarations only.

Java: ``RequestOrResponse`` and the classes made of it, ``DLedgerEntry``.  Members stand in fastjson's order, which is
that of their names.
"""

from __future__ import annotations

from typing import Any

from rocketha.wire.spec.remoting import JsonText


def _message(name: str, members: dict[str, str]) -> Any:
    """The members of all messages, and those of one."""
    common = {
        "code": "int",  # what came of it (DLedgerResponseCode); 200 in requests
        "group": "text",  # name of the group
        "leaderId": "text",  # the leader in the sender's eyes; absent where it knows none
        "localId": "text",  # the member that sent it
        "remoteId": "text",  # the member that it is for
        "term": "long",  # the sender's, -1 if not said
    }
    return name / JsonText(dict(sorted((common | members).items())))


ENTRY = "dledger-entry" / JsonText(
    {
        "body": "text",  # base64
        "bodyCrc": "int",  # 0, never set
        "chainCrc": "int",  # 0, never set
        "channel": "int",  # 0
        "index": "long",  # number of the entry, from 0
        "magic": "int",  # 1
        "pos": "long",  # bytes from the begin of the log to this entry
        "size": "int",  # 48 and the bytes of the body
        "term": "long",  # of the leader that appended it
    }
)

MESSAGE = _message("dledger-message", {})

METADATA_ANSWER = _message(
    "dledger-metadata-answer",
    {
        "peers": "strings",  # id to host:port
    },
)

APPEND_REQUEST = _message(
    "dledger-append",
    {
        "body": "text",  # of the entry, base64
    },
)

APPEND_ANSWER = _message(
    "dledger-append-answer",
    {
        "index": "long",  # of the entry, -1 where nothing was appended
        "pos": "long",  # of the entry, -1 where nothing was appended
    },
)

GET_REQUEST = _message(
    "dledger-get",
    {
        "beginIndex": "long",  # of the entry that is wanted
    },
)

GET_ANSWER = _message(
    "dledger-get-answer",
    {
        "entries": "rows",  # dledger-entry
    },
)

VOTE_REQUEST = _message(
    "dledger-vote",
    {
        "ledgerEndIndex": "long",  # of the candidate's last entry, -1 without any
        "ledgerEndTerm": "long",  # of the candidate's last entry, -1 without any
    },
)

VOTE_ANSWER = _message(
    "dledger-vote-answer",
    {
        "voteResult": "text",  # UNKNOWN, ACCEPT or the name of a reason to refuse
    },
)

PUSH_REQUEST = _message(
    "dledger-push",
    {
        "batch": "flag",  # whether batchEntry has something in it; not read
        "batchEntry": "rows",  # dledger-entry, one index behind the other; only in an APPEND
        "commitIndex": "long",  # how far the leader knows the log to be committed
        "count": "int",  # of entries; not read
        "entry": "object",  # dledger-entry; absent in a COMMIT, and beside a batch
        "firstEntryIndex": "long",  # -1 without entries; not read
        "lastEntryIndex": "long",  # -1 without entries; not read
        "totalSize": "int",  # bytes of a batch on the disk; not read
        "type": "text",  # APPEND, COMMIT, COMPARE or TRUNCATE
    },
)

PUSH_ANSWER = _message(
    "dledger-push-answer",
    {
        "beginIndex": "long",  # of the follower's first entry
        "count": "int",  # of the entries that were pushed
        "endIndex": "long",  # of the follower's last entry
        "index": "long",  # of the first entry that was pushed; absent in the answer to a COMMIT
    },
)

TRANSFER_REQUEST = _message(
    "dledger-transfer",
    {
        "takeLeadershipLedgerIndex": "long",  # how far the next leader's log must reach first
        "transferId": "text",  # who leads
        "transfereeId": "text",  # who is to lead
    },
)
