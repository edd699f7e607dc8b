/** The programs that do what the playground does. They take the key from the environment, never from the page. */
import { batchOf, type Draft, type JobBody, jobOf } from './draft.ts'
import { literal, PYTHON, TYPESCRIPT } from './literals.ts'

export const LANGUAGES = ['curl', 'TypeScript', 'Python'] as const
export type Language = (typeof LANGUAGES)[number]

/** @param origin where the server is, such as `http://127.0.0.1:8080` */
export function programFor(language: Language, draft: Draft, origin: string): string {
  const single = draft.mode === 'single'
  switch (language) {
    case 'curl':
      return single ? curl(origin, '/api/v1/messages', jobOf(draft)) : curlBatch(origin, batchOf(draft))
    case 'TypeScript':
      return single ? typescript(origin, jobOf(draft)) : typescriptBatch(origin, batchOf(draft))
    case 'Python':
      return single ? python(origin, jobOf(draft)) : pythonBatch(origin, batchOf(draft))
  }
}

/** The body comes from a here-document, so nothing in it needs a shell's quotes. */
function curl(origin: string, path: string, body: unknown): string {
  return `curl -s ${origin}${path} \\
  -H "x-api-key: $PARLEY_API_KEY" -H 'content-type: application/json' \\
  --data-binary @- <<'JSON'
${JSON.stringify(body, null, 2)}
JSON
`
}

function curlBatch(origin: string, bodies: readonly JobBody[]): string {
  return `${curl(origin, '/api/v1/messages/batches', bodies)}
# then, for each of the job_ids:
# curl -s ${origin}/api/v1/messages/JOB_ID -H "x-api-key: $PARLEY_API_KEY"
`
}

function typescript(origin: string, body: JobBody): string {
  return `import { Parley } from 'parley-client'

const parley = new Parley({ baseUrl: '${origin}' }) // the key: PARLEY_API_KEY
const job = await parley.messages.createAndWait(${literal(body, TYPESCRIPT)})
console.log(job.result.response_content)
`
}

function typescriptBatch(origin: string, bodies: readonly JobBody[]): string {
  return `import { Parley } from 'parley-client'

const parley = new Parley({ baseUrl: '${origin}' }) // the key: PARLEY_API_KEY
const ids = await parley.messages.createBatch(${literal(bodies, TYPESCRIPT)})
for (const job of await parley.messages.waitAll(ids)) {
  console.log(job.job_id, job.status, job.result?.response_content ?? job.error)
}
`
}

const PYTHON_HEAD = (origin: string) => `import json, os, time, urllib.request

def call(path, body=None):
    headers = {"x-api-key": os.environ["PARLEY_API_KEY"], "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request("${origin}" + path, data, headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["data"]

def ended(job_id):
    while True:
        job = call("/api/v1/messages/" + job_id)
        if job["status"] in ("completed", "failed"):
            return job
        time.sleep(1)
`

function python(origin: string, body: JobBody): string {
  return `${PYTHON_HEAD(origin)}
job = call("/api/v1/messages", ${literal(body, PYTHON)})
if job["status"] == "timeout":
    job = ended(job["job_id"])
print(job["error"] or job["result"]["response_content"])
`
}

function pythonBatch(origin: string, bodies: readonly JobBody[]): string {
  return `${PYTHON_HEAD(origin)}
batch = call("/api/v1/messages/batches", ${literal(bodies, PYTHON)})
for job_id in batch["job_ids"]:
    job = ended(job_id)
    print(job_id, job["error"] or job["result"]["response_content"])
`
}
