"""A ceiling of memory: read as people write sizes, refused in one line otherwise."""

from __future__ import annotations

import pytest

from miscal.data.checks import LEAST, memory_bytes
from miscal.data.errors import MiscalError
from tests.commands import run


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("400MB", 400 * 10**6),
        ("600M", 600 * 10**6),
        ("600 mb", 600 * 10**6),
        ("1G", 10**9),
        ("1GB", 10**9),
        ("1.5GB", 1_500_000_000),
        ("1GiB", 1 << 30),
        ("0.5 gib", 1 << 29),
        ("2Gi", 2 << 30),
        ("400000KB", 400 * 10**6),
        ("1T", 10**12),
        ("1TiB", 1 << 40),
        ("500000000", 500_000_000),
        ("5e8", 500_000_000),
        (10**9, 10**9),
    ],
)
def test_a_ceiling_is_a_size(text: object, size: int) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize(
    "wrong", ["many", "1XB", "1BB", "1GG", "1IB", "-3GB", "nan", "inf", "", "MB", "1,5GB", "1G2", "1e999", True, None]
)
def test_what_is_no_size_is_refused(wrong: object) -> None:
    with pytest.raises(MiscalError, match="'memory' must be a size of at least 400MB, such as 600MB or 1GB"):
        memory_bytes(wrong)


def test_the_least_ceiling_is_the_one_that_the_message_names() -> None:
    assert memory_bytes("400MB") == LEAST
    for small in ("399MB", "399.99MB", "0", "10MB", LEAST - 1):
        with pytest.raises(MiscalError, match=r"'memory' must be a size of at least 400MB, .*; it is"):
            memory_bytes(small)


def test_the_command_takes_the_least_ceiling_and_refuses_nonsense_in_one_line(tmp_path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("y,p,g\n" + "0,0.25,a\n1,0.75,b\n" * 200)
    roles = ("--outcome", "y", "--probability", "p", "--effort", "quick", "--out", tmp_path / "page.html")
    for memory in ("400MB", "1G"):
        done = run("audit", table, *roles, "--memory", memory)
        assert done.exit_code == 0, done.output
    saying = "must be a size of at least 400MB, such as 600MB or 1GB"
    for memory in ("lots", "1M"):
        done = run("audit", table, *roles, "--memory", memory)
        assert done.exit_code == 2
        assert done.output.strip().splitlines() == [f"miscal: --memory {saying}; it is '{memory}'."]
