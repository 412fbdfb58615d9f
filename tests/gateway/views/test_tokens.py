import pytest

from tests.gateway.stand import END, START, stand


def test_text_becomes_ids() -> None:
    body = stand().post("/tokenize", {"prompt": "hi", "return_token_strs": True}).json()
    assert body == {"count": 2, "max_model_len": 512, "tokens": [104, 105], "token_strs": ["h", "i"]}


def test_messages_become_the_ids_that_chat_would_send() -> None:
    this = stand()
    this.chat("hi <|end|>")
    messages = [{"role": "user", "content": "hi <|end|>"}]
    assert this.post("/tokenize", {"messages": messages}).json()["tokens"] == this.replica.submits[0].prompt


def test_ids_become_text() -> None:
    assert stand().post("/detokenize", {"tokens": [START, 104, END]}).json() == {"prompt": "<|start|>h<|end|>"}


@pytest.mark.parametrize("text", ["", "naïve 漢字 🙂", "<|start|>a<|end|>", "\u0000\n"])
def test_text_survives_the_round_trip(text: str) -> None:
    this = stand()
    tokens = this.post("/tokenize", {"prompt": text}).json()["tokens"]
    assert this.post("/detokenize", {"tokens": tokens}).json()["prompt"] == text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {}),
        ("/tokenize", {"prompt": "a", "messages": []}),
        ("/tokenize", {"messages": []}),
        ("/tokenize", {"prompt": "x" * 100_000}),
        ("/tokenize", {"prompt": 5}),
        ("/detokenize", {}),
        ("/detokenize", {"tokens": [260]}),
        ("/detokenize", {"tokens": [-1]}),
        ("/detokenize", {"tokens": ["a"]}),
        ("/detokenize", {"tokens": [104] * 513}),
    ],
)
def test_a_bad_body_is_a_400(path: str, body: object) -> None:
    assert stand().post(path, body).status_code == 400
