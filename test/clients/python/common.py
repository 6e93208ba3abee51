"""What the Python scripts share: their arguments, their data, how they print."""

import argparse
import json

INDEX = "clients"
DEAD = "http://127.0.0.1:1"  # nobody listens there
SETTINGS = {"number_of_shards": 3, "number_of_replicas": 1}
MAPPINGS = {"properties": {"n": {"type": "long"}, "title": {"type": "text"}, "group": {"type": "keyword"}}}
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon"]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--sniff", action="store_true")
    return parser.parse_args()


def document(n):
    return {"n": n, "title": WORDS[n % 5], "group": f"g{n % 7}"}


def say(step, **result):
    """Print what came of a step: one line of JSON."""
    print(json.dumps({"step": step, **result}), flush=True)


def numbers(response):
    """Which documents an answer holds, in their order, and what it counts."""
    return {
        "total": response["hits"]["total"]["value"],
        "n": [hit["_source"]["n"] for hit in response["hits"]["hits"]],
        "shards": dict(response["_shards"]),
    }
