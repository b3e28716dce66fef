"""The rule on words that several checks share."""

import re

# Words that name no actor: a sender, receiver, peer, neighbour, caller or user does something. "HE-AAC" is a codec.
ACTOR = re.compile(
    r"\b(somebody|someone|nobody|anybody|anyone|whoever|whomever|strangers?|he(?!-aac)|him|his|she|hers?)\b", re.I
)
