"""Encryption of what is stored about users, with a secret that all brokers of a group share.

AES-256-GCM; the key is the SHA-256 of the secret.  Needs the extra ``rocketha[tls]``.
"""

from __future__ import annotations

import hashlib
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rocketha.errors import RemoteProtocolError

MAGIC = b"rocketha accounts 1\0"
NONCE_BYTES = 12


class Vault:
    """Of one secret."""

    def __init__(self, secret: bytes) -> None:
        self._cipher = AESGCM(hashlib.sha256(MAGIC + secret).digest())

    def seal(self, data: bytes) -> bytes:
        """Encrypt."""
        nonce = os.urandom(NONCE_BYTES)
        return MAGIC + nonce + self._cipher.encrypt(nonce, data, MAGIC)

    def open(self, sealed: bytes) -> bytes:
        """Decrypt.

        :raises RemoteProtocolError: it was sealed with another secret, or changed.
        """
        nonce, body = sealed[len(MAGIC) : len(MAGIC) + NONCE_BYTES], sealed[len(MAGIC) + NONCE_BYTES :]
        if not sealed.startswith(MAGIC) or len(nonce) < NONCE_BYTES:
            raise RemoteProtocolError("these are no sealed accounts")
        try:
            return self._cipher.decrypt(nonce, body, MAGIC)
        except InvalidTag:
            raise RemoteProtocolError("the accounts were sealed with another authSecretFile") from None
