/**
 * Runs `parley send`, `job` and `batch`, with a server as another process.
 *
 * ```ts
 * const { place, ask } = await startAsking(t)
 * const ended = await ask(['send', 'Hello'])
 * const program = place.spawn(command(['batch', 'jobs.jsonl']), { env: env })   // to be ended midway
 * ```
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Lifetime } from '../parley.ts'
import {
  type Ended,
  type Installation,
  type InstallationOptions,
  installation,
  MAIN,
  type Program,
  type ProgramOptions,
  type Server,
} from './server-process.ts'

export interface Asking {
  readonly place: Installation
  readonly server: Server
  readonly key: string
  /** Runs `parley …` to its end. The environment contains the server's URL and a key. */
  ask(args: readonly string[], options?: AskOptions): Promise<Ended>
  begin(args: readonly string[], options?: AskOptions): Program
  write(name: string, text: string): Promise<string>
}

type AskOptions = Pick<ProgramOptions, 'env' | 'stdin'>

export async function startAsking(t: Lifetime, options: InstallationOptions = {}): Promise<Asking> {
  const place = await installation(t, options)
  const server = await place.start()
  const key = await server.firstKey()
  const envOf = (env: AskOptions['env']) => ({ PARLEY_URL: server.url, PARLEY_API_KEY: key, ...env })
  return {
    place,
    server,
    key,
    ask: (args, { env, ...options } = {}) => place.parley(args, { ...options, env: envOf(env) }),
    begin(args, { env, stdin = '' } = {}) {
      const program = place.spawn([process.execPath, MAIN, ...args], { env: envOf(env) })
      program.write(stdin)
      return program
    },
    async write(name, text) {
      const file = join(place.folder, name)
      await writeFile(file, text)
      return file
    },
  }
}

export function startAgain({ place, server }: Asking): Promise<Server> {
  return place.start({ env: { PORT: new URL(server.url).port } })
}

export function jobLine(content: string, more: object = {}): string {
  return JSON.stringify({
    model: 'gpt-5-mini',
    response_format: { format: 'text' },
    messages: [{ role: 'user', content }],
    ...more,
  })
}

export interface ResultRow {
  readonly line: number
  readonly custom_id?: string
  readonly job_id: string | null
  readonly status: string
  readonly result: { readonly response_content: unknown } | null
  readonly error: { readonly code: string; readonly message: string } | null
}

export function rowsOf(text: string): readonly ResultRow[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as ResultRow)
}
