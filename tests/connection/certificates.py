"""A certificate authority for the tests, and its certificates."""

from __future__ import annotations

from pathlib import Path

import trustme
from tests.connection.support import TEST_TIMEOUT

__all__ = ["Certificates"]


class Certificates:
    """Files of an authority, a server for localhost, and a client."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        server = authority.issue_cert("localhost")
        client = authority.issue_cert("client@example.com")
        self.ca = str(folder / "ca.pem")
        authority.cert_pem.write_to_path(self.ca)
        self.server = (str(folder / "server.pem"), str(folder / "server.key"))
        self.client = (str(folder / "client.pem"), str(folder / "client.key"))
        for certificate, (chain, key) in ((server, self.server), (client, self.client)):
            certificate.private_key_pem.write_to_path(key)
            for blob in certificate.cert_chain_pems:
                blob.write_to_path(chain, append=True)

    def config(self, **more: object) -> dict[str, object]:
        files = {"cert_file": self.server[0], "key_file": self.server[1], "ca_file": self.ca}
        return {"tls": {**files, "timeout": TEST_TIMEOUT, **more}}
