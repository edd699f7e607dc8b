/** What makes two jobs identical, and two requests the same. */
import { hash } from 'node:crypto'
import type { Job } from './job.ts'

/**
 * Equal exactly for jobs of the same account with the same model, response_format and messages: 128 bits of SHA-256 in
 * base64url. Each part is preceded by its length, so that no two sets of parts run together alike.
 */
export function jobFingerprint(
  job: Pick<Job, 'account' | 'model' | 'responseFormat' | 'messagesJson'>,
): string {
  return digest([job.account, job.model, JSON.stringify(job.responseFormat), job.messagesJson])
}

/** Stands for a request's route and body, for Idempotency-Key. */
export function requestFingerprint(route: string, body: unknown): string {
  return digest([route, JSON.stringify(body)])
}

function digest(parts: readonly string[]): string {
  let text = ''
  for (const part of parts) text += `${part.length}:${part}`
  return hash('sha256', text, 'base64url').slice(0, 22)
}
