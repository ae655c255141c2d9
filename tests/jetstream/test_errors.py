"""The error tree: classes by number, their builtin bases, texts, and pickling."""

import builtins
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Iterator

import pytest

import jetspark.errors
from jetspark.errors import (
    APIError,
    BucketExistsError,
    BucketNotFoundError,
    Error,
    KeyDeletedError,
    KeyExistsError,
    PermissionsViolationError,
    SlowConsumerError,
    StatusError,
    ValueTooLargeError,
    WrongLastRevisionError,
    api_error,
)
from jetspark.jetstream.errors.hints import HINTS
from jetspark.jetstream.key_value import KeyValueEntry, KeyValueOperation
from jetspark.wire.headers import Headers

CLASSES = [
    value
    for name in jetspark.errors.__all__
    if inspect.isclass(value := getattr(jetspark.errors, name)) and issubclass(value, Error)
]

NUMBERS = {
    "AtomicPublishDisabledError": "10174",
    "BadRequestError": "10003 10025",
    "BatchError": "10175 10177 10179 10200 10205-10208",
    "BatchTooLargeError": "10199",
    "ConsumerConfigError": (
        "10016-10020 10078-10083 10085-10095 10102-10103 10106-10108 10112 10114-10116 10121 10125-10127 "
        "10131-10132 10134-10139 10153 10159 10161-10162 10178 10181-10184 10196-10197 10218-10222 10225"
    ),
    "ConsumerCreateError": "10012",
    "ConsumerDoesNotExistError": "10149",
    "ConsumerExistsError": "10105 10148",
    "ConsumerNameInUseError": "10013",
    "ConsumerNotFoundError": "10014",
    "ConsumerOfflineError": "10119 10195",
    "CounterError": "10168-10172",
    "DuplicateInBatchError": "10201",
    "DuplicateInProcessError": "10158",
    "IncompleteBatchError": "10176",
    "InsufficientResourcesError": "10002 10023 10028 10047",
    "InvalidPriorityGroupError": "10160",
    "JetStreamNotEnabledError": "10076",
    "JetStreamNotEnabledForAccountError": "10035 10039",
    "JetStreamUnavailableError": "10004 10007-10009 10163",
    "MaximumConsumersError": "10026",
    "MaximumStreamsError": "10027",
    "MessageNotFoundError": "10037 10043",
    "MessageSizeExceedsMaximumError": "10054 10097",
    "MessageTTLDisabledError": "10166",
    "MessageTTLInvalidError": "10165",
    "PublishExpectationError": "10193",
    "RequiredAPILevelError": "10185",
    "RollupError": "10111",
    "ScheduleError": "10188-10192 10203 10212 10223",
    "StreamConfigError": (
        "10021-10022 10024 10030-10034 10046 10049 10052-10053 10055-10056 10061 10069 10074 10113 10120 "
        "10122-10124 10128 10133 10140-10147 10150-10152 10154-10156 10173 10186-10187 10198 10209 10213-10217"
    ),
    "StreamNameInUseError": "10058",
    "StreamNotFoundError": "10059",
    "StreamOfflineError": "10118 10194",
    "StreamSealedError": "10109",
    "StreamStoreFailedError": "10077",
    "SubjectOverlapError": "10065",
    "TooManyRequestsError": "10167 10210-10211",
    "WorkQueueConsumerError": "10084 10098-10101",
    "WrongLastMsgIdError": "10070",
    "WrongLastSequenceError": "10071 10164",
    "WrongStreamError": "10060",
}
"""The numbers of each class."""


MARKER = KeyValueEntry("B", "k", b"", 7, 0, KeyValueOperation.DELETE, Headers())
BY_HAND: dict[str, Callable[[], Error]] = {
    "BucketExistsError": lambda: BucketExistsError("B"),
    "BucketNotFoundError": lambda: BucketNotFoundError("B"),
    "KeyDeletedError": lambda: KeyDeletedError(MARKER, 7),
    "KeyExistsError": lambda: KeyExistsError("B", "k", 7),
    "ValueTooLargeError": lambda: ValueTooLargeError("B", size=9, limit=5),
    "WrongLastRevisionError": lambda: WrongLastRevisionError("B", "k", 3, 7),
}
"""Errors that are made of what they are about, by class."""


