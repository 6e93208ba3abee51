"""What an application does with opensearch-py, step by step."""

from opensearchpy import OpenSearch, TransportError, helpers

from common import DEAD, INDEX, MAPPINGS, SETTINGS, arguments, document, numbers, say


def failing(step, call):
    """An error reaches the application as the client's exception."""
    try:
        call()
        say(step, error=None)
    except TransportError as e:
        say(step, exception=type(e).__name__, status=e.status_code, error=e.error)


def write(client):
    client.indices.delete(index=INDEX, ignore=404)
    say("create", index=client.indices.create(
        index=INDEX, body={"settings": SETTINGS, "mappings": MAPPINGS}, params={"wait_for_active_shards": "all"}))
    say("index", result=client.index(index=INDEX, id="0", body=document(0), params={"refresh": "true"})["result"])
    say("get", document=client.get(index=INDEX, id="0")["_source"], exists=client.exists(index=INDEX, id="1"))
    docs = ({"_index": INDEX, "_id": str(n), "_source": document(n)} for n in range(600))
    say("bulk", done=helpers.bulk(client, docs, chunk_size=200, refresh=True))


def read(client):
    query = {"match": {"title": "beta"}}
    for _ in range(5):
        say("search", **numbers(client.search(index=INDEX, body={"query": query, "sort": "n", "size": 5})))
    body = {"query": {"term": {"group": "g3"}}, "sort": "n", "size": 3}
    say("search all", **numbers(client.search(index="client*", body=body)))
    say("count", count=client.count(index=INDEX, body={"query": query})["count"])
    found = client.msearch(body=[
        {"index": INDEX}, {"query": query, "sort": "n", "size": 2},
        {"index": "missing"}, {"query": query},
        {"index": INDEX}, {"size": 0, "aggs": {"groups": {"terms": {"field": "group"}}}},
    ])["responses"]
    say("msearch", first=numbers(found[0]), second=found[1]["status"], groups=found[2]["aggregations"]["groups"]["buckets"])
    say("scan", n=sorted(hit["_source"]["n"] for hit in helpers.scan(client, index=INDEX, query={"query": query}, size=50)))


def page(client):
    pit = client.create_pit(index=INDEX, params={"keep_alive": "1m"})["pit_id"]
    body, seen = {"pit": {"id": pit, "keep_alive": "1m"}, "sort": [{"n": "asc"}], "size": 100}, []
    while True:
        found = client.search(body=body)["hits"]["hits"]
        if not found:
            break
        body["search_after"] = found[-1]["sort"]
        seen += [hit["_source"]["n"] for hit in found]
    say("pages", complete=seen == list(range(600)), closed=client.delete_pit(body={"pit_id": [pit]})["pits"][0]["successful"])
    failing("async search", lambda: client.transport.perform_request(
        "POST", "/_plugins/_asynchronous_search", params={"index": INDEX}, body={"size": 0}))


def fail(client):
    failing("no document", lambda: client.get(index=INDEX, id="nobody"))
    failing("no index", lambda: client.search(index="missing"))
    failing("bad query", lambda: client.search(index=INDEX, body={"query": {"nonsense": {}}}))
    failing("conflict", lambda: client.create(index=INDEX, id="0", body=document(0)))


def main():
    args = arguments()
    client = OpenSearch([args.url], sniff_on_start=args.sniff)
    write(client)
    read(client)
    page(client)
    fail(client)
    client.close()
    client = OpenSearch([args.url], http_compress=True, sniff_on_start=args.sniff)
    long = {"query": {"bool": {"should": [{"term": {"n": n}} for n in range(500)]}}, "sort": "n", "size": 400}
    say("compressed", **numbers(client.search(index=INDEX, body=long)))
    large = document(700) | {"title": "beta " * 5000}
    say("compressed index", result=client.index(index=INDEX, id="z", body=large, params={"refresh": "true"})["result"])
    client.close()
    client = OpenSearch([DEAD, args.url], max_retries=3, retry_on_timeout=True)
    for _ in range(3):
        say("retried", **numbers(client.search(index=INDEX, body={"query": {"term": {"n": 7}}})))
    say("deleted", **client.indices.delete(index=INDEX))
    client.close()


main()
