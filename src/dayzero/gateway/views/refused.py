"""What there is a route for and the model cannot do: refused, with what to do instead."""

from starlette.types import Receive, Scope, Send

from dayzero.gateway.errors import UnsupportedEndpoint

TEXT_PATHS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/responses",
)
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


def no_text() -> RefusedView:
    """Of whatever generates, where an encoder is served."""
    return RefusedView("this model makes embeddings, not text", "use /v1/embeddings")
