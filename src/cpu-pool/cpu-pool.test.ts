import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { after, before, describe, type TestContext, test } from 'node:test'
import type { Worker } from 'node:worker_threads'
import { FakeClock } from '../../test/fake-clock.ts'
import { systemClock } from '../clock.ts'
import { Stop } from '../job/stop.ts'
import { CpuPool, type CpuPoolOptions } from './cpu-pool.ts'
import { TaskFailed } from './pool-thread.ts'

const never = new Stop()
const acme = { account: 'acme', weight: 1 }
const other = { account: 'other', weight: 1 }

/** Threads with this script do what the text of their task tells them. */
const script = new URL('../../test/support/pool-thread-script.ts', import.meta.url)

const OPTIONS: CpuPoolOptions = {
  threads: 1,
  maxRequests: 16,
  heapMb: 256,
  taskCpuMs: 60_000,
  idleMs: 60_000,
  clock: systemClock,
}

function pool(t: TestContext, options: Partial<CpuPoolOptions> = {}): CpuPool {
  const made = new CpuPool({ ...OPTIONS, ...options })
  t.after(() => made.close())
  return made
}

const IDLE = { running: 0, waiting: 0, requests: 0 }
const JUDGED = { verdict: { kind: 'json', start: 0, end: 2 }, textJson: null }

/** Runs a task that takes a thread a moment. */
const judge = (cpu: CpuPool, text = '[]', user = acme, signal = never, formatJson = '{"format":"json"}') =>
  cpu.run('judge answer', { text, formatJson, limits: { maxDepth: 64, steps: 1 } }, user, signal)

describe('a pool with one thread', () => {
  const names: string[] = []
  let cpu: CpuPool
  before(() => {
    cpu = new CpuPool({ ...OPTIONS, onTask: (name) => names.push(name) })
  })
  after(() => cpu.close())

  test('a task runs on a thread and returns its result', async () => {
    names.length = 0
    assert.deepEqual(await judge(cpu), JUDGED)
    const counted = await cpu.run('count tokens', { jsonTexts: ['a\\u0062c'], enough: 9 }, acme, never)
    assert.deepEqual(counted, { tokens: 1, isComplete: true })
    assert.deepEqual(names, ['judge answer', 'count tokens'])
    assert.deepEqual(cpu.state, IDLE)
  })

  test('the bytes of a body are moved to a thread, not copied', async () => {
    const bytes = new Uint8Array(Buffer.from('[]'))
    const limits = { payloadBytes: 1000, schemaBytes: 1000 }
    const task = { bytes, kind: 'batch', maxDepth: 64, maxJobs: 1, limits, fingerprintRoute: null } as const
    assert.equal((await cpu.run('read body', task, acme, never))?.kind, 'wrong length')
    assert.equal(bytes.byteLength, 0)
  })

  test('accounts take turns, however many tasks one of them has waiting', async () => {
    const order: string[] = []
    const run = (user: typeof acme) => judge(cpu, '[]', user).then(() => order.push(user.account))
    const all = [...Array.from({ length: 8 }, () => run(acme)), run(other), run(other)]
    assert.deepEqual(cpu.state, { running: 1, waiting: 9, requests: 0 })
    await Promise.all(all)
    assert.deepEqual(order.slice(0, 5), ['acme', 'other', 'acme', 'other', 'acme'])
  })

  test('a task that fails does not end its thread', async () => {
    const failing = judge(cpu, '[]', acme, never, '{"format":"json","schema":{"type":"nothing"}}')
    await assert.rejects(failing, TaskFailed)
    assert.deepEqual(await judge(cpu), JUDGED)
  })

  test('a task that is stopped resolves with null, whether it waits or runs, and leaves its thread to others', async () => {
    const stop = new Stop()
    const stopped = [judge(cpu, '[]', acme, stop), judge(cpu, '[]', acme, stop)]
    const third = judge(cpu, '[]', other)
    stop.now('lost')
    assert.deepEqual(await Promise.all(stopped), [null, null])
    assert.deepEqual(await third, JUDGED)
    assert.equal(await judge(cpu, '[]', acme, stop), null)
    assert.deepEqual(cpu.state, IDLE)
  })
})

test('as many tasks run at once as there are threads', (t) => {
  const cpu = pool(t, { threads: 2, script })
  for (let task = 0; task < 5; task++) void judge(cpu)
  assert.deepEqual([cpu.state.running, cpu.state.waiting], [2, 3])
})

test('of four threads one is left to accounts that have none', async (t) => {
  const cpu = pool(t, { threads: 4, script })
  const tasks = Array.from({ length: 6 }, () => judge(cpu))
  assert.deepEqual(cpu.state, { running: 3, waiting: 3, requests: 0 })
  tasks.push(judge(cpu, '[]', other))
  assert.deepEqual(cpu.state, { running: 4, waiting: 3, requests: 0 })
  await Promise.all(tasks)
})

