import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, statSync, watch } from 'node:fs'
import { dirname } from 'node:path'
import test from 'node:test'
import { Client } from 'pg'
import { onFirstUse } from '../support/on-first-use.ts'
import { type Stop, startCluster } from './cluster.ts'

const sharedCluster = onFirstUse(async (t) => {
  const cluster = await startCluster({ settings: { max_connections: 7 } })
  t.after(() => cluster.stop())
  return cluster
})

for (const how of ['fast', 'immediate'] satisfies Stop[]) {
  test(`what was committed outlives a restart that is ${how}`, async () => {
    const cluster = await sharedCluster()
    const [url, pid, log] = [cluster.url(), cluster.pid, cluster.log()]
    await query(`create table kept_${how} (word text)`)
    await query(`insert into kept_${how} values ('durable')`)
    await cluster.restart(how)
    assert.equal(cluster.url(), url)
    assert.notEqual(cluster.pid, pid)
    assert.deepEqual(await query(`select word from kept_${how}`), [{ word: 'durable' }])
    const recovered = cluster.log().slice(log.length).includes('was not properly shut down')
    assert.equal(recovered, how === 'immediate')
  })
}

test('a cluster that is stopped leaves neither process nor folder', async () => {
  const stopped = await startCluster()
  const { pid, folder } = stopped
  assert.ok(runs(pid))
  assert.ok(existsSync(folder))
  await stopped.stop()
  assert.ok(!runs(pid))
  assert.ok(!existsSync(folder))
})

test('a cluster whose process is killed ends, and its folder goes', async (t) => {
  const holder = spawn(process.execPath, ['--input-type=module', '-e', HOLD], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => holder.kill('SIGKILL'))
  const { url, folder } = await saidBy(holder)
  const client = new Client(url)
  client.on('error', () => {})
  await client.connect()
  const disconnected = new Promise<void>((resolve) => client.once('end', resolve))
  const removed = removal(dirname(folder), t.signal)
  holder.kill('SIGKILL')
  await Promise.all([disconnected, removed])
})

test('commits wait for the disk, and settings can be overridden', async () => {
  const show = async (name: string) => Object.values((await query(`show ${name}`))[0] ?? {})[0]
  assert.deepEqual(await Promise.all(['fsync', 'synchronous_commit'].map(show)), ['on', 'on'])
  assert.equal(await show('max_connections'), '7')
})

test('a port in use is reported', async () => {
  const cluster = await sharedCluster()
  await assert.rejects(startCluster({ port: cluster.port }), /could not bind/)
})

test('the server does not run as root', {
  skip: process.getuid?.() !== 0 && 'we are not root',
}, async () => {
  const cluster = await sharedCluster()
  assert.notEqual(statSync(`/proc/${cluster.pid}`).uid, 0)
})

const HOLD = `
  import { startCluster } from '${new URL('cluster.ts', import.meta.url)}'
  const cluster = await startCluster()
  console.log(JSON.stringify({ url: cluster.url(), folder: cluster.folder }))
  setInterval(() => {}, 1000)`

async function saidBy(holder: ChildProcess): Promise<{ url: string; folder: string }> {
  if (!holder.stdout) throw new Error('it has no output')
  const [line] = await once(holder.stdout, 'data')
  return JSON.parse(String(line)) as { url: string; folder: string }
}

async function query(text: string): Promise<object[]> {
  const client = new Client((await sharedCluster()).url())
  await client.connect()
  try {
    return (await client.query<object>(text)).rows
  } finally {
    await client.end()
  }
}

function runs(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function removal(folder: string, signal: AbortSignal): Promise<void> {
  const watcher = watch(dirname(folder))
  try {
    while (existsSync(folder)) await once(watcher, 'change', { signal })
  } finally {
    watcher.close()
  }
}
