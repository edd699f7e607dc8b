import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { type TestContext, test } from 'node:test'
import { createResolver } from './guarded-connect.ts'

const NEVER = new AbortController().signal

interface Zone {
  /** Maps names to records. Names that are not listed do not exist. A listed name may have no records of one type. */
  readonly [name: string]: { readonly a?: readonly string[]; readonly aaaa?: readonly string[] }
}

/**
 * Starts a name server on loopback, which never answers queries for `silent.example`, nor AAAA queries for `half.example`, and
 * returns a resolver for it.
 */
async function start(t: TestContext, systemNames = false) {
  const socket = createSocket('udp4')
  const queries: string[] = []
  const silent = Promise.withResolvers<void>()
  socket.on('message', (query, from) => {
    const { name, type, end } = readQuery(query)
    queries.push(`${name} ${type === 28 ? 'AAAA' : 'A'}`)
    if (name === 'silent.example') {
      silent.resolve()
      return
    }
    if (name === 'half.example' && type === 28) return
    const records = type === 28 ? ZONE[name]?.aaaa : ZONE[name]?.a
    const answers = (records ?? []).map((address) => record(type, address))
    const head = Buffer.from(query.subarray(0, 12))
    head.writeUInt16BE(ZONE[name] === undefined ? 0x8183 : 0x8180, 2)
    head.writeUInt16BE(answers.length, 6)
    head.writeUInt32BE(0, 8)
    socket.send(Buffer.concat([head, query.subarray(12, end), ...answers]), from.port, from.address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  t.after(() => socket.close())
  const resolve = createResolver({ systemNames, servers: [`127.0.0.1:${socket.address().port}`] })
  return { resolve, queries, silent: silent.promise }
}

function readQuery(message: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = message.readUInt8(at); length > 0; length = message.readUInt8(at)) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 }
}

function record(type: number, address: string): Buffer {
  const data =
    type === 28
      ? Buffer.from(address.replaceAll(':', ''), 'hex')
      : Buffer.from(address.split('.').map((octet) => Number(octet)))
  const head = Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length])
  return Buffer.concat([head, data])
}

const ZONE: Zone = {
  'both.example': {
    a: ['93.184.216.34', '127.0.0.1'],
    aaaa: ['26062800022000010000000000000001'],
  },
  'four.example': { a: ['93.184.216.34'] },
  'six.example': { aaaa: ['00000000000000000000000000000001'] },
  'empty.example': {},
  'half.example': { a: ['93.184.216.34'] },
}

test('every A and AAAA record is returned', async (t) => {
  const { resolve, queries } = await start(t)
  const both = await resolve('both.example', NEVER)
  assert.deepEqual([...both].sort(), ['127.0.0.1', '2606:2800:220:1::1', '93.184.216.34'])
  assert.deepEqual(await resolve('four.example', NEVER), ['93.184.216.34'])
  assert.deepEqual(await resolve('six.example', NEVER), ['::1'])
  const ofBoth = queries.filter((query) => query.startsWith('both'))
  assert.deepEqual(ofBoth.sort(), ['both.example A', 'both.example AAAA'])
})

test('a name that has no address or does not exist is an error', async (t) => {
  const { resolve } = await start(t)
  const codes = { 'empty.example': 'ENODATA', 'none.example': 'ENOTFOUND', localhost: 'ENOTFOUND' }
  for (const [name, code] of Object.entries(codes)) await assert.rejects(resolve(name, NEVER), { code })
})

test('names without DNS records are looked up in the system if networks are allowed', async (t) => {
  const { resolve } = await start(t, true)
  // Nearly every hosts file contains this name.
  const found = await resolve('localhost', NEVER)
  assert.ok(found.includes('127.0.0.1') || found.includes('::1'))
  assert.deepEqual(await resolve('four.example', NEVER), ['93.184.216.34'])
})

test('a name server that ignores AAAA does not use up the time for connecting', async (t) => {
  const { resolve, queries } = await start(t)
  assert.deepEqual(await resolve('half.example', NEVER), ['93.184.216.34'])
  assert.deepEqual(queries.toSorted(), ['half.example A', 'half.example AAAA'], 'it is not asked twice')
})

test('a query that is not answered ends as soon as the signal aborts', async (t) => {
  for (const systemNames of [false, true]) {
    const { resolve, silent } = await start(t, systemNames)
    const controller = new AbortController()
    const resolved = resolve('silent.example', controller.signal)
    await silent
    controller.abort(new Error('time is up'))
    await assert.rejects(resolved, { message: 'time is up' })
  }
})
