from dayzero.grammar.parts import CallArguments, CallEnded, CallStarted, Reasoning, Text, joined


def test_neighbours_of_one_kind_become_one_and_others_stay_apart() -> None:
    parts = [Text("a"), Text("b"), Reasoning("c"), Reasoning("d"), Text("e")]
    assert joined(parts) == [Text("ab"), Reasoning("cd"), Text("e")]


def test_arguments_are_joined_within_a_call_only() -> None:
    first = [CallStarted(0, "f"), CallArguments(0, "{"), CallArguments(0, "}"), CallEnded(0, is_complete=True)]
    second = [CallStarted(1, "f"), CallArguments(1, "{}"), CallEnded(1, is_complete=True)]
    assert joined([*first, *second]) == [first[0], CallArguments(0, "{}"), first[3], *second]


def test_stretches_of_nothing_are_left_out_and_part_nothing() -> None:
    parts = [Reasoning("a"), Text(""), Reasoning(""), Reasoning("b"), CallArguments(0, ""), Text("")]
    assert joined(parts) == [Reasoning("ab")]
