"""The options of reads of object stores: globs, columns, and how objects are packed into partitions."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import StructType

from jetspark.errors import ConfigError
from jetspark.spark.options.batch import read_options
from jetspark.spark.options.globs import parse_glob
from jetspark.spark.options.stream_read import stream_read_options
from jetspark.spark.read.object_reader import ObjectReader
from jetspark.spark.read.objects import pack


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stream": "S"}, "options objects and stream contradict each other"),
        ({"bucket": "b"}, "options bucket and objects contradict each other"),
        ({"subject": "s"}, "options objects and subject contradict each other"),
        ({"readMode": "all"}, "options objects and readMode contradict each other"),
        ({"includeHeaders": "true"}, "options objects and includeHeaders contradict each other"),
        ({"minPartitions": "2"}, "options objects and minPartitions contradict each other"),
        ({"keys": "a"}, "option keys needs option bucket"),
        ({"startingOffsets": '{"other": 1}'}, "names objects other, which is not in option objects: files"),
        ({"objects": "a.b"}, "option objects is 'a.b': bucket name 'a.b' must be made of letters"),
        ({"maxObjectSize": "2g"}, "a value in Spark has at most 2147483647 bytes"),
        ({"maxPartitionBytes": "0"}, "option maxPartitionBytes is '0'"),
        ({"pathGlobFilter": "[a"}, r"option pathGlobFilter is '\[a': it is no glob"),
        ({"commitMode": "purge"}, "options objects and commitMode = purge contradict each other"),
    ],
)
def test_options_that_do_not_fit_objects_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        stream_read_options({"objects": "files", **given})


def test_a_batch_of_objects_has_no_range_and_its_options_need_a_store() -> None:
    for name, value in (("startingOffsets", "earliest"), ("endingTimestamp", "1")):
        with pytest.raises(ConfigError, match=f"option {name} is for streaming reads of objects"):
            read_options({"objects": "files", name: value})
    for name, value in (("pathGlobFilter", "*"), ("ignoreCorruptFiles", "true"), ("maxObjectSize", "1m")):
        with pytest.raises(ConfigError, match=f"option {name} needs option objects"):
            read_options({"stream": "S", name: value})
    options = read_options({"objects": "files", "pathGlobFilter": "*.{jpg,png}"})
    assert options.streams == ("OBJ_files",)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("glob", "fitting", "other"),
    [
        ("*.png", ["a.png", "dir/a.png", ".png"], ["a.PNG", "a.png.txt", "a-png"]),
        ("dir/*", ["dir/a", "dir/a/b", "dir/"], ["a/dir/b", "dir"]),
        ("**a", ["a", "bba"], ["ab"]),
        ("?", ["a", "ä", "\n"], ["", "ab"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
        ("[^a-c]", ["d", "^"], ["a"]),
        ("[!a]", ["b"], ["a"]),
        ("[a^[]", ["a", "^", "["], ["]"]),
        ("[\\]-]", ["]", "-"], ["\\"]),
        ("{a,b{1,2}}.c", ["a.c", "b1.c", "b2.c"], ["b.c", "a,c"]),
        ("a,b}", ["a,b}"], ["a"]),
        ("\\*\\{", ["*{"], ["a{"]),
        ("a.b+(c)$", ["a.b+(c)$"], ["aXb+(c)$"]),
    ],
)
def test_a_glob_matches_whole_names(glob: str, fitting: list[str], other: list[str]) -> None:
    pattern = parse_glob(glob)
    assert [name for name in fitting + other if pattern.fullmatch(name)] == fitting


@pytest.mark.conformance("KSP-18")
@pytest.mark.parametrize("glob", ["", "[", "[]", "[^]", "[a", "{a", "{a,{b}", "a\\", "[a\\", "[z-a]"])
def test_a_bad_glob_is_refused(glob: str) -> None:
    with pytest.raises(ConfigError, match=r"option pathGlobFilter is .*: it is (no glob|empty)"):
        read_options({"objects": "files", "pathGlobFilter": glob})


@pytest.mark.conformance("KSP-19")
@pytest.mark.parametrize(
    ("sizes", "packed"),
    [
        ([], []),
        ([0, 0, 0], [[0, 1, 2]]),
        ([4, 6, 1], [[0, 1], [2]]),
        ([10, 10], [[0], [1]]),
        ([3, 11, 3, 99, 3, 3], [[0, 2, 4], [1], [3], [5]]),
    ],
)
def test_objects_are_packed_by_their_size_and_larger_ones_are_alone(sizes: list[int], packed: list[list[int]]) -> None:
    assert pack(sizes, 10) == packed


def test_a_schema_has_columns_of_objects_only() -> None:
    options = read_options({"objects": "files"})
    for schema, words in (
        (StructType().add("name", "string"), "there is no column name to read; the columns of objects are: path"),
        (StructType().add("content", "string"), "column content can only be read as binary"),
        (StructType().add("path", "string").add("PATH", "string"), "the schema has the column path twice"),
    ):
        with pytest.raises(ConfigError, match=words):
            ObjectReader(schema, options)
