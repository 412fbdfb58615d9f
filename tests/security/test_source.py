"""What the source must not contain: ways to run what somebody else wrote, and listeners that nobody asked for."""

import ast
from collections.abc import Iterator
from pathlib import Path

import dayzero

SOURCE = Path(dayzero.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "sqlite3", "telnetlib", "xmlrpc"}
CALLS = {"eval", "exec", "__import__", "os.system", "os.popen", "torch.load", "numpy.load", "np.load", "yaml.load"}
WORDS = ("trust_remote_code", "tcp://", "allow_pickle", "shell=True")


def parsed() -> Iterator[tuple[Path, str, ast.Module]]:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        yield path.relative_to(SOURCE), text, ast.parse(text)


def test_nothing_unpickles_or_evaluates() -> None:
    """CVE-2025-32444, CVE-2025-10164, CVE-2026-3059, CVE-2026-3060, CVE-2026-3989, CVE-2026-7301: pickles that came by
    the network. CVE-2025-9141: `eval` of what a model wrote."""
    assert len(FILES) > 100
    for path, _, tree in parsed():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not {alias.name.split(".")[0] for alias in node.names} & IMPORTS, path
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in IMPORTS, path
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in CALLS, (path, node.lineno)


def test_no_code_comes_with_a_model_and_no_engine_listens_on_a_port() -> None:
    """CVE-2026-22807, CVE-2026-27893, CVE-2025-66448: `auto_map` ran a repository's code. CVE-2025-32444: an open port
    between our own processes."""
    for path, text, _ in parsed():
        for word in WORDS:
            assert word not in text, (path, word)


def test_the_one_listener_is_on_loopback_unless_told_otherwise() -> None:
    """CVE-2025-63389: a service without a key, open to everybody by default."""
    from dayzero.gateway.config import GatewayConfig

    assert GatewayConfig(served_model_name="x").host == "127.0.0.1"
    listening = {str(path) for path, text, _ in parsed() if ".listen(" in text or "start_server" in text}
    assert listening == {"gateway/server.py"}