def make(cls: type[Error]) -> Error:
    if cls.__name__ in BY_HAND:
        return BY_HAND[cls.__name__]()
    if issubclass(cls, APIError):
        return cls(404, 10059, "stream not found", where="STREAM.INFO.S")
    if issubclass(cls, StatusError):
        return cls(409, "Consumer Deleted", where="S.c")
    error = cls("something went wrong")
    for name, parameter in inspect.signature(cls.__init__).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            setattr(error, name, f"value of {name}")
    return error


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_errors_keep_everything_when_they_are_pickled(cls: type[Error], protocol: int) -> None:
    error = make(cls)
    error.add_note("seen in partition 3")
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is cls
    assert str(again) == str(error) != ""
    assert again.args == error.args
    assert vars(again) == vars(error)
    assert again.__notes__ == ["seen in partition 3"]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_has_a_docstring_and_the_common_base_class(cls: type[Error]) -> None:
    assert cls.__doc__
    assert cls.__doc__ != Error.__doc__ or cls is Error


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ConnectionClosedError", ConnectionError),
        ("ConnectError", ConnectionError),
        ("NoServersError", ConnectionError),
        ("AuthenticationError", PermissionError),
        ("PermissionsViolationError", PermissionError),
        ("RequestTimeoutError", TimeoutError),
        ("PublishTimeoutError", TimeoutError),
        ("MissedHeartbeatError", TimeoutError),
        ("NoRespondersError", ConnectionError),
        ("BadSubjectError", ValueError),
        ("ConfigError", ValueError),
        ("MaxPayloadError", ValueError),
        ("StreamNotFoundError", LookupError),
        ("ConsumerNotFoundError", LookupError),
        ("MessageNotFoundError", LookupError),
        ("WrongLastSequenceError", ValueError),
        ("JetStreamNotEnabledForAccountError", PermissionError),
        ("JetStreamUnavailableError", ConnectionError),
        ("NoConsumerResponseError", ConnectionError),
        ("ConsumerDeletedError", LookupError),
    ],
)
def test_errors_inherit_from_the_matching_builtin_error(name: str, builtin: type[Exception]) -> None:
    assert issubclass(getattr(jetspark.errors, name), builtin)


@pytest.mark.parametrize(
    ("code", "err_code", "name"),
    [
        (400, 10003, "BadRequestError"),
        (503, 10008, "JetStreamUnavailableError"),
        (400, 10013, "ConsumerNameInUseError"),
        (404, 10014, "ConsumerNotFoundError"),
        (503, 10023, "InsufficientResourcesError"),
        (404, 10037, "MessageNotFoundError"),
        (503, 10039, "JetStreamNotEnabledForAccountError"),
        (400, 10043, "MessageNotFoundError"),
        (500, 10047, "InsufficientResourcesError"),
        (500, 10052, "StreamConfigError"),
        (400, 10054, "MessageSizeExceedsMaximumError"),
        (400, 10058, "StreamNameInUseError"),
        (404, 10059, "StreamNotFoundError"),
        (400, 10060, "WrongStreamError"),
        (400, 10065, "SubjectOverlapError"),
        (400, 10070, "WrongLastMsgIdError"),
        (400, 10071, "WrongLastSequenceError"),
        (503, 10076, "JetStreamNotEnabledError"),
        (503, 10077, "StreamStoreFailedError"),
        (400, 10083, "ConsumerConfigError"),
        (400, 10084, "WorkQueueConsumerError"),
        (400, 10099, "WorkQueueConsumerError"),
        (400, 10105, "ConsumerExistsError"),
        (400, 10109, "StreamSealedError"),
        (400, 10148, "ConsumerExistsError"),
        (400, 10149, "ConsumerDoesNotExistError"),
        (409, 10158, "DuplicateInProcessError"),
        (400, 10160, "InvalidPriorityGroupError"),
        (400, 10164, "WrongLastSequenceError"),
        (400, 10165, "MessageTTLInvalidError"),
        (400, 10166, "MessageTTLDisabledError"),
        (429, 10167, "TooManyRequestsError"),
        (400, 10174, "AtomicPublishDisabledError"),
        (400, 10176, "IncompleteBatchError"),
        (400, 10178, "ConsumerConfigError"),
        (400, 10199, "BatchTooLargeError"),
        (400, 10201, "DuplicateInBatchError"),
    ],
)
def test_the_error_number_decides_the_class(code: int, err_code: int, name: str) -> None:
    error = api_error(code, err_code, "the description does not matter")
    assert type(error).__name__ == name
    assert (error.code, error.err_code, error.description) == (code, err_code, "the description does not matter")


