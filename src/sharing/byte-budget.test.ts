import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Stop } from '../job/stop.ts'
import {
  answerBytes,
  ByteBudget,
  ByteShare,
  bytesOfJob,
  callbackBytes,
  jobBytes,
  requestBytes,
  SHARES,
  SMALL_BYTES,
  uploadBytes,
  waitingRequestBytes,
} from './byte-budget.ts'

const MIB = 1024 * 1024
const never = new Stop()

/** `granted` lists how each `wait` ended, in order: the account if it got its bytes, and otherwise `not` and the account. */
function start(limit = 64 * MIB) {
  const share = new ByteShare(limit)
  const granted: string[] = []
  const wait = async (account: string, bytes: number, signal = never): Promise<void> => {
    const got = await share.reserve(account, bytes, signal)
    granted.push(got ? account : `not ${account}`)
  }
  const release = async (account: string, bytes: number): Promise<void> => {
    share.release(account, bytes)
    for (let turn = 0; turn < 4; turn++) await Promise.resolve()
  }
  return { share, granted, wait, release }
}

test('an account may hold half of what others leave, so that another always finds room', () => {
  const { share } = start(64 * MIB)
  const untilDenied = (account: string) => {
    let held = 0
    while (share.tryReserve(account, MIB) === 'granted') held += 1
    assert.equal(share.decide(account, MIB), 'over part')
    return held
  }
  assert.equal(untilDenied('acme'), 28)
  assert.equal(untilDenied('other'), 14)
  assert.equal(untilDenied('third'), 7)
  assert.equal(share.tryReserve('fourth', 4 * MIB), 'granted')
})

test('the part of an account grows when others release', () => {
  const { share } = start()
  for (let count = 0; count < 20; count++) share.tryReserve('acme', MIB)
  for (let count = 0; count < 20; count++) share.tryReserve('other', MIB)
  assert.equal(share.tryReserve('other', 3 * MIB), 'over part')
  for (let count = 0; count < 20; count++) share.release('acme', MIB)
  assert.equal(share.tryReserve('other', 3 * MIB), 'granted')
  assert.deepEqual([share.held.total, share.held.of('acme'), share.partOf('other')], [21 * MIB, 0, 28 * MIB])
})

test('an account may hold one large thing beyond its part where there is room', () => {
  const { share } = start()
  assert.equal(share.tryReserve('acme', 40 * MIB), 'granted')
  assert.equal(share.tryReserve('acme', MIB), 'over part')
  assert.equal(share.tryReserve('other', 16 * MIB), 'granted')
  assert.equal(share.tryReserve('third', MIB), 'full')
})

test('a thing larger than the share is held alone, and small things next to it', () => {
  const { share } = start()
  share.tryReserve('other', SMALL_BYTES)
  assert.equal(share.tryReserve('acme', 100 * MIB), 'granted')
  assert.equal(share.tryReserve('other', MIB), 'full')
  assert.equal(share.tryReserve('other', SMALL_BYTES), 'granted')
  assert.equal(share.tryReserve('third', SMALL_BYTES), 'granted')
  assert.equal(share.free, 0)
})

test('small things of one account are bounded by its part, and never take the room of another', () => {
  const { share } = start(8 * MIB)
  let held = 0
  while (share.tryReserve('acme', SMALL_BYTES) === 'granted') held += SMALL_BYTES
  assert.equal(held, 3.5 * MIB)
  assert.equal(share.decide('acme', 1000), 'over part')
  assert.equal(share.tryReserve('other', SMALL_BYTES), 'granted')
  assert.equal(share.tryReserve('other', MIB), 'granted')
})

test('what is freed goes to the waiting account that holds fewest, and within an account in order', async () => {
  const { share, granted, wait, release } = start()
  share.hold('acme', 30 * MIB)
  share.hold('other', 20 * MIB)
  void wait('acme', 10 * MIB)
  void wait('other', 10 * MIB)
  void wait('other', 8 * MIB)
  void wait('third', 20 * MIB)
  assert.deepEqual([share.waiting.total, share.waiting.of('other')], [4, 2])
  await release('acme', 30 * MIB)
  assert.deepEqual(granted, ['acme', 'third'])
  await release('other', 20 * MIB)
  assert.deepEqual(granted, ['acme', 'third', 'other'])
  await release('third', 20 * MIB)
  assert.deepEqual(granted, ['acme', 'third', 'other', 'other'])
  assert.deepEqual([share.held.total, share.waiting.total], [28 * MIB, 0])
})

test('a large request is not overtaken by many smaller ones; small ones pass it', async () => {
  const { share, granted, wait, release } = start()
  share.tryReserve('acme', MIB)
  void wait('other', 100 * MIB)
  assert.equal(share.tryReserve('third', MIB), 'full')
  void wait('third', MIB)
  assert.equal(share.tryReserve('third', SMALL_BYTES), 'granted')
  assert.deepEqual(granted, [])
  await release('acme', MIB)
  assert.deepEqual(granted, ['other'])
  await release('other', 100 * MIB)
  assert.deepEqual(granted, ['other', 'third'])
})

