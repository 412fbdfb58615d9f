"""HTTP in front of one engine.

app          routes, middleware and what they share, composed
server       a socket, signals and draining
protocol     one connection: what is bounded before and after an application sees it
config       what a gateway is told, and the limits of a request
middleware   what every request passes: identity, errors, keys, bounds
exchange     what one HTTP exchange has come to
errors       what a client is told about any exception
parse        a body to a typed request
fields       the fields common to text APIs, and the sampling parameters that they come to
service      what the views of text APIs share
prompts      the spellings of a prompt in a body
generate     the choices of one request at an engine
embedding    the inputs of one request at an engine, as vectors
stream       token events of one choice to text, log-probs and an end
aside        long work beside the event loop
answer       deltas as server-sent events or as one body
endpoint     which names lead where
admission    how many requests may be in the system
metrics      Prometheus
openapi      the description of all this
views        one file for each API
"""
