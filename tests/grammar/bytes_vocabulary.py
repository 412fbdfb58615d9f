"""A vocabulary of the 256 bytes and some markers, for grammars to be tried on."""

from collections.abc import Sequence

import llguidance
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

END = "<|end_of_output|>"


class BytesVocabulary:
    """token_ids of the markers, as the grammar of a call wants them."""

    def __init__(self, markers: Sequence[str] = ()) -> None:
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE({character: index for index, character in enumerate(alphabet)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_tokens([AddedToken(token, special=True) for token in (END, *markers)])
        self._tokenizer = tokenizer
        self.token_ids = {marker: tokenizer.token_to_id(marker) for marker in markers}
        self.json = tokenizer.to_str()
        self.size = tokenizer.get_vocab_size()
        self.end = tokenizer.token_to_id(END)
        self._guided = llguidance.LLTokenizer(self.json, n_vocab=self.size, eos_token=self.end)

    def accepts(self, source: str, output: str) -> bool:
        """Whether the output is one whole that the grammar allows."""
        matcher = self._matcher(source)
        ids = self._tokenizer.encode(output, add_special_tokens=False).ids
        return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()

    def num_accepted(self, source: str, output: str) -> int:
        """How many characters from the beginning the grammar allows."""
        ids = self._tokenizer.encode(output, add_special_tokens=False).ids
        count = self._matcher(source).try_consume_tokens(ids)
        return len(self._tokenizer.decode(ids[:count], skip_special_tokens=False))

    def _matcher(self, source: str) -> llguidance.LLMatcher:
        grammar = llguidance.LLMatcher.grammar_from_lark(source)
        is_wrong, messages = llguidance.LLMatcher.validate_grammar_with_warnings(grammar, self._guided)
        assert not is_wrong, (messages, source)
        return llguidance.LLMatcher(self._guided, grammar, log_level=0)
