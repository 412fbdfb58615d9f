"""How endpoints divide what one server has: requests, tokens of a step, memory."""

from collections.abc import Sequence

from dayzero.errors import ConfigError


def shares(asked: Sequence[int | None], total: int, *, what: str, hint: str, weights: Sequence[int] = ()) -> list[int]:
    """What each gets of `total`: as much as it asks for, and who does not say, a part of what those leave.

    weights   in proportion to which that is divided; none: equally
    Raises ConfigError if they ask for more than there is, or leave nothing for those that do not say.
    """
    given = sum(part or 0 for part in asked)
    silent = [number for number, part in enumerate(asked) if part is None]
    if given > total:
        raise ConfigError(f"the endpoints ask for {given} {what} together (the server has {total})", hint=hint)
    left = total - given
    weight_of = {number: weights[number] if weights else 1 for number in silent}
    whole = sum(weight_of.values())
    found = [left * weight_of[number] // whole if part is None else part for number, part in enumerate(asked)]
    if min(found) < 1:
        raise ConfigError(
            f"the endpoints ask for {given} {what} together, which leaves {left} of {total} for those that do not say",
            hint=hint,
        )
    return found
