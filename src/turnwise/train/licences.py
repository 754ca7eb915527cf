"""Under which terms the public corpora were released, as far as their authors say. A card repeats it."""

from __future__ import annotations

UNKNOWN = "unknown: ask whoever made this corpus"
NOT_STATED = "not stated by its authors; treat as for research only"

# By the beginning of a corpus's file name; the longest match wins.
LICENCES = {
    "cmu_dog": NOT_STATED,
    "commonsense_dialogues": "CC BY-NC 4.0",
    "dailydialog": "CC BY-NC-SA 4.0",
    "dialogre_friends": "non-commercial research; transcripts belong to their owners",
    "dialogrpt_refs": NOT_STATED,
    "dream": "non-commercial research",
    "emorynlp_friends": "annotations Apache-2.0; transcripts belong to their owners",
    "empatheticdialogues": "CC BY-NC 4.0",
    "esconv": "CC BY-NC 4.0",
    "friends_transcripts": "transcripts belong to their owners",
    "image_chat": NOT_STATED,
    "meld": "annotations GPL-3.0; transcripts belong to their owners",
    "msc": NOT_STATED,
    "multiwoz": "MIT",
    "mutual": NOT_STATED,
    "opendialkg": "CC BY-NC 4.0",
    "personachat": NOT_STATED,
    "sgd": "CC BY-SA 4.0",
    "star": NOT_STATED,
    "swda": "CC BY-NC-SA 3.0",
    "synthetic_personachat": "CC BY 4.0",
    "taskmaster4": "CC BY 4.0",
    "topicalchat": "CDLA-Sharing-1.0",
    "twitter_conv": "texts belong to their authors",
    "wizard_of_internet": NOT_STATED,
    "wizard_of_wikipedia": NOT_STATED,
    "anli": "CC BY-NC 4.0",
    "breaking_nli": "CC BY-SA 4.0",
    "rte": NOT_STATED,
    "sick": "CC BY-NC-SA 3.0",
}


def licence_of(corpus: str) -> str:
    """The licence of a corpus.

    >>> licence_of("dailydialog_train")
    'CC BY-NC-SA 4.0'
    """
    named = [name for name in LICENCES if corpus.startswith(name)]
    return LICENCES[max(named, key=len)] if named else UNKNOWN
