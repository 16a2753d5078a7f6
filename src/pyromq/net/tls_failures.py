"""Failures of TLS and their remedies, as text for the error of a client and for the log of a server."""

import ssl

from pyromq.errors import TlsFailed

#: How a TLS alert begins: a server that takes TLS only answers a plain connection with one.
ALERT = b"\x15\x03"
#: "Protocol version", which is fatal: what a server that takes TLS only says to a plain connection.
PLAIN_IS_REFUSED = b"\x15\x03\x03\x00\x02\x02\x46"

#: OpenSSL's numbers of what is wrong with a certificate (X509_V_ERR_…).
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME = (62, 64)
_BROKEN_OFF = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


def is_of_tls(error: Exception | None) -> bool:
    """Whether TLS failed, and not the connection below it; for connections that are under TLS."""
    return isinstance(error, (ssl.SSLError, *_BROKEN_OFF))


def tls_failure(address: str, error: Exception) -> TlsFailed:
    """Return the error of a client whose TLS with a server failed, with what to do."""
    return TlsFailed(f"no TLS with {address}: {_why(error)}")


def speaks_tls_only(address: str) -> TlsFailed:
    """Return the error of a plain client at a server that takes TLS only."""
    return TlsFailed(
        f"{address} takes TLS only, and this connection is plain: set use_tls (useTLS, -Dtls.enable=true in "
        "Java, PYROMQ_USE_TLS=true for commands)"
    )


def ended_after_handshake(address: str) -> str:
    """Return what is said of a server that ended a connection under TLS before it answered anything."""
    return (
        f"{address} ended the connection after the TLS handshake, before its first answer: a server that "
        "asks for a certificate of its clients does so (set tls_client_cert_path and tls_client_key_path), "
        "or one that stops"
    )


def seen_by_server(peer: str, error: Exception) -> str:
    """Return what a server logs of a client whose TLS with it failed."""
    reason = _reason(error)
    if "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason or "CERTIFICATE_UNKNOWN" in reason:
        why = (
            "it does not trust this server's certificate; give it the certificate of who issued "
            "tlsServerCertPath (tlsClientTrustCertPath)"
        )
    elif "CERTIFICATE_EXPIRED" in reason:
        why = "it says that this server's certificate has expired; renew tlsServerCertPath and restart"
    elif "PEER_DID_NOT_RETURN" in reason:
        why = "it has no certificate, and tlsServerNeedClientAuth=require; set its tlsClientCertPath"
    elif isinstance(error, ssl.SSLCertVerificationError):
        why = (
            f"its certificate is refused ({error.verify_message}); tlsServerTrustCertPath says whose to take"
        )
    elif isinstance(error, TimeoutError):
        why = "it did not end the handshake in time"
    else:
        why = (
            f"it broke the handshake off ({reason or 'no alert'}), as a client does that does not trust "
            "this server's certificate (tlsClientTrustCertPath there) or finds it expired (renew "
            "tlsServerCertPath)"
        )
    return f"TLS with {peer} failed: {why}"


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _refused_certificate(error)
    reason = _reason(error)
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return "it asks for a certificate of this client; set tls_client_cert_path and tls_client_key_path"
    if "ALERT" in reason and ("UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason):
        return "it refuses this client's certificate; its tlsServerTrustCertPath says whose it takes"
    if isinstance(error, _BROKEN_OFF) or reason in ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING"):
        return (
            "it ended the handshake, as a server does that has no TLS; give it tlsServerCertPath and "
            "tlsServerKeyPath, or leave use_tls out here"
        )
    return f"{reason or error}; look at the TLS settings of both sides"


def _refused_certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code == _EXPIRED:
        return "its certificate has expired; renew its tlsServerCertPath, and restart it"
    if error.verify_code == _NOT_YET_VALID:
        return "its certificate is not valid yet; look at the clocks of both machines"
    if error.verify_code in _WRONG_NAME:
        return (
            f"its certificate is made for another name ({error.verify_message}); use that name, or renew it"
        )
    return (
        f"its certificate is not from an authority that is trusted here ({error.verify_message}); set "
        "tls_client_trust_cert_path (PYROMQ_TLS_CLIENT_TRUST_CERT_PATH) to the certificate of who issued it"
    )


def _reason(error: Exception) -> str:
    return (error.reason or "") if isinstance(error, ssl.SSLError) else ""
