"""`dayzero bench`: load for any OpenAI-compatible URL, and what it measured. Imports no engine, no model, no torch.

    workloads/ -> run (arrivals) -> client (sse) -> Timeline -> measures -> report
                                                                         `-> compare (two URLs, in rounds)

workloads  what is asked: sessions of one or more turns, a pure function of an index and a seed
data       small data sets with their source and licence
arrivals   when an open loop sends: pure, seeded
target     where the load goes: the URL, what it serves, which prompts it can take
sse        a stream as it arrived -> its events, decoded after the last byte
timeline   what happened to one request, without its text
client     one turn -> one Timeline
run        the loops: closed by concurrency, open by rate
measures   timelines -> report; the formula of every measure is its docstring, and is printed
goodput    how the limits of goodput are written
rounds     two targets in interleaved rounds
compare    reports of both over the rounds -> ratios and their intervals
report     tables and JSON lines
provenance which machine and which commit a result is from
"""
