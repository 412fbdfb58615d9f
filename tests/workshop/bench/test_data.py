"""The data sets are what their SOURCE says."""

import hashlib
from importlib import resources

import msgspec
import pytest

from dayzero.workshop.bench.workloads.dataset import read_rows

DATA = resources.files("dayzero.workshop.bench").joinpath("data")
LINES = [line.split()[1:] for line in DATA.joinpath("SOURCE").read_text().splitlines() if line.startswith("file ")]


@pytest.mark.parametrize(("name", "rows", "sha256"), LINES)
def test_a_file_has_the_rows_and_the_bytes_of_its_source(name, rows, sha256):
    assert hashlib.sha256(DATA.joinpath(name).read_bytes()).hexdigest() == sha256
    assert len(read_rows(name, msgspec.Raw)) == int(rows)


def test_every_file_has_a_source_and_a_licence():
    names = {entry.name for entry in DATA.iterdir()} - {"SOURCE"}
    files = {name for name, _, _ in LINES}
    assert names == files | {f"LICENSE.{name.split('.')[0]}" for name in files}


def test_all_of_it_is_small():
    assert sum(len(entry.read_bytes()) for entry in DATA.iterdir()) < 2**20
