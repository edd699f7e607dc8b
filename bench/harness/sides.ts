/** Starts the sides of a comparison, each with all processes that do its work. */
import { fileURLToPath } from 'node:url'
import { chatBody, jobBody } from '../load/bodies.ts'
import type { RunResult, Target } from '../load/generator.ts'
import { withKeys } from '../load/idempotency-keys.ts'
import { Child, startScript } from './child.ts'
import { assertEachSettledOnce, assertThat } from './invariants.ts'
import type { Worked } from './load-run.ts'
import { Parley } from './parley.ts'
import { writtenBytesOf } from './process-figures.ts'
import { freePort, startRedis } from './redis.ts'

export type SideName = 'parley' | 'bare' | 'portkey' | 'bullmq' | 'combined'

const BULLMQ_CONCURRENCY = 256

export type Answered = Pick<RunResult, 'answers' | 'jobIds'>

export interface Side {
  readonly target: Target
  /** The CPU time of these processes counts as this side's. */
  readonly processes: readonly Worked[]
  readonly pid: number
  finish(answered: Answered): Promise<void>
}

export interface SideOptions {
  readonly modelPort: number
  readonly bytes: number
  readonly connections: number
  readonly env?: Readonly<Record<string, string>>
  readonly maxInputTokens?: number
  readonly concurrency?: number
  /** If true, requests have an Idempotency-Key, like those of the published client. */
  readonly keyed?: boolean
  /** The default is this clone's `main.ts`. */
  readonly main?: string
}

export async function startSide(name: SideName, options: SideOptions): Promise<Side> {
  const side = await start(name, options)
  return options.keyed === true ? { ...side, target: withKeys(side.target) } : side
}

function start(name: SideName, options: SideOptions): Promise<Side> {
  switch (name) {
    case 'parley':
      return startParley(options)
    case 'bare':
      return startBare(options)
    case 'portkey':
      return startPortkey(options)
    case 'bullmq':
      return startBullmq(options)
    case 'combined':
      return startCombined(options)
  }
}

async function startParley(shape: SideOptions): Promise<Side> {
  const { modelPort, bytes, env, maxInputTokens, concurrency, main } = shape
  const options = {
    ...(env && { env }),
    ...(maxInputTokens !== undefined && { maxInputTokens }),
    ...(concurrency !== undefined && { concurrency }),
    ...(main !== undefined && { main }),
  }
  const parley = await Parley.start({ modelPort, ...options })
  return {
    target: parley.single(jobBody(bytes)),
    processes: [onDisk(parley.child)],
    pid: parley.child.pid,
    finish: async ({ answers, jobIds }) => {
      await parley.child.stop()
      assertThat(jobIds.length === answers, `${answers} answers held ${jobIds.length} job ids`)
      assertEachSettledOnce(parley.dataFolder.database, jobIds, answers)
      parley.dataFolder.remove()
    },
  }
}

/** The process must write its data itself, not through a database server. */
function onDisk(child: Child): Worked {
  return {
    cpuMs: () => child.cpuMs(),
    rssBytes: () => child.rssBytes(),
    disk: async () => {
      return { writtenBytes: writtenBytesOf(child.pid), walBytes: Number.NaN, syncs: Number.NaN }
    },
  }
}

async function startBare({ modelPort, bytes, connections }: SideOptions): Promise<Side> {
  const script = new URL('../peers/bare-proxy.ts', import.meta.url)
  const settings = { modelPort, connections }
  const { child, ready } = await startScript<{ port: number }>(script, { name: 'bare proxy', settings })
  return {
    target: {
      port: ready.port,
      host: '127.0.0.1',
      path: '/v1/chat/completions',
      headers: { 'content-type': 'application/json' },
      body: jobBody(bytes),
      expect: { status: 200, text: '"finish_reason":"stop"', correlationId: true },
    },
    processes: [child],
    pid: child.pid,
    finish: () => child.stop(),
  }
}

/** Portkey's gateway stores nothing: it has no storage, job IDs, polling, API keys or tiers. */
async function startPortkey({ modelPort, bytes }: SideOptions): Promise<Side> {
  const { child, port } = await startGateway()
  return {
    target: {
      port,
      host: '127.0.0.1',
      path: '/v1/chat/completions',
      headers: {
        'content-type': 'application/json',
        'x-portkey-provider': 'openai',
        'x-portkey-custom-host': `http://127.0.0.1:${modelPort}/v1`,
        authorization: 'Bearer none',
      },
      body: chatBody(bytes),
      expect: { status: 200, text: '"finish_reason":"stop"', correlationId: true },
    },
    processes: [child],
    pid: child.pid,
    finish: () => child.stop(),
  }
}

/** Portkey's gateway has no configured target, so each request names its own. */
export async function startGateway(): Promise<{ child: Child; port: number }> {
  const script = fileURLToPath(
    new URL('../node_modules/@portkey-ai/gateway/build/start-server.js', import.meta.url),
  )
  const port = await freePort()
  const child = new Child({
    name: 'portkey',
    command: process.execPath,
    args: [script, `--port=${port}`, '--headless'],
    env: { TRUSTED_CUSTOM_HOSTS: '127.0.0.1,localhost', NODE_ENV: 'production' },
  })
  await answersOn(port, child)
  return { child, port }
}

async function startBullmq({ modelPort, bytes }: SideOptions): Promise<Side> {
  return startBullmqShell({ modelPort, concurrency: BULLMQ_CONCURRENCY }, jobBody(bytes))
}

async function startCombined({ modelPort, bytes, connections }: SideOptions): Promise<Side> {
  const gateway = await startGateway()
  const settings = { modelPort, gatewayPort: gateway.port, concurrency: connections }
  const side = await startBullmqShell(settings, chatBody(bytes))
  return {
    ...side,
    processes: [...side.processes, gateway.child],
    finish: async (answered) => {
      await side.finish(answered)
      await gateway.child.stop()
    },
  }
}

async function startBullmqShell(shell: object, body: string): Promise<Side> {
  const redis = await startRedis()
  const script = new URL('../peers/bullmq-shell.ts', import.meta.url)
  const settings = { ...shell, redisPort: redis.port }
  const { child, ready } = await startScript<{ port: number }>(script, {
    name: 'BullMQ shell',
    settings,
  })
  return {
    target: {
      port: ready.port,
      host: '127.0.0.1',
      path: '/messages',
      headers: { 'content-type': 'application/json' },
      body,
      expect: { status: 200, text: '"status":"completed"', correlationId: true },
    },
    processes: [child, onDisk(redis.child)],
    pid: child.pid,
    finish: async ({ answers }) => {
      const { count } = await child.ask<{ count: number }>({ kind: 'completed?' }, 'completed')
      assertThat(count === answers, `${answers} answers were given, and ${count} jobs are completed`)
      await child.stop()
      await redis.stop()
    },
  }
}

async function answersOn(port: number, child: Child): Promise<void> {
  const untilMs = performance.now() + 30_000
  while (performance.now() < untilMs && !child.hasEnded) {
    const answered = await fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    )
    if (answered) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`${child.name} does not answer; it printed:\n${child.output}`)
}
