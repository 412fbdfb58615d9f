from pathlib import Path

from dayzero.engine.machine import ASSUMED_FREE_BYTES, machine

GIB = 2**30


def test_this_machine_has_cores_and_memory() -> None:
    here = machine()
    assert here.cores >= 1
    assert here.free_bytes > 0


def test_free_memory_is_what_the_system_has_available(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:       16777216 kB\nMemAvailable:    4194304 kB\n")
    assert machine(proc=tmp_path, cgroup=tmp_path).free_bytes == 4 * GIB


def test_a_control_group_may_have_less_and_its_cached_files_count_as_free(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemAvailable:    4194304 kB\n")
    (tmp_path / "memory.max").write_text(f"{3 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{2 * GIB}\n")
    assert machine(proc=tmp_path, cgroup=tmp_path).free_bytes == GIB
    (tmp_path / "memory.stat").write_text(f"anon 5\ninactive_file {GIB // 2}\nactive_file 7\n")
    assert machine(proc=tmp_path, cgroup=tmp_path).free_bytes == GIB + GIB // 2


def test_a_control_group_without_a_limit_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5\n")
    assert machine(proc=tmp_path, cgroup=tmp_path).free_bytes == ASSUMED_FREE_BYTES
