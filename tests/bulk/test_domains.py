"""JetStream with another prefix: a domain, or an API that is imported under another name."""

import inspect

import pytest
from tests.bulk.streams import Streams, read, sequences

from jetspark import bulk
from jetspark.errors import BadSubjectError, JetStreamNotEnabledError
from jetspark.jetstream.api import StreamInfoRequest
from jetspark.jetstream.names import api_prefix
from jetspark.server import NatsServer


@pytest.mark.conformance("MGT-01")
def test_every_request_uses_the_domain_or_prefix() -> None:
    config = {
        "jetstream": {"domain": "hub"},
        "accounts": {
            "OWNER": {
                "jetstream": True,
                "users": [{"user": "owner", "password": "owner"}],
                "exports": [{"service": "$JS.hub.API.>", "response_type": "stream"}],
            },
            "GUEST": {
                "users": [{"user": "guest", "password": "guest"}],
                "imports": [{"service": {"account": "OWNER", "subject": "$JS.hub.API.>"}, "to": "borrowed.api.>"}],
            },
        },
    }
    with NatsServer(config=config) as server:
        with bulk.connect(server.url, user="owner", password="owner") as owner:
            domain = api_prefix(domain="hub")
            assert domain == "$JS.hub.API."
            name = Streams(owner, domain).filled(30)
            for way in ("consumer", "direct"):  # MSG.NEXT and DIRECT.GET
                assert sequences(read(owner, name, prefix=domain, read_method=way)[0]) == list(range(1, 31))
            with pytest.raises(JetStreamNotEnabledError) as caught:
                owner.request(StreamInfoRequest(name), prefix=api_prefix(domain="elsewhere"))
            assert caught.value.code == 503
        with bulk.connect(server.url, user="guest", password="guest") as guest:
            borrowed = api_prefix(prefix="borrowed.api")  # the final dot is added
            assert borrowed == "borrowed.api."
            assert guest.request(StreamInfoRequest(name), prefix=borrowed).state.messages == 30
    with pytest.raises(BadSubjectError, match="not both"):
        api_prefix(domain="hub", prefix="borrowed.api")
    for call in (bulk.Connection.request, bulk.scan, bulk.first_sequence_at):
        assert inspect.signature(call).parameters["timeout"].default == 5.0
