"""How endpoints divide what one server has: requests, tokens of a step, memory."""

from collections.abc import Sequence

from dayzero.errors import ConfigError


def shares(
    asked: Sequence[int | None],
    total: int,
    *,
    what: str,
    hint: str,
    weights: Sequence[int] = (),
    least: Sequence[int] = (),
) -> list[int]:
    """What each gets of `total`: as much as it asks for, and who does not say, a part of what those leave.

    least     what that is at least; none: 1
    weights   in proportion to which the rest is divided; none: equally
    Raises ConfigError if they ask for more than there is, or leave too little for those that do not say.
    """
    given = sum(part or 0 for part in asked)
    if given > total:
        raise ConfigError(f"the endpoints ask for {given} {what} together (the server has {total})", hint=hint)
    silent = [number for number, part in enumerate(asked) if part is None]
    least_of = {number: least[number] if least else 1 for number in silent}
    weight_of = {number: weights[number] if weights else 1 for number in silent}
    left = total - given - sum(least_of.values())
    if left < 0:
        raise ConfigError(
            f"the endpoints ask for {given} of {total} {what}, and those that do not say need {sum(least_of.values())}",
            hint=hint,
        )
    whole = sum(weight_of.values())
    return [
        least_of[number] + left * weight_of[number] // whole if part is None else part
        for number, part in enumerate(asked)
    ]
