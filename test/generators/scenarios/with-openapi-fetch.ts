/** Runs the scenario with openapi-fetch and the types of openapi-typescript. */
import createClient from 'openapi-fetch'
import type { components, paths } from './callers.types.ts'
import { type Seen, type Server, STALLS } from './scenario.ts'

/** openapi-fetch leaves out fields that are always null. */
type Job =
  | { status: 'pending' | 'assigned' }
  | { status: 'completed'; result: components['schemas']['JobResult'] }
  | { status: 'failed'; error: components['schemas']['JobError'] }

const question = (content: string) => ({
  model: 'gpt-auto',
  response_format: { format: 'text' as const },
  messages: [{ role: 'user' as const, content }],
})

/** The status alone tells the compiler that a completed job has a result, and a failed one an error. */
function outcomeOf(job: Job): unknown {
  switch (job.status) {
    case 'completed':
      return job.result.response_content
    case 'failed':
      return job.error.code
    default:
      return job.status
  }
}

export async function run({ url, key, slowKey }: Server): Promise<Seen> {
  const clientOf = (own: string) => createClient<paths>({ baseUrl: url, headers: { 'x-api-key': own } })
  const client = clientOf(key)
  const errors: Record<number, string> = {}
  const refused = ({ response, error }: { response: Response; error?: components['schemas']['Error'] }) => {
    errors[response.status] = error?.message ?? ''
  }

  const created = await client.POST('/api/v1/messages', { body: question('Hello') })
  if (created.data?.data.status === 'timeout') throw new Error('the job did not end')
  const answer = created.data && outcomeOf(created.data.data)

  const batch = await client.POST('/api/v1/messages/batches', { body: [question('one'), question('two')] })
  const jobIds = batch.data?.data.job_ids ?? []
  const statuses: string[] = []
  for (const jobId of jobIds) {
    const read = await client.GET('/api/v1/messages/{jobId}', {
      params: { path: { jobId }, query: { wait: 60 } },
    })
    // @ts-expect-error A job that has not ended has no result.
    void read.data?.data.result.response_content
    statuses.push(read.data?.data.status ?? '')
  }

  const query = { ids: jobIds, wait: 60, wait_for: 'all' as const }
  const both = await client.GET('/api/v1/messages', { params: { query } })
  const together = both.data && 'not_found' in both.data.data ? both.data.data.jobs : []

  const endless = await client.POST('/api/v1/messages/batches', { body: [question(STALLS)] })
  const params = { path: { jobId: endless.data?.data.job_ids[0] ?? '' } }
  const end = await client.POST('/api/v1/messages/{jobId}/cancel', { params })
  const cancelled = end.data && outcomeOf(end.data.data)
  const deleted = await client.DELETE('/api/v1/messages/{jobId}', { params })
  if (deleted.data?.data.deleted !== true) throw new Error('the job was not deleted')
  const page = await client.GET('/api/v1/messages', { params: { query: { limit: 3 } } })
  const listed = page.data && 'next' in page.data.data ? page.data.data.jobs : []

  refused(await client.POST('/api/v1/messages', { body: { ...question('Hello'), messages: [] } }))
  refused(await clientOf('none').GET('/api/v1/me'))
  const unknown = { params: { path: { jobId: crypto.randomUUID() } } }
  refused(await client.GET('/api/v1/messages/{jobId}', unknown))
  const slow = clientOf(slowKey)
  await slow.GET('/api/v1/messages/{jobId}', unknown)
  refused(await slow.GET('/api/v1/messages/{jobId}', unknown))

  // @ts-expect-error The model is required.
  const incomplete: components['schemas']['CreateMessageRequest'] = { ...question('Hello'), model: undefined }
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
