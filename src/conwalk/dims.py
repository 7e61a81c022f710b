"""Names of the dimensions of labelled results, made in one place."""

PROMPT = "prompt"
LAYER = "layer"
LAYER_TO = "layer_to"
HEAD = "head"
TOKEN = "token"
QUERY = "query"
KEY = "key"
