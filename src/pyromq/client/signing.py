"""Signed requests, for brokers that ask who is there (`aclEnable`)."""

from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError
from pyromq.wire import signature
from pyromq.wire.signature import Sign


def signer(settings: ClientSettings) -> Sign | None:
    """Return what signs a request in place, or None when there is no key to sign with."""
    if bool(settings.access_key) != bool(settings.secret_key):
        raise ConfigError("access_key and secret_key go together; give both, or neither")
    if not settings.access_key:
        return None
    return signature.signer(settings.access_key, settings.secret_key, settings.security_token)
