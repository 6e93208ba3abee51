// What an application does with @opensearch-project/opensearch, step by step.
'use strict'

const { Client } = require('@opensearch-project/opensearch')
const { index, dead, url, sniff, settings, mappings, document, say, numbers, failing, run } = require('./common.cjs')

const query = { match: { title: 'beta' } }

async function write (client) {
  await client.indices.delete({ index }, { ignore: [404] })
  say('create', (await client.indices.create({ index, body: { settings, mappings }, wait_for_active_shards: 'all' })).body)
  say('index', { result: (await client.index({ index, id: '0', body: document(0), refresh: true })).body.result })
  say('get', { document: (await client.get({ index, id: '0' })).body._source, exists: (await client.exists({ index, id: '1' })).body })
  const { failed, successful } = await client.helpers.bulk({
    datasource: Array.from({ length: 600 }, (_, n) => document(n)),
    onDocument: doc => ({ index: { _index: index, _id: String(doc.n) } }),
    flushBytes: 10000,
    refreshOnCompletion: true
  })
  say('bulk', { failed, successful })
}

async function read (client) {
  for (let i = 0; i < 5; i++) {
    say('search', numbers((await client.search({ index, body: { query, sort: 'n', size: 5 } })).body))
  }
  const all = { query: { term: { group: 'g3' } }, sort: 'n', size: 3 }
  say('search all', numbers((await client.search({ index: 'client*', body: all })).body))
  say('count', { count: (await client.count({ index, body: { query } })).body.count })
  const { responses } = (await client.msearch({
    body: [
      { index }, { query, sort: 'n', size: 2 },
      { index: 'missing' }, { query },
      { index }, { size: 0, aggs: { groups: { terms: { field: 'group' } } } }
    ]
  })).body
  say('msearch', { first: numbers(responses[0]), second: responses[1].status, groups: responses[2].aggregations.groups.buckets })
  const seen = []
  for await (const doc of client.helpers.scrollDocuments({ index, body: { query }, size: 50 })) {
    seen.push(doc.n)
  }
  say('scroll', { n: seen.sort((a, b) => a - b) })
}

async function page (client) {
  const id = (await client.createPit({ index, keep_alive: '1m' })).body.pit_id
  const body = { pit: { id, keep_alive: '1m' }, sort: [{ n: 'asc' }], size: 100 }
  let seen = []
  for (;;) {
    const { hits } = (await client.search({ body })).body.hits
    if (hits.length === 0) break
    body.search_after = hits.at(-1).sort
    seen = seen.concat(hits.map(hit => hit._source.n))
  }
  const closed = (await client.deletePit({ body: { pit_id: [id] } })).body.pits[0].successful
  say('pages', { complete: seen.length === 600 && seen.every((n, i) => n === i), closed })
  await failing('async search', () => client.transport.request({
    method: 'POST', path: '/_plugins/_asynchronous_search', querystring: { index }, body: { size: 0 }
  }))
}

async function fail (client) {
  await failing('no document', () => client.get({ index, id: 'nobody' }))
  await failing('no index', () => client.search({ index: 'missing' }))
  await failing('bad query', () => client.search({ index, body: { query: { nonsense: {} } } }))
  await failing('conflict', () => client.create({ index, id: '0', body: document(0) }))
}

run(async () => {
  const client = new Client({ node: url, sniffOnStart: sniff })
  await write(client)
  await read(client)
  await page(client)
  await fail(client)
  await client.close()
  const compressed = new Client({ node: url, sniffOnStart: sniff, compression: 'gzip', suggestCompression: true })
  const should = Array.from({ length: 500 }, (_, n) => ({ term: { n } }))
  say('compressed', numbers((await compressed.search({ index, body: { query: { bool: { should } }, sort: 'n', size: 400 } })).body))
  const large = { ...document(700), title: 'beta '.repeat(5000) }
  say('compressed index', { result: (await compressed.index({ index, id: 'z', body: large, refresh: true })).body.result })
  await compressed.close()
  const retrying = new Client({ nodes: [dead, url], maxRetries: 3 })
  for (let i = 0; i < 3; i++) {
    say('retried', numbers((await retrying.search({ index, body: { query: { term: { n: 7 } } } })).body))
  }
  say('deleted', (await retrying.indices.delete({ index })).body)
  await retrying.close()
})
