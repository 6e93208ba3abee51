// What an application does with @elastic/elasticsearch 8, step by step.
'use strict'

const { Client } = require('@elastic/elasticsearch')
const { index, dead, url, sniff, settings, mappings, document, say, numbers, failing, run } = require('./common.cjs')

const query = { match: { title: 'beta' } }

async function write (client) {
  await client.indices.delete({ index }, { ignore: [404] })
  say('create', await client.indices.create({ index, settings, mappings, wait_for_active_shards: 'all' }))
  say('index', { result: (await client.index({ index, id: '0', document: document(0), refresh: true })).result })
  say('get', { document: (await client.get({ index, id: '0' }))._source, exists: await client.exists({ index, id: '1' }) })
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
    say('search', numbers(await client.search({ index, query, sort: 'n', size: 5 })))
  }
  say('search all', numbers(await client.search({ index: 'client*', query: { term: { group: 'g3' } }, sort: 'n', size: 3 })))
  say('count', { count: (await client.count({ index, query })).count })
  const { responses } = await client.msearch({
    searches: [
      { index }, { query, sort: 'n', size: 2 },
      { index: 'missing' }, { query },
      { index }, { size: 0, aggs: { groups: { terms: { field: 'group' } } } }
    ]
  })
  say('msearch', { first: numbers(responses[0]), second: responses[1].status, groups: responses[2].aggregations.groups.buckets })
  const seen = []
  for await (const doc of client.helpers.scrollDocuments({ index, query, size: 50 })) {
    seen.push(doc.n)
  }
  say('scroll', { n: seen.sort((a, b) => a - b) })
}

async function page (client) {
  let pit = (await client.openPointInTime({ index, keep_alive: '1m' })).id
  let after
  let seen = []
  for (;;) {
    const found = await client.search({ pit: { id: pit, keep_alive: '1m' }, sort: [{ n: 'asc' }], size: 100, search_after: after })
    if (found.hits.hits.length === 0) break
    pit = found.pit_id
    after = found.hits.hits.at(-1).sort
    seen = seen.concat(found.hits.hits.map(hit => hit._source.n))
  }
  say('pages', { complete: seen.length === 600 && seen.every((n, i) => n === i), closed: (await client.closePointInTime({ id: pit })).succeeded })
  await failing('async search', () => client.asyncSearch.submit({ index, size: 0 }))
}

async function fail (client) {
  await failing('no document', () => client.get({ index, id: 'nobody' }))
  await failing('no index', () => client.search({ index: 'missing' }))
  await failing('bad query', () => client.search({ index, query: { nonsense: {} } }))
  await failing('conflict', () => client.create({ index, id: '0', document: document(0) }))
}

run(async () => {
  const client = new Client({ node: url, sniffOnStart: sniff })
  await write(client)
  await read(client)
  await page(client)
  await fail(client)
  await client.close()
  const compressed = new Client({ node: url, sniffOnStart: sniff, compression: true })
  const should = Array.from({ length: 500 }, (_, n) => ({ term: { n } }))
  say('compressed', numbers(await compressed.search({ index, query: { bool: { should } }, sort: 'n', size: 400 })))
  const large = { ...document(700), title: 'beta '.repeat(5000) }
  say('compressed index', { result: (await compressed.index({ index, id: 'z', document: large, refresh: true })).result })
  await compressed.close()
  const retrying = new Client({ nodes: [dead, url], maxRetries: 3 })
  for (let i = 0; i < 3; i++) {
    say('retried', numbers(await retrying.search({ index, query: { term: { n: 7 } } })))
  }
  say('deleted', await retrying.indices.delete({ index }))
  await retrying.close()
})
