"""One file per verb: arguments -> call -> print. Nothing is decided here that another caller would want.

main      the verbs, and what an error looks like
serve     the composition root of a server
chat      a conversation in the terminal
generate  one completion
bench     load for any OpenAI-compatible URL
doctor    what this machine has, and what a model would need
progress  bars for downloads and loading
endpoint  what --endpoint says
template  the file that --chat-template names
"""
