"""Configurations and infos with the names of nats-py: seconds instead of `timedelta`, and dictionaries both ways."""

import datetime
import json

from msgspec import inspect

from jetspark import jetstream
from jetspark.jetstream import account, config, header_names, info
from jetspark.jetstream.codec import decode, to_builtins
from jetspark.jetstream.key_value import KeyValueConfig as BucketConfig
from jetspark.jetstream.object_store import ObjectInfo, ObjectOptions
from jetspark.jetstream.object_store import ObjectStoreConfig as StoreConfig
from jetspark.jetstream.times import Duration, Timestamp

AckPolicy = config.AckPolicy
DeliverPolicy = config.DeliverPolicy
DiscardPolicy = config.DiscardPolicy
PersistMode = config.PersistMode
ReplayPolicy = config.ReplayPolicy
RetentionPolicy = config.RetentionPolicy
StorageType = config.StorageType
StoreCompression = config.StoreCompression

_RECORDS = {}
_FALSE_BY_DEFAULT = {"deny_purge", "discard_new_per_subject", "mirror_direct", "no_ack", "sealed"}
_NOT_COMPARED = {"extra", "ts"}


class Record:
    """A struct of jetspark with the names of nats-py."""

    _struct = None

    def __init__(self, **fields):
        for name in self._struct.__struct_fields__:
            self.__dict__[name] = None
        self.__dict__.update(fields)

    def __eq__(self, other):
        if type(other) is not type(self):
            return False
        mine, theirs = self.__dict__, other.__dict__
        names = set(self._struct.__struct_fields__) - _NOT_COMPARED
        return all((mine.get(name) or None) == (theirs.get(name) or None) for name in names)

    __hash__ = None

    def __repr__(self):
        return f"{type(self).__name__}({self.__dict__})"

    def evolve(self, **changes):
        """A copy with some fields changed."""
        return type(self)(**{**self.__dict__, **changes})

    def given(self):
        """Return the set fields in the types of jetspark."""
        kinds = {field.name: field.type for field in inspect.type_info(self._struct).fields}
        return {
            name: _taken(value, kinds.get(name))
            for name, value in self.__dict__.items()
            if value is not None and name != "extra"
        }

    def as_dict(self):
        """As JSON."""
        made = {name: value for name, value in self.given().items() if value != Duration()}
        return {name: to_builtins(value) for name, value in made.items()}

    @classmethod
    def from_response(cls, response):
        """From JSON."""
        record = shown(decode(cls._struct, json.dumps(response).encode()))
        for name in record.__dict__.keys() - response.keys():
            record.__dict__[name] = None  # not in the response
        return record


def _taken(value, kind):
    """Convert a value of nats-py to jetspark."""
    if isinstance(value, Record):
        return value._struct(**value.given())
    if isinstance(value, list):
        return [_taken(each, _inner(kind)) for each in value]
    wanted = _custom(kind)
    if wanted is Duration and isinstance(value, int | float):
        return datetime.timedelta(seconds=value)
    if wanted is Timestamp and isinstance(value, str):
        return Timestamp.parse(value)
    if wanted is Timestamp and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value


def _custom(kind):
    if isinstance(kind, inspect.UnionType):
        return next((_custom(part) for part in kind.types if not isinstance(part, inspect.NoneType)), None)
    return kind.cls if isinstance(kind, inspect.CustomType) else None


def _inner(kind):
    if isinstance(kind, inspect.UnionType):
        kind = next(part for part in kind.types if not isinstance(part, inspect.NoneType))
    return kind.item_type if isinstance(kind, inspect.ListType) else None


def shown(value):
    """Convert a value of jetspark to nats-py."""
    if type(value) in _RECORDS:
        record = _RECORDS[type(value)]()
        for name, word in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            record.__dict__[name] = shown(getattr(value, name))
            if word.isidentifier():
                record.__dict__[word] = record.__dict__[name]
        record.__dict__.update(value.extra)
        for name in _FALSE_BY_DEFAULT & record.__dict__.keys():
            record.__dict__[name] = bool(record.__dict__[name])
        return record
    if isinstance(value, list):
        return [shown(each) for each in value]
    if isinstance(value, dict):
        return {name: shown(each) for name, each in value.items()}
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, Timestamp):
        return datetime.datetime.fromtimestamp(value.ns // 1000 / 1e6, datetime.UTC)
    return value


def _record(struct, name=None):
    made = type(name or struct.__name__, (Record,), {"_struct": struct})
    _RECORDS[struct] = made
    return made


APIStats = _record(account.APIStats)
AccountInfo = _record(account.AccountInfo)
AccountLimits = _record(account.AccountLimits)
Tier = _record(account.AccountTier, "Tier")
ClusterInfo = _record(info.ClusterInfo)
ConsumerConfig = _record(config.ConsumerConfig)
ConsumerInfo = _record(info.ConsumerInfo)
PeerInfo = _record(info.PeerInfo)
Placement = _record(config.Placement)
ClusterInfo.traffic_acc = None
RePublish = _record(config.Republish, "RePublish")
SequenceInfo = _record(info.SequenceInfo)
StreamConfig = _record(config.StreamConfig)
StreamConfig.template_owner = None
StreamConsumerLimits = _record(config.StreamConsumerLimits)
StreamInfo = _record(info.StreamInfo)
StreamSource = _record(config.StreamSource)
StreamSourceInfo = _record(info.StreamSourceInfo)
StreamState = _record(info.StreamState)
SubjectTransform = _record(config.SubjectTransform)
ConsumerPause = _record(jetstream.ConsumerPause)
KeyValueConfig = _record(BucketConfig, "KeyValueConfig")
ObjectStoreConfig = _record(StoreConfig, "ObjectStoreConfig")
ObjectMeta = _record(ObjectInfo, "ObjectMeta")
ObjectMetaOptions = _record(ObjectOptions, "ObjectMetaOptions")


class Header:
    """Names of headers."""

    EXPECTED_LAST_SUBJECT_SEQUENCE = header_names.EXPECTED_LAST_SUBJECT_SEQUENCE