test('only so many requests may be in the pool, and a quarter of them of one account', (t) => {
  let rejected = 0
  const cpu = pool(t, { maxRequests: 8, onRejected: () => rejected++ })
  assert.deepEqual([cpu.enter('a'), cpu.enter('a'), cpu.enter('a')], [true, true, false])
  for (const account of ['b', 'b', 'c', 'c', 'd', 'd']) assert.ok(cpu.enter(account))
  assert.equal(cpu.enter('e'), false)
  cpu.leave('a')
  assert.deepEqual([cpu.enter('d'), cpu.enter('e')], [false, true])
  assert.deepEqual([cpu.state.requests, rejected], [8, 3])
})

test('a task that takes more memory than a thread may have fails alone, and the next one gets a new thread', async (t) => {
  const cpu = pool(t, { heapMb: 24, script })
  const first = await judge(cpu, '')
  await assert.rejects(judge(cpu, 'fill'), { outOfMemory: true })
  assert.notDeepEqual(await judge(cpu, ''), first)
})

test('a text with more values than the heap of a thread has room for is not parsed, and its thread continues', async (t) => {
  const cpu = pool(t, { heapMb: 64 })
  const thread = newThread()
  const bytes = () => new Uint8Array(Buffer.from(`[${'{},'.repeat(2_000_000)}{}]`))
  const limits = { payloadBytes: 1000, schemaBytes: 1000 }
  const body = { kind: 'batch', maxDepth: 64, maxJobs: 1, limits, fingerprintRoute: null } as const
  const v1Body = { translation: 'chat', route: '/v1', maxDepth: 64, limits }
  const line = { endpoint: '/v1/chat/completions', maxDepth: 64, limits }
  const tooLarge = { name: 'Error', outOfMemory: true }
  await assert.rejects(cpu.run('read body', { ...body, bytes: bytes() }, acme, never), tooLarge)
  await assert.rejects(cpu.run('read v1 body', { ...v1Body, bytes: bytes() }, acme, never), tooLarge)
  await assert.rejects(cpu.run('read batch line', { ...line, bytes: bytes() }, acme, never), tooLarge)
  await assert.rejects(cpu.run('read completion', { status: 200, body: bytes() }, acme, never), tooLarge)
  await assert.rejects(judge(cpu, `[${'{},'.repeat(2_000_000)}{}]`), tooLarge)
  assert.deepEqual(await judge(cpu), JUDGED)
  assert.ok((await thread).threadId > 0, 'the thread is alive')
})

test('a task that never ends fails once it took its CPU time, and meanwhile others run', async (t) => {
  const cpu = pool(t, { threads: 2, taskCpuMs: 50, script })
  const endless = assert.rejects(judge(cpu, 'loop'), {
    name: 'Error',
    message: /^The task 'judge answer' took more than 50 ms of CPU time/,
  })
  for (let task = 0; task < 3; task++) assert.ok(await judge(cpu, '', other))
  await endless
  assert.deepEqual(cpu.state, IDLE)
  assert.equal((await Promise.all([acme, other].map((user) => judge(cpu, '', user)))).length, 2)
})

test('a thread that has no task for a while ends, with the heap that it kept', async (t) => {
  const clock = new FakeClock()
  const cpu = pool(t, { clock, idleMs: 1000, script })
  const [worker] = await Promise.all([newThread(), judge(cpu, '')])
  clock.advance(999)
  const first = await judge(cpu, '')
  clock.advance(999)
  assert.deepEqual(await judge(cpu, ''), first)
  const exited = once(worker, 'exit')
  clock.advance(1000)
  await exited
  assert.notDeepEqual(await judge(cpu, ''), first)
})

test('a thread that dies while it is idle gets no task', async (t) => {
  const cpu = pool(t, { script })
  const exited = newThread().then((worker) => once(worker, 'exit'))
  const first = await judge(cpu, 'die')
  await exited
  assert.notDeepEqual(await judge(cpu, ''), first)
})

test('on Linux a thread has a lower priority, and the event loop keeps its own', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const cpu = pool(t)
  const nicenessOf = (thread: string) => {
    // The name of the thread, which is the second field, may contain spaces and brackets.
    const stat = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')')).split(' ')[17])
  }
  const lower = () => {
    const own = nicenessOf(`${process.pid}`)
    return readdirSync('/proc/self/task').filter((thread) => nicenessOf(thread) > own).length
  }
  const before = lower()
  await judge(cpu)
  assert.equal(lower(), before + 1)
})

async function newThread(): Promise<Worker> {
  const [worker] = await once(process, 'worker')
  return worker
}
