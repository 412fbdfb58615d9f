"""What binds the answers of a model whose format is known, and what is wanted of others. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import msgspec

from dayzero.core.constraint import Constraint
from dayzero.grammar.call_grammar import CallGrammar, binding_triggers, grammar_for
from dayzero.grammar.format import Format
from dayzero.grammar.lark import Lark
from dayzero.grammar.shapes.messages import Messages
from dayzero.grammar.tools import ANY_ARGUMENTS, CallMode, Tool
from dayzero.grammar.void import without_void
from dayzero.grammar.wanted import Wanted


def plain_constraint(wanted: Wanted) -> Constraint:
    """Of outputs that are text, without reasoning and calls."""
    lark = Lark({})
    return Constraint(grammar=lark.source(wanted.body(lark)))


def own_turn_constraint(
    format: Format,  # noqa: A002
    *,
    token_ids: Mapping[str, int],
    eos_token_ids: Collection[int],
) -> Constraint:
    """Of any answer: it is the model's own turn, and has neither turns of others nor results of tools.

    Their markers are banned, where they are tokens and none of `eos_token_ids`. Where outputs are messages with roles,
    the role is always the model's.
    """
    banned = _without(_ids(format.forbidden, token_ids), eos_token_ids)
    if not isinstance(format.shape, Messages) or format.shape.start not in token_ids:
        return Constraint(banned=banned)
    start = token_ids[format.shape.start]
    return Constraint(grammar='start: "assistant"', after_tokens=(start,), repeats=True, banned=banned)


def answer_constraint(
    format: Format,  # noqa: A002 - what it is called everywhere
    tools: Sequence[Tool],
    *,
    mode: CallMode,
    parallel: bool,
    wanted: Wanted | None = None,
    starts_in_reasoning: bool,
    token_ids: Mapping[str, int],
    eos_token_ids: Collection[int],
) -> Constraint:
    """The constraint of a request's answers; its grammar is not known to compile yet.

    "required" and "named": an answer is one call or more, of arguments that fit their tool's schema, behind what the
    model thinks, without text beside them. "named" wants the one tool alone, and one call of it.

    "auto": an answer is free, and what begins as a call goes on as a call of an offered tool: of arguments that fit its
    schema if it is `strict`, of any object otherwise. Where a token begins calls, the grammar binds from that on.
    Otherwise it binds the whole answer, and only if a tool is strict: an answer that begins with the brace or bracket
    that calls begin with is a call then. Nothing binds what follows a trigger that stands within what another begins.

    "none": no token that begins a call.

    `wanted`: where an answer is no call, it is that and no more, behind what the model thinks.

    All of them are the model's own turn alone: see `own_turn_constraint`.

    parallel    False: one call in an answer
    token_ids   of the format's markers and `forbidden` strings that are one token of the vocabulary
    """
    assert mode != "named" or (len(tools) == 1 and not parallel)
    roles = own_turn_constraint(format, token_ids=token_ids, eos_token_ids=eos_token_ids)
    banned = roles.banned
    marks = {mark: token_ids[mark] for mark in format.markers if mark in token_ids}
    if mode == "none" or not tools:
        banned = _without((*banned, *_ids(format.begins, token_ids)), eos_token_ids)
        if wanted is None:
            return msgspec.structs.replace(roles, banned=banned)
        alone = grammar_for(format, (), parallel=parallel, token_ids=marks, eos_token_ids=eos_token_ids)
        bound_alone = alone.wanted_or_calls(wanted, starts_in_reasoning=starts_in_reasoning)
        return Constraint(grammar=bound_alone, banned=banned)
    is_strict = any(tool.strict for tool in tools)
    bound = [
        replace(one, parameters=without_void(one.parameters) if mode != "auto" or one.strict else ANY_ARGUMENTS)
        for one in tools
    ]
    grammar = grammar_for(format, bound, parallel=parallel, token_ids=marks, eos_token_ids=eos_token_ids)
    if mode != "auto":
        return Constraint(grammar=grammar.calls(starts_in_reasoning=starts_in_reasoning), banned=banned)
    if wanted is not None:
        either = grammar.wanted_or_calls(wanted, starts_in_reasoning=starts_in_reasoning)
        return Constraint(grammar=either, banned=banned)
    triggers = binding_triggers(format)
    by_token = _ids(triggers, token_ids)
    if is_strict and (format.bare or not triggers or len(by_token) < len(triggers)):
        return Constraint(grammar=grammar.text_and_calls(starts_in_reasoning=starts_in_reasoning), banned=banned)
    if by_token:
        rest = CallGrammar(format, bound, parallel=parallel, token_ids=marks).rest()
        return Constraint(grammar=rest, after_tokens=by_token, repeats=parallel, banned=banned)
    return roles


def _ids(strings: Sequence[str], token_ids: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(token_ids[string] for string in strings if string in token_ids)


def _without(ids: Sequence[int], eos_token_ids: Collection[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(token for token in ids if token not in eos_token_ids))
