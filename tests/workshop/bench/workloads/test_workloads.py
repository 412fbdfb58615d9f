"""Every workload: what all of them promise, and what each one is."""

import numpy as np
import pytest

from dayzero.errors import ConfigError
from dayzero.workshop.bench.workloads.registry import WORKLOADS, WorkloadOptions, find
from dayzero.workshop.bench.workloads.session import AsChat, Chat, Completion
from dayzero.workshop.bench.workloads.writer import TokenIdWriter, WordWriter

IDS = tuple(range(1000, 2000))
WORDS = WordWriter(1.25)


@pytest.fixture
def options(tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "a", "max_tokens": 3}\n\n{"messages": [{"role": "user", "content": "b"}]}\n')
    return WorkloadOptions(file=file)


def build(name, options, *, seed=0, writer=None):
    return find(name).build(options, writer or TokenIdWriter(IDS), seed)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_and_index_give_the_same_session_in_any_order(name, options):
    first, second = build(name, options), build(name, options)
    forward = [first.session(index) for index in range(6)]
    backward = [second.session(index) for index in reversed(range(6))]
    assert forward == backward[::-1]
    assert all(session.turns for session in forward)


@pytest.mark.parametrize("name", WORKLOADS)
def test_indices_far_beyond_the_data_still_have_a_session(name, options):
    assert build(name, options).session(100_003).turns


@pytest.mark.parametrize("name", ["humaneval", "mtbench", "synthetic", "shared-prefix"])
def test_another_seed_gives_other_prompts(name, options):
    assert build(name, options, seed=1).session(0) != build(name, options, seed=2).session(0)


def test_humaneval_asks_each_of_its_problems_once_before_it_repeats(options):
    prompts = [build("humaneval", options).session(index).turns[0].prompt for index in range(165)]
    assert len(set(prompts[:164])) == 164
    assert prompts[164] == prompts[0]
    assert "def has_close_elements(" in "".join(prompts)


def test_mtbench_is_two_user_turns_that_wait_for_the_models_reply(options):
    session = build("mtbench", options).session(5)
    assert [(turn.messages[0]["role"], turn.reply) for turn in session.turns] == [("user", None)] * 2


def test_an_agentic_session_alternates_roles_and_never_ends_on_the_assistant():
    turns = build("agentic", WorkloadOptions(max_turns=100)).session(0).turns
    said = [message["role"] for turn in turns for message in (*turn.messages, {"role": "assistant"})]
    assert said == ["system", *["user", "assistant"] * 30]
    assert len(turns) == 30
    assert all(turn.reply for turn in turns[:-1])


def test_an_agentic_session_can_be_shorter(options):
    assert len(build("agentic", options).session(0).turns) == 12


def test_synthetic_lengths_are_exact_without_spread():
    workload = build("synthetic", WorkloadOptions(input_tokens=50, output_tokens=9))
    (turn,) = workload.session(3).turns
    assert (len(turn.prompt), turn.max_tokens) == (50, 9)
    assert set(turn.prompt) <= set(IDS)


def test_synthetic_lengths_spread_evenly_around_their_mean():
    workload = build("synthetic", WorkloadOptions(input_tokens=100, output_tokens=40, spread=0.5))
    turns = [workload.session(index).turns[0] for index in range(2000)]
    lengths = np.array([(len(turn.prompt), turn.max_tokens) for turn in turns])
    assert lengths.min(axis=0).tolist() == [50, 20]
    assert lengths.max(axis=0).tolist() == [150, 60]
    assert lengths.mean(axis=0) == pytest.approx([100, 40], rel=0.03)


def test_a_shared_prefix_is_equal_within_a_group_and_only_there():
    workload = build("shared-prefix", WorkloadOptions(num_groups=2, prefix_tokens=30, question_tokens=7))
    sessions = [workload.session(index) for index in range(4)]
    prompts = [session.turns[0].prompt for session in sessions]
    assert [session.group for session in sessions] == [0, 1, 0, 1]
    assert all(len(prompt) == 37 for prompt in prompts)
    assert prompts[0][:30] == prompts[2][:30] != prompts[1][:30] == prompts[3][:30]
    assert len({prompt[30:] for prompt in prompts}) == 4


def test_a_shared_prefix_of_words_is_shared_too():
    options = WorkloadOptions(num_groups=1, prefix_tokens=40, question_tokens=10)
    one, two = (build("shared-prefix", options, writer=WORDS).session(index).turns[0].prompt for index in (0, 1))
    assert one.split()[:32] == two.split()[:32]
    assert one != two


def test_words_are_as_many_as_the_tokens_ask_for():
    rng = np.random.default_rng(0)
    assert len(WORDS.write((100, rng)).split()) == 80


def test_text_completions_become_the_users_message_and_token_ids_stay(options):
    turn = AsChat(build("humaneval", options)).session(0).turns[0]
    assert isinstance(turn, Chat)
    assert turn.messages == ({"role": "user", "content": build("humaneval", options).session(0).turns[0].prompt},)
    assert isinstance(AsChat(build("synthetic", options)).session(0).turns[0], Completion)


def test_an_unknown_workload_is_refused_with_those_that_are_known():
    with pytest.raises(ConfigError, match=r"unknown workload: x\nhint: known: humaneval, mtbench"):
        find("x")


@pytest.mark.parametrize("fields", [{"input_tokens": 0}, {"max_turns": 0}, {"spread": 1.5}, {"spread": float("nan")}])
def test_options_out_of_range_are_refused(fields):
    with pytest.raises(ConfigError):
        WorkloadOptions(**fields)


def test_jsonl_without_a_file_is_refused():
    with pytest.raises(ConfigError, match="no file given"):
        build("jsonl", WorkloadOptions())
