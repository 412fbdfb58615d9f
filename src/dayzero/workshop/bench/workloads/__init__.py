"""What a load test asks. A workload maps an index to a session; the same index and seed give the same session.

session        the vocabulary: turns, sessions, the protocol
writer         prompts of a wanted length, as token ids or as words
vary           a salt at the start of each prompt, so that a repeat does not hit the prefix cache
dataset        readers of the data sets that ship with the bench
registry       names -> workloads

humaneval      code completion
mtbench        chat of two turns, the second of which answers to the model's own reply
agentic        one conversation that grows turn by turn
shared_prefix  groups of prompts with a common beginning
synthetic      prompts and outputs of given lengths
jsonl          the user's own file
"""
