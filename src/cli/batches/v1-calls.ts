/** Calls the routes of files and batches below `/v1`, which the published client does not have. */
import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { isObject, type JsonObject, parseIfJson } from '../../json-object.ts'
import { VERSION } from '../../version.ts'
import { apiKeyOf, connect, serverUrl } from '../call/connection.ts'
import { CommandError, printable } from '../input-output.ts'
import { EXIT, type ServerOptions } from '../options.ts'

export interface UploadedFile {
  readonly id: string
  readonly bytes: number
  readonly filename: string
}

export interface Batch {
  readonly id: string
  readonly status: string
  readonly endpoint: string
  readonly input_file_id: string
  readonly created_at: number
  readonly in_progress_at?: number
  readonly expires_at: number
  readonly output_file_id?: string
  readonly error_file_id?: string
  readonly errors?: { readonly data: readonly Problem[] }
  readonly request_counts: { readonly total: number; readonly completed: number; readonly failed: number }
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number }
}

export interface Problem {
  readonly code: string
  readonly message: string
  readonly line: number | null
}

interface Page {
  readonly data: readonly Batch[]
  readonly has_more: boolean
}

const MAX_PAGE = 100

export class V1Calls {
  readonly #base: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #signal: AbortSignal

  constructor(options: ServerOptions, signal: AbortSignal) {
    // `connect` checks the URL and the key. Without this check, an error of `fetch` could print the key.
    connect(options)
    this.#base = `${serverUrl(options.url).replace(/\/+$/, '')}/v1`
    this.#headers = { authorization: `Bearer ${apiKeyOf(options)}`, 'user-agent': `parley/${VERSION}` }
    this.#signal = signal
  }

  /** Streams the file from the disk, so that the whole file is never in memory. */
  async upload(file: string): Promise<UploadedFile> {
    const form = new FormData()
    form.append('purpose', 'batch')
    form.append('file', await contentOf(file), file === '-' ? 'batch.jsonl' : basename(file))
    return this.#object('file', '/files', { method: 'POST', body: form })
  }

  async deleteFile(id: string): Promise<void> {
    await this.#send(`/files/${id}`, { method: 'DELETE' })
  }

  async findFile(id: string): Promise<UploadedFile> {
    return this.#object('file', `/files/${id}`)
  }

  async *content(id: string): AsyncGenerator<Uint8Array, void, undefined> {
    const { body } = await this.#send(`/files/${id}/content`)
    if (body === null) return
    try {
      yield* body
    } catch (error) {
      throw this.#brokenBy(error)
    }
  }

  create(batch: object): Promise<Batch> {
    return this.#post('/batches', batch)
  }

  retrieve(id: string): Promise<Batch> {
    return this.#object('batch', `/batches/${encodeURIComponent(id)}`)
  }

  cancel(id: string): Promise<Batch> {
    return this.#post(`/batches/${encodeURIComponent(id)}/cancel`, {})
  }

  async list(limit: number): Promise<Batch[]> {
    const found: Batch[] = []
    for (let more = true; more && found.length < limit; ) {
      const last = found.at(-1)
      const query = new URLSearchParams({
        limit: String(Math.min(limit - found.length, MAX_PAGE)),
        ...(last && { after: last.id }),
      })
      const page: Page = await this.#object('list', `/batches?${query}`)
      found.push(...page.data)
      more = page.has_more
    }
    return found
  }

  #post(path: string, body: object): Promise<Batch> {
    const headers = { 'content-type': 'application/json' }
    return this.#object('batch', path, { method: 'POST', headers, body: JSON.stringify(body) })
  }

  /** Rejects if the response's field `object` does not have this value, because it is then not from a Parley server. */
  async #object<T>(kind: 'file' | 'batch' | 'list', path: string, init?: RequestInit): Promise<T> {
    const response = await this.#send(path, init)
    const found = parsed(await this.#textOf(response))
    if (found?.object !== kind) throw notParley(this.#base, response.status)
    return found as T
  }

  async #send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { ...this.#headers, ...(init.headers as Record<string, string> | undefined) }
    let response: Response
    try {
      response = await fetch(this.#base + path, { ...init, headers, signal: this.#signal })
    } catch (error) {
      if (this.#signal.aborted) throw error
      throw new CommandError(`Cannot reach ${this.#base}: ${printable(reasonOf(error))}.`, EXIT.unreachable)
    }
    if (response.ok) return response
    throw errorOf(response.status, await this.#textOf(response), this.#base)
  }

  async #textOf(response: Response): Promise<string> {
    try {
      return await response.text()
    } catch (error) {
      throw this.#brokenBy(error)
    }
  }

  #brokenBy(error: unknown): unknown {
    if (this.#signal.aborted) return error
    const why = printable(reasonOf(error))
    return new CommandError(`The connection to ${this.#base} broke: ${why}.`, EXIT.unreachable)
  }
}

/** `fetch` puts the reason of a failure into `cause`. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error
  return cause instanceof Error && cause.message !== '' ? cause.message : message
}

function parsed(text: string): JsonObject | null {
  const value = parseIfJson(text)
  return isObject(value) ? value : null
}

function notParley(base: string, status: number): CommandError {
  const message = `${base} responded with ${status}, and not as a Parley server. Check --url, or PARLEY_URL.`
  return new CommandError(message, EXIT.unreachable)
}

async function contentOf(file: string): Promise<Blob> {
  if (file === '-') return new Blob([await buffer(process.stdin)])
  const found = await stat(file).catch(() => null)
  if (found === null) throw new CommandError(`${file} does not exist.`)
  if (!found.isFile()) throw new CommandError(`${file} is not a file.`)
  return openAsBlob(file)
}

function errorOf(status: number, text: string, base: string): CommandError {
  const error = parsed(text)?.error
  if (!isObject(error) || typeof error.message !== 'string') return notParley(base, status)
  const isRejected = status === 401 || status === 403 || error.code === 'insufficient_quota'
  const isUnavailable = status === 429 || status >= 500
  const code = isRejected ? EXIT.rejected : isUnavailable ? EXIT.unreachable : EXIT.other
  return new CommandError(printable(error.message), code)
}
