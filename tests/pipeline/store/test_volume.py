"""Files as Hadoop names them."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.store.volume import Volume, absolute, literal, local


def test_local_paths_are_known() -> None:
    """With and without a scheme; nothing is unquoted, as Hadoop does not."""
    paths = {"/a b/c": "/a b/c", "file:/a%20b": "/a%20b", "file:///a/b": "/a/b", "file://localhost/a": "/a"}
    paths["a/b:c"] = "a/b:c"
    assert {uri: str(local(uri)) for uri in paths} == paths
    assert [local(uri) for uri in ("hdfs://h/a", "s3a://bucket/a")] == [None, None]


def test_a_relative_path_is_made_absolute() -> None:
    """A URI stays."""
    assert absolute("a b") == str(Path("a b").absolute())
    assert absolute("file:/a") == "file:/a"
    assert absolute("s3a://b/c") == "s3a://b/c"


@pytest.mark.spark
@pytest.mark.parametrize("scheme", ["", "file:"])
def test_files_are_written_found_and_removed(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    """Whatever their folder is called."""
    volume = Volume(spark)
    root = f"{scheme}{tmp_path}/a b [1] {{x,y}} %20 *?"
    assert not volume.exists(root)
    assert volume.text(f"{root}/a") is None
    assert volume.size(f"{root}/a") == 0
    volume.put(f"{root}/hour=1/a", "ä")
    assert volume.text(f"{root}/hour=1/a") == "ä"
    assert volume.size(f"{root}/hour=1/a") == 2
    assert [path.rpartition("/")[2] for path in volume.find(root, "hour=*/*")] == ["a"]
    volume.rename(f"{root}/hour=1", f"{root}/new/hour=2")
    (found,) = volume.find(root, "*/hour=*")
    with pytest.raises(OSError, match="cannot be renamed"):
        volume.rename(f"{root}/hour=1", f"{root}/hour=3")
    volume.remove(found)
    assert volume.find(root, "*/hour=*") == []
    volume.remove(found)


@pytest.mark.spark
def test_a_file_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """By Hive's file system, too, which does not rename to a file that is there: Spark takes it where we name none."""
    volume = Volume(spark)
    jvm: Any = spark._jvm
    hives = jvm.org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem()
    hives.initialize(jvm.java.net.URI("file:///"), spark._jsparkSession.sessionState().newHadoopConf())
    for system in (None, hives):
        if system is not None:
            volume._systems["", ""] = system
        for text in ("a", "b"):
            volume.put(f"{tmp_path}/_state/a", text)
            assert volume.text(f"{tmp_path}/_state/a") == text
    assert not volume.exists(f"{tmp_path}/_state/_a")


def test_a_literal_path_is_no_pattern() -> None:
    """Each letter that would be one is escaped."""
    assert literal("/a[1]*{b}?\\") == "/a\\[1\\]\\*\\{b\\}\\?\\\\"
