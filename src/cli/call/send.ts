/** `parley send`: one conversation to the server, and its answer. */
import type { CreatedJob, Parley, ResponseFormat, SingleJob } from '../../../client/src/index.ts'
import { parseExactly } from '../../http/json-body.ts'
import { readSchema } from '../../json-schema/read-schema.ts'
import { CommandError } from '../command-error.ts'
import { printError, printLine } from '../output.ts'
import { readInput } from '../read-input.ts'
import { printJob, printJson } from './answer.ts'
import { connect } from './connection.ts'
import { EXIT } from './exit-code.ts'
import { interruptible } from './interruptible.ts'
import type { ServerOptions } from './server-options.ts'

export interface SendOptions extends ServerOptions {
  readonly file?: string
  readonly model: string
  readonly system?: string
  readonly schema?: string
  readonly jsonFormat?: true
  readonly timeout?: number
  readonly cacheTtl?: number
  readonly wait: boolean
  readonly json?: true
}

/** Resolves with the exit code. */
export async function send(words: readonly string[], options: SendOptions): Promise<number> {
  const parley = connect(options)
  const job = await jobOf(words, options)
  return options.wait ? sendAndWait(parley, job, options) : sendOnly(parley, job, options)
}

async function sendAndWait(parley: Parley, job: SingleJob, { json }: SendOptions): Promise<number> {
  let jobId: string | null = null
  const ended = await interruptible(
    async (signal) => {
      const created: CreatedJob = await parley.messages.create(job, { signal })
      if (created.status !== 'timeout') return created
      jobId = created.job_id
      printError(`Job ${jobId} takes longer; waiting for its end.`)
      return parley.messages.wait(jobId, { signal })
    },
    () =>
      jobId === null
        ? 'Interrupted. The server may have the job already; then it goes on there.'
        : `Interrupted. The job goes on: parley job ${jobId} --wait`,
  )
  return printJob(ended, json === true)
}

/** As a batch of one, which is answered as soon as the job is stored. */
async function sendOnly(parley: Parley, job: SingleJob, { json }: SendOptions): Promise<number> {
  const [jobId = ''] = await interruptible(
    (signal) => parley.messages.createBatch([job as Omit<SingleJob, 'timeout' | 'callback'>], { signal }),
    () => 'Interrupted. The server may have the job already; then it goes on there.',
  )
  if (json) printJson({ job_id: jobId })
  else printLine(jobId)
  return EXIT.completed
}

async function jobOf(words: readonly string[], options: SendOptions): Promise<SingleJob> {
  const { model, system, timeout, cacheTtl } = options
  const response_format = await formatOf(options)
  const content = await textOf(words, options)
  return {
    model,
    response_format,
    messages: [
      ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
      { role: 'user', content },
    ],
    ...(timeout !== undefined && { timeout }),
    ...(cacheTtl !== undefined && { message_cache_ttl: cacheTtl }),
  }
}

async function textOf(words: readonly string[], { file }: SendOptions): Promise<string> {
  if (words.length > 0 && file !== undefined) {
    throw new CommandError('Give the text either as arguments or by --file, not both.')
  }
  const isStandardInput = words.length === 1 && words[0] === '-'
  if (words.length > 0 && !isStandardInput) return words.join(' ')
  if (file === undefined && !isStandardInput && process.stdin.isTTY) {
    throw new CommandError('There is nothing to send. Give a text, --file FILE, or standard input.')
  }
  return (await readInput(file ?? '-')).toString('utf8')
}

async function formatOf({ schema: file, jsonFormat }: SendOptions): Promise<ResponseFormat> {
  if (file === undefined) return jsonFormat ? { format: 'json' } : { format: 'text' }
  const bytes = await readInput(file)
  const read = readSchema(parsed(bytes, file))
  if (!read.ok) throw new CommandError(`${file}: ${read.path}: ${read.rule}`)
  return { format: 'json', schema: parseExactly(bytes) as Record<string, unknown> }
}

function parsed(bytes: Buffer, file: string): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw new CommandError(`${file} is not JSON: ${(error as Error).message}`)
  }
}
