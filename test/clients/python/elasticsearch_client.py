"""What an application does with elasticsearch-py 8, step by step."""

from elasticsearch import ApiError, Elasticsearch, helpers

from common import DEAD, INDEX, MAPPINGS, SETTINGS, arguments, document, numbers, say


def failing(step, call):
    """An error reaches the application as the client's exception."""
    try:
        call()
        say(step, error=None)
    except ApiError as e:
        body = e.body if isinstance(e.body, dict) else {}
        error = body.get("error")
        say(step, exception=type(e).__name__, status=e.status_code, error=error["type"] if isinstance(error, dict) else error)


def write(es):
    es.options(ignore_status=404).indices.delete(index=INDEX)
    say("create", index=dict(es.indices.create(index=INDEX, settings=SETTINGS, mappings=MAPPINGS, wait_for_active_shards="all")))
    say("index", result=es.index(index=INDEX, id="0", document=document(0), refresh=True)["result"])
    say("get", document=dict(es.get(index=INDEX, id="0")["_source"]), exists=es.exists(index=INDEX, id="1").body)
    docs = ({"_index": INDEX, "_id": str(n), "_source": document(n)} for n in range(600))
    say("bulk", done=helpers.bulk(es, docs, chunk_size=200, refresh=True))


def read(es):
    query = {"match": {"title": "beta"}}
    for _ in range(5):
        say("search", **numbers(es.search(index=INDEX, query=query, sort="n", size=5)))
    say("search all", **numbers(es.search(query={"term": {"group": "g3"}}, index="client*", sort="n", size=3)))
    say("count", count=es.count(index=INDEX, query=query)["count"])
    found = es.msearch(searches=[
        {"index": INDEX}, {"query": query, "sort": "n", "size": 2},
        {"index": "missing"}, {"query": query},
        {"index": INDEX}, {"size": 0, "aggs": {"groups": {"terms": {"field": "group"}}}},
    ])["responses"]
    say("msearch", first=numbers(found[0]), second=found[1]["status"], groups=found[2]["aggregations"]["groups"]["buckets"])
    say("scan", n=sorted(hit["_source"]["n"] for hit in helpers.scan(es, index=INDEX, query={"query": query}, size=50)))


def page(es):
    pit, after, seen = es.open_point_in_time(index=INDEX, keep_alive="1m")["id"], None, []
    while True:
        found = es.search(pit={"id": pit, "keep_alive": "1m"}, sort="n", size=100, search_after=after)
        if not found["hits"]["hits"]:
            break
        pit, after = found["pit_id"], found["hits"]["hits"][-1]["sort"]
        seen += [hit["_source"]["n"] for hit in found["hits"]["hits"]]
    say("pages", complete=seen == list(range(600)), closed=es.close_point_in_time(id=pit)["succeeded"])
    failing("async search", lambda: es.async_search.submit(index=INDEX, query={"match_all": {}}, size=0))


def fail(es):
    failing("no document", lambda: es.get(index=INDEX, id="nobody"))
    failing("no index", lambda: es.search(index="missing"))
    failing("bad query", lambda: es.search(index=INDEX, query={"nonsense": {}}))
    failing("conflict", lambda: es.create(index=INDEX, id="0", document=document(0)))


def main():
    args = arguments()
    with Elasticsearch(args.url, sniff_on_start=args.sniff) as es:
        write(es)
        read(es)
        page(es)
        fail(es)
    with Elasticsearch(args.url, http_compress=True, sniff_on_start=args.sniff) as es:
        long = {"bool": {"should": [{"term": {"n": n}} for n in range(500)]}}
        say("compressed", **numbers(es.search(index=INDEX, query=long, sort="n", size=400)))
        say("compressed index", result=es.index(index=INDEX, id="z", document=document(700) | {"title": "beta " * 5000}, refresh=True)["result"])
    with Elasticsearch([DEAD, args.url], retry_on_timeout=True, max_retries=3) as es:
        for _ in range(3):
            say("retried", **numbers(es.search(index=INDEX, query={"term": {"n": 7}})))
        say("deleted", **es.indices.delete(index=INDEX))


main()
