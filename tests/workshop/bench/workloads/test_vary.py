from dayzero.workshop.bench.workloads.session import Chat, Completion, Session
from dayzero.workshop.bench.workloads.vary import Varied


class Fixed:
    """The same turn always; sessions 0 and 1 are one group."""

    def __init__(self, *turns):
        self._turns = turns

    def session(self, index):
        return Session(self._turns, group=index // 2)


def varied(turn, *, seed=1, label="A", index=0):
    return Varied(Fixed(turn, turn), seed=seed, label=label).session(index)


def test_text_gets_a_salt_of_seed_label_and_group():
    turn = Completion("def f():", max_tokens=3)
    salted = varied(turn).turns[0]
    assert salted.prompt.endswith("\ndef f():")
    assert salted.max_tokens == 3
    others = [varied(turn, seed=2), varied(turn, label="B"), varied(turn, index=2)]
    assert all(other.turns[0].prompt != salted.prompt for other in others)


def test_sessions_of_one_group_keep_a_common_beginning():
    assert varied(Completion("x"), index=0) == varied(Completion("x"), index=1)


def test_only_the_first_turn_is_salted_because_the_rest_follow_it():
    turn = Chat(({"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}), reply="ok")
    first, second = varied(turn).turns
    assert first.messages[0]["content"].endswith("\nbe brief")
    assert first.messages[1:] == turn.messages[1:]
    assert first.reply == "ok"
    assert second == turn


def test_content_in_parts_gets_a_part_of_its_own():
    parts = [{"type": "text", "text": "hi"}]
    first = varied(Chat(({"role": "user", "content": parts},))).turns[0]
    assert first.messages[0]["content"][1:] == parts
    assert first.messages[0]["content"][0]["text"].startswith("# ")


def test_token_ids_keep_their_length_and_take_their_salt_from_their_own_beginning():
    ids = tuple(range(100, 140))
    prompts = {varied(Completion(ids), label=str(n)).turns[0].prompt for n in range(50)}
    assert len(prompts) > 40
    assert all(prompt[4:] == ids[4:] and set(prompt[:4]) <= set(ids[:16]) for prompt in prompts)


def test_a_prompt_shorter_than_the_salt_keeps_its_length():
    assert varied(Completion((7,))).turns[0].prompt == (7,)
