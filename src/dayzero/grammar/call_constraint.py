"""What binds the answers to a request that offers tools. Pure."""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from dayzero.core.constraint import Constraint
from dayzero.grammar.call_grammar import CallGrammar, binding_triggers
from dayzero.grammar.format import Format
from dayzero.grammar.tools import Tool

Mode = Literal["none", "auto", "required", "named"]

_ANY_ARGUMENTS: Mapping[str, object] = {"type": "object"}


def constraint_of_calls(
    format: Format,  # noqa: A002 - what it is called everywhere
    tools: Sequence[Tool],
    *,
    mode: Mode,
    parallel: bool,
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
    that calls begin with is a call then.

    "none": no grammar, and no token that begins a call.

    In all of them the format's turns of others and results of tools are banned, where they are tokens and none of
    `eos_token_ids`.

    parallel    False: one call in an answer
    token_ids   of the format's markers and `forbidden` strings that are one token of the vocabulary
    """
    assert mode != "named" or (len(tools) == 1 and not parallel)
    banned = _ids(format.forbidden, token_ids)
    if mode == "none" or not tools:
        return Constraint(banned=_without((*banned, *_ids(format.triggers, token_ids)), eos_token_ids))
    banned = _without(banned, eos_token_ids)
    if mode != "auto":
        grammar = CallGrammar(format, tools, parallel=parallel, token_ids=token_ids)
        return Constraint(grammar=grammar.calls(starts_in_reasoning=starts_in_reasoning), banned=banned)
    bound = [tool if tool.strict else Tool(tool.name, _ANY_ARGUMENTS) for tool in tools]
    grammar = CallGrammar(format, bound, parallel=parallel, token_ids=token_ids)
    triggers = binding_triggers(format)
    by_token = _ids(triggers, token_ids)
    is_strict = any(tool.strict for tool in tools)
    if is_strict and (format.bare or len(by_token) < len(triggers)):
        return Constraint(grammar=grammar.text_and_calls(starts_in_reasoning=starts_in_reasoning), banned=banned)
    if by_token:
        return Constraint(grammar=grammar.rest(), after_tokens=by_token, repeats=parallel, banned=banned)
    return Constraint(banned=banned)


def _ids(strings: Sequence[str], token_ids: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(token_ids[string] for string in strings if string in token_ids)


def _without(ids: Sequence[int], eos_token_ids: Collection[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(token for token in ids if token not in eos_token_ids))
