"""Names of the dimensions of labelled results, made in one place."""

PROMPT = "prompt"
LAYER = "layer"
HEAD = "head"
TOKEN = "token"
QUERY = "query"
KEY = "key"
