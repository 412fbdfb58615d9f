import re

from dayzero.workshop.bench import provenance


def test_the_machine_is_told_by_cpu_cores_system_and_python():
    machine = provenance.machine()
    assert machine["cores"] >= 1
    assert all(machine[name] for name in ("cpu", "system", "python"))


def test_the_commit_is_one_or_none():
    commit = provenance.commit()
    assert commit is None or re.fullmatch(r"[0-9a-f]{40,64}", commit)
