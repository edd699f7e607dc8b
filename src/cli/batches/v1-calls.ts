/** Calls the routes of files and batches below `/v1`, which the published client lacks. */
import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { VERSION } from '../../version.ts'
import { EXIT, type ServerOptions } from '../call/client-command.ts'
import { apiKeyOf, serverUrl } from '../call/connection.ts'
import { CommandError, printable } from '../output.ts'

export interface UploadedFile {
  readonly id: string
  readonly bytes: number
  readonly filename: string
}

export interface Batch {
  readonly id: string
  readonly status: string
  readonly endpoint: string
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
    this.#base = `${serverUrl(options.url).replace(/\/+$/, '')}/v1`
    this.#headers = { authorization: `Bearer ${apiKeyOf(options)}`, 'user-agent': `parley/${VERSION}` }
    this.#signal = signal
  }

  /** Streams the file from the disk, so that it is never in memory as a whole. */
  async upload(file: string): Promise<UploadedFile> {
    const form = new FormData()
    form.append('purpose', 'batch')
    form.append('file', await contentOf(file), file === '-' ? 'batch.jsonl' : basename(file))
    return (await this.#send('/files', { method: 'POST', body: form })).json() as Promise<UploadedFile>
  }

  async deleteFile(id: string): Promise<void> {
    await this.#send(`/files/${id}`, { method: 'DELETE' })
  }

  async findFile(id: string): Promise<UploadedFile> {
    return (await this.#send(`/files/${id}`)).json() as Promise<UploadedFile>
  }

  async content(id: string): Promise<ReadableStream<Uint8Array>> {
    const { body } = await this.#send(`/files/${id}/content`)
    return body ?? new ReadableStream({ start: (controller) => controller.close() })
  }

  async create(batch: object): Promise<Batch> {
    return (await this.#post('/batches', batch)).json() as Promise<Batch>
  }

  async retrieve(id: string): Promise<Batch> {
    return (await this.#send(`/batches/${encodeURIComponent(id)}`)).json() as Promise<Batch>
  }

  async cancel(id: string): Promise<Batch> {
    return (await this.#post(`/batches/${encodeURIComponent(id)}/cancel`, {})).json() as Promise<Batch>
  }

  /** Lists the newest batches first. */
  async list(limit: number): Promise<Batch[]> {
    const found: Batch[] = []
    for (let more = true; more && found.length < limit; ) {
      const last = found.at(-1)
      const query = new URLSearchParams({
        limit: String(Math.min(limit - found.length, MAX_PAGE)),
        ...(last && { after: last.id }),
      })
      const page = (await (await this.#send(`/batches?${query}`)).json()) as Page
      found.push(...page.data)
      more = page.has_more
    }
    return found
  }

  #post(path: string, body: object): Promise<Response> {
    const headers = { 'content-type': 'application/json' }
    return this.#send(path, { method: 'POST', headers, body: JSON.stringify(body) })
  }

  async #send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = { ...this.#headers, ...(init.headers as Record<string, string> | undefined) }
    let response: Response
    try {
      response = await fetch(this.#base + path, { ...init, headers, signal: this.#signal })
    } catch (error) {
      if (this.#signal.aborted) throw error
      const { cause } = error as Error & { cause?: Error }
      const why = cause instanceof Error ? cause.message : (error as Error).message
      throw new CommandError(`Cannot reach ${this.#base}: ${printable(why)}.`, EXIT.unreachable)
    }
    if (response.ok) return response
    throw await errorOf(response, this.#base)
  }
}

async function contentOf(file: string): Promise<Blob> {
  if (file === '-') return new Blob([await buffer(process.stdin)])
  const found = await stat(file).catch(() => null)
  if (found === null) throw new CommandError(`${file} does not exist.`)
  if (!found.isFile()) throw new CommandError(`${file} is not a file.`)
  return openAsBlob(file)
}

async function errorOf(response: Response, base: string): Promise<CommandError> {
  const { status } = response
  const text = await response.text()
  let error: { readonly message?: unknown; readonly code?: unknown } = {}
  try {
    error = (JSON.parse(text) as { error?: typeof error }).error ?? {}
  } catch {}
  if (typeof error.message !== 'string') {
    const message = `${base} responded with ${status}, and not as a Parley server. Check --url, or PARLEY_URL.`
    return new CommandError(message, EXIT.unreachable)
  }
  const isRejected = status === 401 || status === 403 || error.code === 'insufficient_quota'
  const isUnavailable = status === 429 || status >= 500
  const code = isRejected ? EXIT.rejected : isUnavailable ? EXIT.unreachable : EXIT.other
  return new CommandError(printable(error.message), code)
}
