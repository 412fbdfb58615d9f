"""Prompts as they come in a body, of which there are four spellings."""

from dayzero.errors import RequestError

RawPrompt = str | list[int]  # before it is tokenized


def prompts_of(given: str | list[str | int | list[int]], *, most: int, param: str) -> list[RawPrompt]:
    """One string, the ids of one prompt, or a list of either; RequestError for none and for more than `most`."""
    if isinstance(given, str):
        return [given]
    if not given:
        raise RequestError(f"empty {param}", param=param)
    if all(isinstance(item, int) for item in given):
        return [given]  # type: ignore[list-item]
    if len(given) > most:
        raise RequestError(f"too many {param}s: {len(given)} (limit: {most})", param=param)
    if any(isinstance(item, int) for item in given):
        raise RequestError(f"{param}: give either token ids or a list of {param}s", param=param)
    return given  # type: ignore[return-value]
