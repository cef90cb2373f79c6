"""A CA for tests, and files of what it issues."""

from __future__ import annotations

import os
from pathlib import Path

import trustme


class Authority:
    """Of one test.

    :param folder: where the files go.
    """

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.trust = str(folder / f"{name}.pem")
        self._ca.cert_pem.write_to_path(self.trust)

    def issue(self, name: str, *hosts: str) -> tuple[str, str]:
        """Certificate and key of these hosts: the paths of two files."""
        issued = self._ca.issue_cert(*(hosts or ("127.0.0.1", "localhost")))
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        replace(certificate, b"".join(each.bytes() for each in issued.cert_chain_pems))
        replace(key, issued.private_key_pem.bytes())
        return str(certificate), str(key)


def replace(path: Path, data: bytes) -> None:
    """As certificates are rotated: a new file in place of the old one, for its owner alone."""
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    os.chmod(beside, 0o600)
    os.replace(beside, path)