@pytest.mark.parametrize("name", NUMBERS)
def test_a_class_has_these_numbers_and_no_other(name: str) -> None:
    numbers: set[int] = set()
    for run in NUMBERS[name].split():
        first, _, last = run.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    # 499 has no class, so only the number decides.
    assert {number for number in range(10000, 10300) if type(api_error(499, number)).__name__ == name} == numbers


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (400, "BadRequestError"),
        (404, "NotFoundError"),
        (429, "TooManyRequestsError"),
        (503, "JetStreamUnavailableError"),
        (500, "APIError"),
    ],
)
def test_the_http_code_decides_for_error_numbers_of_newer_servers(code: int, name: str) -> None:
    assert type(api_error(code, 10999, "news")).__name__ == name
    assert type(api_error(code, 0, "an old server")).__name__ == name


@pytest.mark.parametrize("cls", [PermissionsViolationError, SlowConsumerError])
def test_an_error_keeps_its_given_text(cls: type[PermissionsViolationError | SlowConsumerError]) -> None:
    assert (str(cls()), str(cls("a text")), str(cls(message="a text"))) == ("", "a text", "a text")


def test_the_text_has_the_place_the_problem_the_numbers_and_a_hint() -> None:
    error = api_error(404, 10059, "stream not found", where="STREAM.INFO.FLIGHTS")
    assert str(error) == (
        "STREAM.INFO.FLIGHTS: stream not found (10059/404); create the stream first, or check its name and the domain"
    )
    assert str(api_error(500, 0, "")) == "no description (500)"


def test_these_numbers_have_a_hint() -> None:
    older = {10014, 10023, 10026, 10039, 10047, 10054, 10058, 10059, 10065, 10076, 10077, 10098, 10099, 10100, 10109}
    assert set(HINTS) == older | {10148, 10158, 10166, 10174, 10188, 10201}


@pytest.mark.parametrize("err_code", HINTS)
def test_hints_are_short_and_follow_a_semicolon(err_code: int) -> None:
    hint = HINTS[err_code]
    assert len(hint) < 100
    assert not hint.endswith(".")
    assert str(api_error(400, err_code, "x")).endswith(f"; {hint}")


def test_a_wrong_last_sequence_includes_the_correct_one() -> None:
    error = api_error(400, 10071, "wrong last sequence: 18446744073709551615")
    assert isinstance(error, jetspark.errors.WrongLastSequenceError)
    assert error.last_sequence == 2**64 - 1
    other = api_error(400, 10164, "wrong last sequence")
    assert isinstance(other, jetspark.errors.WrongLastSequenceError)
    assert other.last_sequence is None


@pytest.mark.parametrize(
    ("attribute", "names"),
    [
        (
            "transient",
            (
                "ConnectError ConsumerOfflineError ConsumerUnavailableError CredentialsCallbackError DisconnectedError "
                "DuplicateInProcessError JetStreamNotEnabledError JetStreamUnavailableError LeadershipChangeError "
                "NoServersError NoStreamResponseError ProtocolError PublishTimeoutError RequestTimeoutError "
                "ServerShutdownError SlowConsumerError StaleConnectionError StreamOfflineError "
                "TooManyRequestsError"
            ),
        ),
        ("needs_recreation", "ConnectionClosedError ConsumerDoesNotExistError ConsumerNotFoundError"),
        ("outcome_unknown", "DisconnectedError PublishTimeoutError RequestTimeoutError StaleConnectionError"),
    ],
)
def test_these_classes_say_that_a_retry_may_help(attribute: str, names: str) -> None:
    assert sorted(each.__name__ for each in CLASSES if getattr(each, attribute)) == names.split()


def test_data_loss_includes_the_range() -> None:
    error = jetspark.errors.DataLossError("gone", stream="S", first=3, last=9)
    assert (error.stream, error.first, error.last) == ("S", 3, 9)


def test_every_name_is_exported_once() -> None:
    assert len(set(jetspark.errors.__all__)) == len(jetspark.errors.__all__)


def test_every_error_of_the_library_is_also_a_builtin_error() -> None:
    """Includes the modules that `jetspark.errors` does not list."""
    for module in pkgutil.walk_packages(jetspark.__path__, "jetspark."):
        importlib.import_module(module.name)
    known = {each for each in vars(builtins).values() if isinstance(each, type) and issubclass(each, Exception)}
    known -= {Exception}

    def below(kind: type[jetspark.errors.Error]) -> Iterator[type[jetspark.errors.Error]]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    found = set(below(jetspark.errors.Error))
    assert len(found) > 80
    assert [each for each in found if not known.intersection(each.__mro__)] == []