test('accounts that wait for more than their part do not delay another', async () => {
  const { share, granted, wait, release } = start()
  for (let count = 0; count < 28; count++) share.tryReserve('acme', MIB)
  void wait('acme', MIB)
  assert.equal(share.tryReserve('other', 10 * MIB), 'granted')
  assert.deepEqual(granted, [])
  for (let count = 0; count < 7; count++) await release('acme', MIB)
  assert.deepEqual(granted, ['acme'])
})

test('a request whose signal stops leaves the queue, and those behind it continue', async () => {
  const { share, granted, wait } = start()
  const stop = new Stop()
  share.tryReserve('acme', MIB)
  void wait('other', 100 * MIB, stop)
  void wait('third', MIB)
  stop.now('timeout')
  for (let turn = 0; turn < 4; turn++) await Promise.resolve()
  assert.deepEqual(granted, ['not other', 'third'])
  assert.equal(share.reserve('other', 1, stop), false)
  assert.deepEqual([share.waiting.total, share.held.of('other')], [0, 0])
})

test('bytes that shrink make room, and every account that released all is forgotten', async () => {
  const { share, granted, wait, release } = start()
  share.tryReserve('acme', 60 * MIB)
  void wait('other', 40 * MIB)
  share.resize('acme', 60 * MIB, 10 * MIB)
  await Promise.resolve()
  assert.deepEqual(granted, ['other'])
  share.resize('acme', 10 * MIB, 1000)
  await release('acme', 1000)
  await release('other', 40 * MIB)
  assert.deepEqual([share.held.total, share.free], [0, 64 * MIB])
})

test('without a need to wait, a reservation is not a promise', () => {
  const { share } = start()
  assert.equal(share.reserve('acme', 10 * MIB, never), true)
  assert.equal(share.reserve('acme', 40 * MIB, never) instanceof Promise, true)
})

test('the shares are parts of one total, and callbacks may be limited further', () => {
  const budget = new ByteBudget(256 * MIB, 10 * MIB)
  const total = Object.values(SHARES).reduce((sum, part) => sum + part)
  assert.equal(total, 1)
  const { uploads, requests, jobs, answers, callbacks } = budget
  const limits = [uploads, requests, jobs, answers, callbacks].map(({ limit }) => limit / MIB)
  assert.deepEqual(limits, [32, 64, 64, 64, 10])
})

test('random histories: nothing is granted beyond the limit but a large thing alone, and everything ends', async () => {
  let seed = 12_345
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return seed % below
  }
  const { share } = start(8 * MIB)
  const held: [string, number][] = []
  let ended = 0
  let asked = 0
  for (let step = 0; step < 5000; step++) {
    if (random(2) === 0 && held.length > 0) {
      const [account, bytes] = held.splice(random(held.length), 1)[0] ?? ['', 0]
      share.release(account, bytes)
    } else {
      const account = `account ${random(5)}`
      const bytes = random(10) === 0 ? random(12 * MIB) : random(2) === 0 ? random(SMALL_BYTES) : random(MIB)
      asked += 1
      void Promise.resolve(share.reserve(account, bytes, never)).then(() => {
        ended += 1
        held.push([account, bytes])
      })
    }
    for (let turn = 0; turn < 3; turn++) await Promise.resolve()
    const largest = Math.max(0, ...held.map(([, bytes]) => bytes))
    assert.ok(share.held.total <= Math.max(share.limit, largest + share.limit / 8 + SMALL_BYTES))
    const total = held.reduce((sum, [, bytes]) => sum + bytes, 0)
    assert.equal(share.held.total, total)
  }
  while (held.length > 0) {
    const [account, bytes] = held.pop() ?? ['', 0]
    share.release(account, bytes)
    for (let turn = 0; turn < 3; turn++) await Promise.resolve()
  }
  assert.deepEqual([ended, share.held.total, share.waiting.total], [asked, 0, 0])
})

const MEASURE = fileURLToPath(new URL('../../test/support/job-byte-factors.ts', import.meta.url))
const TEXT_BYTES = 8_000_000

const kinds: readonly [name: string, estimate: (textBytes: number) => number][] = [
  ['a body being received', uploadBytes],
  ['a received request', requestBytes],
  ['a waiting request', waitingRequestBytes],
  ['a running job', jobBytes],
  ['a callback being sent', callbackBytes],
  ['an answer being written', answerBytes],
]

test('each estimate of memory is at least what V8 reports for the thing, and at most twice as much', () => {
  const factors = JSON.parse(execFileSync(process.execPath, ['--expose-gc', MEASURE], { encoding: 'utf8' }))
  for (const [name, estimate] of kinds) {
    const measured = factors[name]
    const estimated = estimate(TEXT_BYTES) / TEXT_BYTES
    const found = `${name} takes ${measured}, estimated ${estimated}`
    assert.ok(measured <= estimated * 1.02, found)
    assert.ok(measured >= estimated / 2, found)
  }
})

test('the text of a job is its messages, its response format and its callback', () => {
  const job = { messagesJson: '[{}]', responseFormatJson: '{"a":1}', callbackJson: '{"url":1}' }
  assert.equal(bytesOfJob(job), jobBytes(20))
  assert.equal(bytesOfJob({ ...job, callbackJson: null }), jobBytes(11))
})
