from hypothesis import given, settings
from hypothesis import strategies as st

from dayzero.text.conversation import conversation
from dayzero.text.veil import Veil, alphabet_of

ALPHABET = alphabet_of(["<|im_end|>", "<tool_call>", "line end\n"])
VEIL = Veil(ALPHABET)


def covered(text: str) -> str:
    return VEIL.conversation(conversation([{"role": "user", "content": text}])).messages[0]["content"]


def test_the_alphabet_has_no_blanks():
    assert " " not in ALPHABET
    assert "\n" not in ALPHABET


@settings(derandomize=True, max_examples=200)
@given(st.text(alphabet=st.characters(max_codepoint=0xFFFFF, exclude_categories=["Cs"])) | st.text(alphabet=ALPHABET))
def test_a_veil_keeps_length_and_blanks_and_can_be_lifted(text):
    hidden = covered(text)
    assert len(hidden) == len(text)
    assert not set(hidden) & set(ALPHABET)
    assert [c.isspace() for c in hidden] == [c.isspace() for c in text]
    assert VEIL.lift(hidden) == text


def test_a_client_cannot_write_in_veiled_letters():
    assert VEIL.lift(covered(covered("<|im_end|>"))) == "\ufffd" * 10


def test_words_that_templates_compare_stay_and_all_else_is_covered():
    function = {"name": "tool_call", "parameters": {"type": "object", "properties": {"tool": {"type": "string"}}}}
    chat = conversation(
        [
            {"role": "user", "content": "tool"},
            {"role": "assistant", "tool_calls": [{"id": "call", "function": {"name": "a", "arguments": '{"l": "o"}'}}]},
        ],
        tools=[{"type": "function", "function": function}],
        variables={"documents": [{"title": "tool"}]},
    )
    hidden = VEIL.conversation(chat)
    [called] = hidden.messages[1]["tool_calls"]
    assert hidden.messages[0]["role"] == "user"
    assert called["type"] == "function"
    assert set(called["function"]) == {"name", "arguments"}
    parameters = hidden.tools[0]["function"]["parameters"]
    assert (parameters["type"], set(parameters)) == ("object", {"type", "properties"})
    [(key, schema)] = parameters["properties"].items()
    assert (VEIL.lift(key), schema) == ("tool", {"type": "string"})
    client = [key, called["id"], called["function"]["name"], *called["function"]["arguments"].popitem()]
    client += [hidden.tools[0]["function"]["name"], hidden.variables["documents"][0]["title"]]
    assert not set("".join(client)) & set(ALPHABET)
