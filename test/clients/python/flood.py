"""Searches at a fixed rate through one client as it comes: its own retries, its own timeouts."""

import argparse
import json
import threading
import time
from collections import Counter


def status(answer):
    return 206 if answer["_shards"]["failed"] else 200


def searching(engine, url):
    """What sends one search, and returns its status: 0 if there was none, 206 if a part is missing."""
    if engine == "elasticsearch":
        from elasticsearch import ApiError, Elasticsearch, TransportError

        client = Elasticsearch(url)

        def search(number):
            try:
                return status(client.options(opaque_id=f"flood-{number}").search(index="products", size=0))
            except ApiError as e:
                return e.status_code
            except TransportError:
                return 0

        return search
    from opensearchpy import OpenSearch, TransportError

    client = OpenSearch([url])

    def search(number):
        try:
            return status(client.search(index="products", body={"size": 0}, headers={"x-opaque-id": f"flood-{number}"}))
        except TransportError as e:
            return e.status_code if isinstance(e.status_code, int) else 0

    return search


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine")
    parser.add_argument("url")
    parser.add_argument("rate", type=float)
    parser.add_argument("count", type=int)
    args = parser.parse_args()
    search, statuses, took, lock = searching(args.engine, args.url), Counter(), [], threading.Lock()

    def one(number):
        began = time.monotonic()
        status = search(number)
        with lock:
            statuses[status] += 1
            took.append(time.monotonic() - began)

    threads, began = [], time.monotonic()
    for number in range(args.count):
        time.sleep(max(0, began + number / args.rate - time.monotonic()))
        threads.append(threading.Thread(target=one, args=(number,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    print(json.dumps({"statuses": dict(statuses), "longest_s": max(took)}))


main()
