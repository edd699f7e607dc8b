/**
 * Runs `parley listen` as a process, and makes callbacks for it.
 *
 * ```ts
 * const listener = await startListener(place, ['--secret', secret])
 * const answer = await post(listener.url, signedCallback(secret))
 * await listener.line(/verified/)
 * ```
 */
import { sign } from '../../src/net/signing-secrets.ts'
import { type Installation, MAIN, type Program, type ProgramOptions } from './server-process.ts'

export interface Listener {
  readonly url: string
  readonly program: Program
}

export async function startListener(
  place: Installation,
  args: readonly string[] = [],
  options: ProgramOptions = {},
): Promise<Listener> {
  const program = place.spawn([process.execPath, MAIN, 'listen', '--port', '0', ...args], options)
  const says = /listens for callbacks on (http:\/\/127\.0\.0\.1:\d+)\n/
  const [, url = ''] = await (args.includes('--json') ? program.logged(says) : program.line(says))
  return { url, program }
}

export interface Callback {
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

export interface CallbackOptions {
  readonly id?: string
  readonly ageS?: number
  readonly body?: string
}

export const CALLBACK_BODY =
  '{"status":"completed","job_id":"0198c0de-0000-7000-8000-000000000001","created_at":1795232758,"result":{"response_content":"größer 😀"},"error":null,"callback_payload":{"order":12345678901234567890}}'

export function signedCallback(
  secret: string | readonly string[],
  { id = '0198c0de-0000-7000-8000-000000000001', ageS = 0, body = CALLBACK_BODY }: CallbackOptions = {},
): Callback {
  const timestampS = Math.floor(Date.now() / 1000) - ageS
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(timestampS),
      'webhook-signature': sign([secret].flat(), id, timestampS, body),
    },
  }
}

export async function post(url: string, { body, headers }: Callback): Promise<number> {
  const answer = await fetch(url, { method: 'POST', headers, body })
  await answer.text()
  return answer.status
}
