"""The error of a connect that failed: which server it was, why, and what to do."""

from __future__ import annotations

import ssl
from typing import Final

from jetspark.wire.errors import (
    AuthenticationError,
    ConnectError,
    DisconnectedError,
    Error,
    MaxControlLineError,
    ProtocolError,
    TLSError,
)
from jetspark.wire.options import ServerAddress, TLSOptions

__all__ = ["to_connect_error"]

_UNKNOWN_AUTHORITY: Final = frozenset({2, 18, 19, 20, 21})  # verify codes of OpenSSL
_OTHER_NAME: Final = frozenset({62, 64})
_NOT_IN_DATE: Final = frozenset({9, 10})
_ALERTS: Final = (
    ("CERTIFICATE_REQUIRED", "the server wants a client certificate; give cert_file and key_file in TLSOptions"),
    ("BAD_CERTIFICATE", "the server refuses the client certificate, or wants one; check cert_file of TLSOptions"),
    ("UNKNOWN_CA", "the server does not know the authority of the client certificate; check cert_file of TLSOptions"),
    ("WRONG_VERSION", "the server sends INFO first; set handshake_first of TLSOptions to False"),
)


def to_connect_error(address: ServerAddress, error: Exception, tls: TLSOptions | None) -> Error:
    """Return the library's error for a failed connect; the message names the server.

    `tls` has the options of the connect; they matter for the hint.
    """
    reason = str(error) or type(error).__name__
    text = reason if str(address) in reason else f"{address}: cannot connect: {reason}"
    if isinstance(error, DisconnectedError):
        alert = error.__cause__  # such as an alert that a certificate is missing
        failure: Error = _tls_failure(address, alert) if isinstance(alert, ssl.SSLError) else ConnectError(text)
    elif isinstance(error, MaxControlLineError):
        failure = ConnectError(
            f"{address}: the CONNECT line is longer than max_control_line of the server; raise it, or use shorter "
            "credentials"
        )
    elif isinstance(error, ProtocolError | AuthenticationError) and str(address) not in str(error):
        failure = type(error)(f"{address}: {error}")
    elif isinstance(error, Error):
        return error
    elif isinstance(error, ssl.SSLCertVerificationError):
        problem = f"{address}: the server's certificate cannot be verified: {error.verify_message}"
        failure = TLSError(problem + _certificate_hint(error.verify_code, tls))
    elif isinstance(error, ssl.SSLError):
        failure = _tls_failure(address, error)
    elif isinstance(error, TimeoutError):
        late = f"{address}: no answer in time; check the address, or raise connect_timeout"
        failure = ConnectError(late, timed_out=True)
    elif isinstance(error, OSError | ValueError):  # ValueError: the host is not valid
        failure = ConnectError(text)
    else:
        failure = ConnectError(f"{address}: cannot connect: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _certificate_hint(code: int, tls: TLSOptions | None) -> str:
    if code in _UNKNOWN_AUTHORITY:
        if tls is None or tls.ca_file is None:
            return "; this system does not know its authority: give the authority's PEM file, TLSOptions(ca_file=...)"
        return f"; ca_file {tls.ca_file} is of another authority: give the file of the one that issued it"
    if code in _OTHER_NAME:
        return "; connect to a name in the certificate, or give one, TLSOptions(server_hostname=...)"
    if code in _NOT_IN_DATE:
        return "; renew it, or set the clock of this machine"
    return ""


def _tls_failure(address: ServerAddress, error: ssl.SSLError) -> ConnectError:
    if isinstance(error, ssl.SSLEOFError):  # no fault of TLS: a server that stops closes its connections
        return ConnectError(f"{address}: the server closed the connection during the TLS handshake")
    reason = getattr(error, "reason", None) or str(error)  # absent if Python code raised it
    hint = next((f"; {hint}" for part, hint in _ALERTS if part in reason.upper()), "")
    return TLSError(f"{address}: TLS failed: {reason}{hint}")
