/** Runs the scenario with the client of @hey-api/openapi-ts. */
import { createClient } from './callers/client/index.ts'
import {
  cancelMessage,
  createBatch,
  createMessage,
  deleteMessage,
  getAccount,
  getMessage,
  listMessages,
} from './callers/sdk.gen.ts'
import type { CreateMessageRequest, Error as ErrorBody, Job } from './callers/types.gen.ts'
import { type Seen, type Server, STALLS } from './scenario.ts'

const question = (content: string): CreateMessageRequest => ({
  model: 'gpt-auto',
  response_format: { format: 'text' },
  messages: [{ role: 'user', content }],
})

/** The status alone tells the compiler that a completed job has a result, and a failed one an error. */
function outcomeOf(job: Job): unknown {
  switch (job.status) {
    case 'completed':
      return job.result.response_content
    case 'failed':
      return job.error.code
    default:
      // @ts-expect-error A job that has not ended has no result.
      return job.result.response_content
  }
}

export async function run({ url, key, slowKey }: Server): Promise<Seen> {
  const clientOf = (auth: string) => createClient({ baseUrl: url, auth })
  const client = clientOf(key)
  const errors: Record<number, string> = {}
  const refused = ({ response, error }: { response?: Response; error?: ErrorBody }) => {
    errors[response?.status ?? 0] = error?.message ?? ''
  }

  const created = await createMessage({ client, body: question('Hello'), throwOnError: true })
  if (created.data.data.status === 'timeout') throw new Error('the job did not end')
  const answer = outcomeOf(created.data.data)

  const body = [question('one'), question('two')]
  const { data: batch } = await createBatch({ client, body, throwOnError: true })
  const jobIds = batch.data.job_ids
  const statuses: string[] = []
  for (const jobId of jobIds) {
    const read = await getMessage({ client, path: { jobId }, query: { wait: 60 }, throwOnError: true })
    statuses.push(read.data.data.status)
  }

  const query = { ids: jobIds, wait: 60, wait_for: 'all' } as const
  const both = await listMessages({ client, query, throwOnError: true })
  const together = 'not_found' in both.data.data ? both.data.data.jobs : []

  const endless = await createBatch({ client, body: [question(STALLS)], throwOnError: true })
  const own = { jobId: endless.data.data.job_ids[0] ?? '' }
  const end = await cancelMessage({ client, path: own, throwOnError: true })
  const cancelled = outcomeOf(end.data.data)
  const deleted = await deleteMessage({ client, path: own, throwOnError: true })
  if (!deleted.data.data.deleted) throw new Error('the job was not deleted')
  const page = await listMessages({ client, query: { limit: 3 }, throwOnError: true })
  const listed = 'next' in page.data.data ? page.data.data.jobs : []

  refused(await createMessage({ client, body: { ...question('Hello'), messages: [] } }))
  refused(await getAccount({ client: clientOf('none') }))
  const path = { jobId: crypto.randomUUID() }
  refused(await getMessage({ client, path }))
  const slow = clientOf(slowKey)
  await getMessage({ client: slow, path })
  refused(await getMessage({ client: slow, path }))

  // @ts-expect-error The model is required.
  const incomplete: CreateMessageRequest = { ...question('Hello'), model: undefined }
  void incomplete
  return {
    answer,
    jobIds,
    statuses,
    together: together.map(({ status }) => status),
    cancelled,
    listed: listed.map(({ job_id }) => job_id),
    errors,
  }
}
