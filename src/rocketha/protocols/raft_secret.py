"""The proof that both ends of a Raft connection know the group's secret.

Theory of operation.  Without a secret, HELLO is answered by WELCOME.  With one: HELLO carries the dialer's nonce; the
answer is a CHALLENGE with a nonce of the other end and its proof; the dialer checks that, answers with its own PROOF,
and only then is judged and welcomed.  A proof is an HMAC-SHA256 over a word for the side that gives it, both nonces and
what the HELLO said, so none can be used again, by the other side, or between other members.  The secret keeps strangers
out; it does not encrypt, and whoever can change bytes on the way needs to be kept away by other means.

What it must not know: connections.
"""

from __future__ import annotations

import hashlib
import hmac

from rocketha.wire.raft_frames import Hello

ACCEPT, DIAL = b"accept", b"dial"


def proof(secret: bytes, side: bytes, hello: Hello, nonce: bytes) -> bytes:
    """What a side answers.

    :param side: ACCEPT or DIAL.
    :param hello: the dialer's.
    :param nonce: the accepting end's.
    """
    names = b"\0".join(text.encode() for text in (hello.group, hello.sender, hello.receiver, hello.address))
    numbers = hello.incarnation.to_bytes(8) + hello.last_index.to_bytes(8)
    said = b"\0".join((b"rocketha-raft", side, hello.nonce + nonce + numbers + names))
    return hmac.new(secret, said, hashlib.sha256).digest()


def proves(secret: bytes, side: bytes, hello: Hello, nonce: bytes, given: bytes) -> bool:
    """Whether that is the proof; takes the same time for all that are not."""
    return hmac.compare_digest(proof(secret, side, hello, nonce), given)
