/** Calls a Parley server in another process, with an API key and connections of its own. */
import { Agent, request } from 'undici'
import { eventually } from '../support/eventually.ts'

export interface Body {
  readonly success: boolean
  readonly message: string
  readonly details?: string
  readonly data?: Data
}

export interface Data {
  readonly status?: string
  readonly job_id?: string
  readonly job_ids?: readonly string[]
  readonly created_at?: number
  readonly result?: { readonly response_content: unknown } | null
  readonly error?: { readonly code: string; readonly message: string } | null
}

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  readonly body: Body
}

export class Caller {
  readonly #url: string
  readonly #key: string
  readonly #agent = new Agent()

  constructor(url: string, key: string) {
    this.#url = url
    this.#key = key
  }

  single(content: string, over: object = {}): Promise<Reply> {
    return this.send('/api/v1/messages', { ...jobOf(content), ...over })
  }

  /** `over` returns additional fields of a job. */
  batch(contents: readonly string[], over: (content: string) => object = () => ({})): Promise<Reply> {
    const jobs = contents.map((content) => ({ ...jobOf(content), ...over(content) }))
    return this.send('/api/v1/messages/batches', jobs)
  }

  read(jobId: string): Promise<Reply> {
    return this.send(`/api/v1/messages/${jobId}`)
  }

  async ended(jobId: string): Promise<Reply> {
    const read = async () => {
      const reply = await this.read(jobId)
      if (reply.status !== 200) throw new Error(`a read of ${jobId} gave ${reply.status}: ${reply.text}`)
      return reply
    }
    return await eventually(read, isFinal)
  }

  async send(path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    const answer = await request(this.#url + path, {
      dispatcher: this.#agent,
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        'x-api-key': this.#key,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await answer.body.text()
    return { status: answer.statusCode, headers: answer.headers, text, body: parsed(text) }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }
}

export function isFinal({ body }: Reply): boolean {
  return body.data?.status === 'completed' || body.data?.status === 'failed'
}

export function idsOf({ body }: Reply): readonly string[] {
  const { job_id: one, job_ids: many } = body.data ?? {}
  return many ?? (one === undefined ? [] : [one])
}

export function jobOf(content: string) {
  return {
    model: 'gpt-5-mini',
    response_format: { format: 'text' },
    messages: [{ role: 'user', content }],
  }
}

function parsed(text: string): Body {
  try {
    return JSON.parse(text) as Body
  } catch {
    return { success: false, message: `not JSON: ${text}` }
  }
}
