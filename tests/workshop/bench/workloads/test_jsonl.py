import pytest

from dayzero.errors import ConfigError
from dayzero.workshop.bench.workloads.jsonl import JsonLines, read_turns
from dayzero.workshop.bench.workloads.session import Chat, Completion


def written(tmp_path, data):
    path = tmp_path / "prompts.jsonl"
    path.write_bytes(data)
    return path


def test_prompts_token_ids_and_messages_are_read(tmp_path):
    path = written(
        tmp_path,
        b'{"prompt": "a", "max_tokens": 3, "other": 1}\n'
        b'\n{"prompt": [1, 2]}\r\n'
        b'{"messages": [{"role": "user", "content": "b"}]}',
    )
    turns = [Completion("a", 3), Completion((1, 2)), Chat(({"role": "user", "content": "b"},))]
    assert read_turns(path) == turns
    assert [JsonLines(path).session(index).turns[0] for index in range(4)] == [*turns, turns[0]]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"3",
        b"\xff",
        b"{}",
        b'{"prompt": "secret", "messages": []}',
        b'{"prompt": ""}',
        b'{"prompt": []}',
        b'{"prompt": [-1]}',
        b'{"messages": []}',
        b'{"messages": [{"content": "secret"}]}',
        b'{"prompt": "secret", "max_tokens": 0}',
    ],
)
def test_a_malformed_line_is_refused_by_its_number_and_not_quoted(tmp_path, line):
    with pytest.raises(ConfigError, match="line 3") as refused:
        read_turns(written(tmp_path, b'{"prompt": "a"}\n\n' + line + b"\n"))
    assert "secret" not in str(refused.value)


def test_an_empty_or_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="has no requests"):
        read_turns(written(tmp_path, b"\n"))
    with pytest.raises(ConfigError, match="cannot read"):
        read_turns(tmp_path / "missing.jsonl")
