"""What other servers have a route for and no model here can do: refused, with what to do instead."""

from starlette.types import Receive, Scope, Send

from dayzero.gateway.errors import UnsupportedEndpoint

# Where clients of other servers look for rerankers and cross-encoders.
SCORE_PATHS = ("/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score")


class RefusedView:
    """Answers every request with one error."""

    def __init__(self, message: str, hint: str) -> None:
        self._message = message
        self._hint = hint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive, send
        raise UnsupportedEndpoint(self._message, hint=self._hint)


def no_scores() -> RefusedView:
    """Of reranking and scoring, for which no family has a head."""
    return RefusedView(
        "no model here scores pairs of texts",
        "embed query and documents with /v1/embeddings, and rank the documents by their dot product with the query",
    )
