/** Starts a server and watches its event loop during attacks. Makes what the attacks send. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { request } from 'undici'
import type { Lifetime } from '../parley.ts'
import { installation, MAIN, type Server } from './server-process.ts'

const PROBE = fileURLToPath(new URL('./loop-probe.ts', import.meta.url))

export const MESSAGES = '/api/v1/messages'
export const BATCHES = '/api/v1/messages/batches'
export const MIB = 1024 * 1024
/** A batch may be slightly larger, which leaves room for the surrounding fields. */
export const LARGEST = 10 * MIB - 2000

export interface Answered {
  readonly status: number
  readonly retryAfter: string | null
  // biome-ignore lint/suspicious/noExplicitAny: tests inspect answers of every shape, and fail if one is wrong.
  readonly body: any
}

export interface WatchedServer {
  readonly server: Server
  key(account: string, tier: string): Promise<string>
  post(path: string, body: string, key: string, signal?: AbortSignal): Promise<Answered>
  /** Returns the longest time for which the event loop was blocked during the work, in milliseconds of CPU time. */
  held(work: () => Promise<unknown>): Promise<number>
}

export async function startWatched(
  t: Lifetime,
  options: {
    readonly upstream?: string
    readonly settings?: Readonly<Record<string, unknown>>
    readonly databaseUrl?: string
  } = {},
): Promise<WatchedServer> {
  // The cost of rejections is measured, so their responses must not be delayed.
  const limits = { rejections_per_second: 1_000_000 }
  const place = await installation(t, { ...options, settings: { limits, ...options.settings } })
  const file = join(place.folder, 'loop-probe')
  await writeFile(file, '')
  const command = [process.execPath, '--max-semi-space-size=64', '--import', PROBE, MAIN, 'serve']
  const server = await place.startAs(command, { env: { LOOP_PROBE_FILE: file } })
  const post = async (path: string, body: string, key: string, signal?: AbortSignal): Promise<Answered> => {
    const answer = await request(server.url + path, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body,
      ...(signal && { signal }),
    })
    const retryAfter = answer.headers['retry-after']
    return {
      status: answer.statusCode,
      retryAfter: typeof retryAfter === 'string' ? retryAfter : null,
      body: await answer.body.json(),
    }
  }
  return {
    server,
    post,
    key: (account, tier) => place.key(account, tier),
    held: async (work) => {
      const before = (await readFile(file, 'utf8')).length
      await work()
      // When this request has its response, the probe has written its line.
      for (let turn = 0; turn < 3; turn++)
        await request(`${server.url}/healthz`).then(({ body }) => body.dump())
      const holds = (await readFile(file, 'utf8')).slice(before).split('\n')
      return Math.max(0, ...holds.map(Number))
    },
  }
}

/** `calibration` takes this long on an idle core of the machine on which the limits were set. */
const CALIBRATION_MS = 20

/** Returns how many times slower this machine is now, at least 1. Limits of CPU time are multiplied by this number. */
export function slowness(): number {
  const times = [1, 2, 3].map(() => {
    const before = process.threadCpuUsage()
    for (let round = 0; round < 4; round++) JSON.stringify(JSON.parse(CALIBRATION))
    return process.threadCpuUsage(before).user / 1000
  })
  return Math.max(1, Math.min(...times) / CALIBRATION_MS)
}
const CALIBRATION = `[${'{"a":1,"b":["text",null]},'.repeat(20_000)}1]`

export function filled(unit: string, characters: number): string {
  return unit.repeat(Math.floor(characters / unit.length))
}

export function names(characters: number): string {
  const members: string[] = []
  for (let length = 0; length < characters; ) {
    const member = `"k${members.length}":1`
    members.push(member)
    length += member.length + 1
  }
  return `{${members.join(',')}}`
}

export function job(over: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    model: 'gpt-5-mini',
    response_format: { format: 'text' },
    messages: [{ role: 'user', content: 'Hello' }],
    ...over,
  }
}

export function batchOf(count: number, over: (index: number) => Readonly<Record<string, unknown>>): string {
  return JSON.stringify(Array.from({ length: count }, (_, index) => job(over(index))))
}

export function withPayload(payload: string): string {
  const callback = `"callback":{"callback_url":"https://receiver.invalid/","callback_payload":${payload}}`
  return `[${JSON.stringify(job()).slice(0, -1)},${callback}}]`
}

/** The tokenizer takes the longest for letters without a pattern. */
export function randomText(characters: number, seed: number): string {
  let state = seed
  let text = ''
  while (text.length < characters) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    text += state.toString(36)
  }
  return text.slice(0, characters)
}
