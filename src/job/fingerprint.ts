/** What makes two jobs, or two requests, identical. */
import { hash } from 'node:crypto'
import type { Job } from './job.ts'

/**
 * Equal exactly for jobs of the same account with the same model, response_format and messages: 128 bits of SHA-256 in
 * base64url. The length of each part comes before it, so that different parts never join into the same text.
 */
export function jobFingerprint(
  job: Pick<Job, 'account' | 'model' | 'responseFormatJson' | 'messagesJson'>,
): string {
  return digest([job.account, job.model, job.responseFormatJson, job.messagesJson])
}

/** Identifies the route and body of a request, for Idempotency-Key. */
export function requestFingerprint(route: string, body: unknown): string {
  return digest([route, JSON.stringify(body)])
}

function digest(parts: readonly string[]): string {
  let text = ''
  for (const part of parts) text += `${part.length}:${part}`
  return hash('sha256', text, 'base64url').slice(0, 22)
}
