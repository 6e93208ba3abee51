// What the JavaScript scripts share: their arguments, their data, how they print.
'use strict'

const words = ['alpha', 'beta', 'gamma', 'delta', 'epsilon']

exports.index = 'clients'
exports.dead = 'http://127.0.0.1:1' // nobody listens there
exports.url = process.argv[2]
exports.sniff = process.argv.includes('--sniff')
exports.settings = { number_of_shards: 3, number_of_replicas: 1 }
exports.mappings = { properties: { n: { type: 'long' }, title: { type: 'text' }, group: { type: 'keyword' } } }

exports.document = n => ({ n, title: words[n % 5], group: `g${n % 7}` })

// say prints what came of a step: one line of JSON.
exports.say = (step, result) => console.log(JSON.stringify({ step, ...result }))

// numbers is which documents an answer holds, in their order, and what it counts.
exports.numbers = answer => ({
  total: answer.hits.total.value, n: answer.hits.hits.map(hit => hit._source.n), shards: answer._shards
})

// failing runs a call whose error reaches the application as the client's exception.
exports.failing = async (step, call) => {
  try {
    await call()
    exports.say(step, { error: null })
  } catch (e) {
    const error = e.meta?.body?.error
    exports.say(step, { exception: e.name, status: e.statusCode ?? e.meta?.statusCode, error: error?.type ?? error })
  }
}

// run ends the process with an error if the script fails.
exports.run = main => main().catch(e => { console.error(e); process.exit(1) })
