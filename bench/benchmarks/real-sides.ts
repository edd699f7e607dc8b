/**
 * Defines the sides of the benchmark `real` and what their callers send: Parley, another clone of Parley, a bare proxy, and
 * combined systems.
 */
import { join } from 'node:path'
import { userAgent } from '../../client/src/user-agent.ts'
import type { StoreName } from '../harness/callback-database.ts'
import { startPostgresSide } from '../harness/postgres-sides.ts'
import { type Side, startSide } from '../harness/sides.ts'
import { chatOf, jobOf } from '../load/bodies.ts'
import type { Target } from '../load/generator.ts'
import { withKeys } from '../load/idempotency-keys.ts'
import { PROMPT_PLACEHOLDER } from '../load/prompts.ts'

export type RealSide = 'this' | 'v1' | 'other' | 'bare' | 'combined'

export interface RealSideOptions {
  readonly store: StoreName
  readonly modelPort: number
  readonly callers: number
  readonly against: string | null
}

/** The published client and its `fetch` send these headers. */
const CLIENT_HEADERS = {
  accept: 'application/json',
  'user-agent': userAgent() ?? 'node',
  'accept-language': '*',
  'sec-fetch-mode': 'cors',
  'accept-encoding': 'gzip, deflate',
}
/** OpenAI's client for JavaScript sends these headers, and no Idempotency-Key. */
const OPENAI_HEADERS = {
  accept: 'application/json',
  'user-agent': 'OpenAI/JS 6.9.0',
  'x-stainless-arch': 'x64',
  'x-stainless-lang': 'js',
  'x-stainless-os': 'Linux',
  'x-stainless-package-version': '6.9.0',
  'x-stainless-retry-count': '0',
  'x-stainless-runtime': 'node',
  'x-stainless-runtime-version': process.version,
  'accept-language': '*',
  'sec-fetch-mode': 'cors',
  'accept-encoding': 'gzip, deflate',
  'content-type': 'application/json',
}
/** The size hardly matters, because a prompt replaces each body. */
const BYTES = 1024

export async function startRealSide(name: RealSide, options: RealSideOptions): Promise<Side> {
  const { store, modelPort, callers, against } = options
  if (name === 'bare' || name === 'combined') {
    const side = await startSide(name, { modelPort, bytes: BYTES, connections: callers })
    const body = name === 'bare' ? jobOf(PROMPT_PLACEHOLDER) : chatOf(PROMPT_PLACEHOLDER)
    return { ...side, target: fromClient(side.target, body) }
  }
  const clone = name === 'other' && against !== null && { main: join(against, 'src/main.ts') }
  const shape = { modelPort, bytes: BYTES, ...clone }
  const side = await (store === 'postgres'
    ? startPostgresSide('parley', shape)
    : startSide('parley', { ...shape, connections: callers }))
  if (name === 'v1') {
    const { 'x-api-key': key, ...headers } = side.target.headers
    return {
      ...side,
      target: {
        ...side.target,
        path: '/v1/chat/completions',
        headers: { ...headers, ...OPENAI_HEADERS, authorization: `Bearer ${key}` },
        body: chatOf(PROMPT_PLACEHOLDER),
        expect: { ...side.target.expect, text: '"finish_reason":"stop"' },
      },
    }
  }
  const single = fromClient(side.target, jobOf(PROMPT_PLACEHOLDER))
  const batch = {
    ...single,
    path: '/api/v1/messages/batches',
    body: `[${single.body}]`,
    expect: { ...single.expect, status: 202, text: '"job_ids"' },
  }
  return { ...side, target: { ...single, batch: withKeys(batch) } }
}

function fromClient(target: Target, body: string): Target {
  return withKeys({ ...target, headers: { ...CLIENT_HEADERS, ...target.headers }, body })
}
