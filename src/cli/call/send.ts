/** `parley send` sends one message to a server and prints the answer. */
import type { CreatedJob, Options, Parley, ResponseFormat, SingleJob } from '../../../client/src/index.ts'
import { parseExactly } from '../../json-text/read-json.ts'
import { CommandError, printError, printLine, readInput } from '../input-output.ts'
import { EXIT, type ServerOptions } from '../options.ts'
import { connect, interruptible } from './connection.ts'
import { printJob, printJson } from './job.ts'

export interface SendOptions extends ServerOptions {
  readonly file?: string
  readonly model: string
  readonly system?: string
  readonly schema?: string
  readonly jsonFormat?: true
  readonly timeout?: number
  readonly cacheTtl?: number
  readonly priority?: 'high' | 'normal' | 'low'
  readonly completeWithin?: number
  /** The options are JSON text. */
  readonly options?: string
  readonly metadata?: Readonly<Record<string, string>>
  readonly wait: boolean
  readonly json?: true
}

const INTERRUPTED =
  'Interrupted. The server may have received the job already; in that case the job continues there.'

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
      printError(`Job ${jobId} is still running. Waiting until it has finished.`)
      return parley.messages.wait(jobId, { signal })
    },
    () =>
      jobId === null
        ? INTERRUPTED
        : `Interrupted. The job continues on the server. To wait for it: parley job ${jobId} --wait`,
  )
  return printJob(ended, json === true)
}

/** The job is sent as a batch of one, because the server responds to a batch without waiting for answers. */
async function sendOnly(parley: Parley, job: SingleJob, { json }: SendOptions): Promise<number> {
  const [jobId = ''] = await interruptible(
    (signal) => parley.messages.createBatch([job as Omit<SingleJob, 'timeout' | 'callback'>], { signal }),
    () => INTERRUPTED,
  )
  if (json) printJson({ job_id: jobId })
  else printLine(jobId)
  return EXIT.completed
}

async function jobOf(words: readonly string[], options: SendOptions): Promise<SingleJob> {
  const { model, system, timeout, cacheTtl, priority, completeWithin, metadata } = options
  const optionsJson = options.options
  const response_format = await formatOf(options)
  const content = await textOf(words, options)
  return {
    model,
    response_format,
    messages: [
      ...(system === undefined ? [] : [{ role: 'system' as const, content: system }]),
      { role: 'user', content },
    ],
    ...(optionsJson !== undefined && { options: parsed(optionsJson, '--options') as Options }),
    ...(metadata !== undefined && { metadata }),
    ...(timeout !== undefined && { timeout }),
    ...(cacheTtl !== undefined && { message_cache_ttl: cacheTtl }),
    ...(priority !== undefined && { priority }),
    ...(completeWithin !== undefined && { complete_within: completeWithin }),
  }
}

async function textOf(words: readonly string[], { file }: SendOptions): Promise<string> {
  if (words.length > 0 && file !== undefined) {
    throw new CommandError('The message is given twice. Pass it either as arguments or with --file.')
  }
  const isStandardInput = words.length === 1 && words[0] === '-'
  if (words.length > 0 && !isStandardInput) return words.join(' ')
  if (file === undefined && !isStandardInput && process.stdin.isTTY) {
    throw new CommandError(
      'There is no message to send. Pass it as arguments, with --file FILE, or on standard input.',
    )
  }
  return (await readInput(file ?? '-')).toString('utf8')
}

async function formatOf({ schema: file, jsonFormat }: SendOptions): Promise<ResponseFormat> {
  if (file === undefined) return jsonFormat ? { format: 'json' } : { format: 'text' }
  const bytes = await readInput(file)
  // Most messages are sent without a schema, so the module is loaded only here.
  const { readSchema } = await import('parley-json-schema')
  const read = readSchema(parsed(bytes.toString('utf8'), file))
  if (!read.ok) throw new CommandError(`${file}: ${read.path}: ${read.rule}`)
  const { pointers, more } = read.schema.ignored
  const listed = more > 0 ? [...pointers, `${more} more`] : pointers
  if (listed.length > 0) printError(`${file}: accepted and not checked: ${listed.join(', ')}`)
  return { format: 'json', schema: parseExactly(bytes.toString('utf8')) as Record<string, unknown> }
}

function parsed(json: string, from: string): unknown {
  try {
    return JSON.parse(json)
  } catch (error) {
    throw new CommandError(`${from} is not JSON: ${(error as Error).message}`)
  }
}
