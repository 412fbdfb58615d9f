"""A conversation as tokens.

Nothing that a client wrote becomes a token that steers the model; everything else is tokenized exactly as the
reference implementation does it.
"""

from dayzero.errors import RequestError
from dayzero.text.conversation import Conversation, Rendering
from dayzero.text.template import ChatTemplate
from dayzero.text.tokenizer import Tokenizer
from dayzero.text.veil import Veil, alphabet_of


def encode_chat(tokenizer: Tokenizer, template: ChatTemplate, chat: Conversation) -> list[int]:
    """Render and tokenize."""
    return encode_rendering(tokenizer, template.render_veiled(chat, Veil(alphabet_of(tokenizer.markup))))


def encode_rendering(tokenizer: Tokenizer, rendering: Rendering) -> list[int]:
    """The ids of a rendered conversation; no beginning-of-sequence token but the template's own.

    If the markup of the text is that of the veiled text, all of it is the template's, and the text is tokenized as a
    whole. Otherwise a client wrote some: then only what the veiled text shows is markup, and all between is plain.
    """
    template_markup, pieces = tokenizer.split_markup(rendering.veiled)
    ids = tokenizer.encode(rendering.text, special=True)
    if [token for token in ids if tokenizer.is_markup(token)] == template_markup:
        return ids
    if not rendering.veiled:
        raise RequestError(
            "messages contain tokens that are reserved for the chat template", param="messages", hint="remove them"
        )
    veil = Veil(alphabet_of(tokenizer.markup))
    joined = tokenizer.encode(veil.lift(pieces[0]), special=False)
    for token, piece in zip(template_markup, pieces[1:], strict=True):
        joined.append(token)
        joined += tokenizer.encode(veil.lift(piece), special=False)
    return joined
