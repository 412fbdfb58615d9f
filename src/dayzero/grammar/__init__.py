"""What shape an output has: grammars that bind it while it is drawn, and the one parser that reads it afterwards.

A tool format is one record (`grammar.formats`) of which the parser, the grammar of a call and the check of a chat
template are made. Knows no tokenizer, no HTTP and no tensors.
"""
