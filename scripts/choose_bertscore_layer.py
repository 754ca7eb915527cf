"""Choose BERTScore's layer on training dialogues: `python scripts/choose_bertscore_layer.py --data DIR --models PACK`.

As choose_blend.py does for RUBER, and no rating is looked at: where several people answered the same, one answer is the
reference, and a layer is the better the more often it finds another one closer to it than an answer to something else.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from choose_blend import print_preferences


def main() -> None:
    """Compare all layers of the encoder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", help="a pack's folder; the bundled pack when left out")
    parser.add_argument("--contexts", type=int, default=600)
    parser.add_argument("--layers", type=int, default=6, help="how many layers the encoder has")
    args = parser.parse_args()
    requests = [f"bertscore[layer={layer}]" for layer in range(args.layers + 1)]
    print_preferences(requests, args.data, args.contexts, args.models)


if __name__ == "__main__":
    main()
