/** Generates programs that send the playground's request. The programs read the API key from the environment. */
import { batchOf, type Draft, type JobBody, jobOf } from './draft.ts'

export const LANGUAGES = ['curl', 'TypeScript', 'Python'] as const
export type Language = (typeof LANGUAGES)[number]

/** @param origin the origin of the server, such as `http://127.0.0.1:8080` */
export function programFor(language: Language, draft: Draft, origin: string): string {
  const single = draft.mode === 'single'
  const isJson = draft.format === 'json'
  switch (language) {
    case 'curl':
      return single ? curl(origin, '/api/v1/messages', jobOf(draft)) : curlBatch(origin, batchOf(draft))
    case 'TypeScript':
      return single
        ? typescript(origin, jobOf(draft), isJson)
        : typescriptBatch(origin, batchOf(draft), isJson)
    case 'Python':
      return single ? python(origin, jobOf(draft), isJson) : pythonBatch(origin, batchOf(draft), isJson)
  }
}

/** The default formats of the languages abbreviate nested values or are not JSON, so the programs print answers as JSON. */
const inTypescript = (value: string, isJson: boolean) => (isJson ? `JSON.stringify(${value})` : value)
const inPython = (value: string, isJson: boolean) =>
  isJson ? `json.dumps(${value}, ensure_ascii=False)` : value

/** The body is a here-document, in which nothing needs to be quoted for the shell. */
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
# curl -s '${origin}/api/v1/messages/JOB_ID?wait=60' -H "x-api-key: $PARLEY_API_KEY"
`
}

function typescript(origin: string, body: JobBody, isJson: boolean): string {
  return `import { Parley } from 'parley-client'

const parley = new Parley({ baseUrl: '${origin}' }) // the key: PARLEY_API_KEY
const job = await parley.messages.createAndWait(${literal(body, TYPESCRIPT)})
console.log(${inTypescript('job.result.response_content', isJson)})
`
}

function typescriptBatch(origin: string, bodies: readonly JobBody[], isJson: boolean): string {
  return `import { Parley } from 'parley-client'

const parley = new Parley({ baseUrl: '${origin}' }) // the key: PARLEY_API_KEY
const ids = await parley.messages.createBatch(${literal(bodies, TYPESCRIPT)})
for (const job of await parley.messages.waitAll(ids)) {
  console.log(job.job_id, job.status, ${inTypescript('job.result ? job.result.response_content : job.error', isJson)})
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
        job = call("/api/v1/messages/" + job_id + "?wait=60")
        if job["status"] in ("completed", "failed"):
            return job
        time.sleep(1)
`

const PYTHON_ANSWER = 'job["error"] or job["result"]["response_content"]'

function python(origin: string, body: JobBody, isJson: boolean): string {
  return `${PYTHON_HEAD(origin)}
job = call("/api/v1/messages", ${literal(body, PYTHON)})
if job["status"] == "timeout":
    job = ended(job["job_id"])
print(${inPython(PYTHON_ANSWER, isJson)})
`
}

function pythonBatch(origin: string, bodies: readonly JobBody[], isJson: boolean): string {
  return `${PYTHON_HEAD(origin)}
batch = call("/api/v1/messages/batches", ${literal(bodies, PYTHON)})
for job_id in batch["job_ids"]:
    job = ended(job_id)
    print(job_id, ${inPython(PYTHON_ANSWER, isJson)})
`
}

/** Defines how a language writes property names, and the JSON literals `true`, `false` and `null`. */
interface Dialect {
  readonly name: (name: string) => string
  readonly word: (value: boolean | null) => string
}

const TYPESCRIPT: Dialect = {
  name: (name) => (/^[A-Za-z_$][\w$]*$/.test(name) && name !== '__proto__' ? name : JSON.stringify(name)),
  word: String,
}

/** JSON strings are valid in Python, because Python supports all escapes of JSON. */
const PYTHON: Dialect = {
  name: (name) => JSON.stringify(name),
  word: (value) => (value === null ? 'None' : value ? 'True' : 'False'),
}

const SHORT = 70

function literal(value: unknown, dialect: Dialect, indent = ''): string {
  if (typeof value === 'boolean' || value === null) return dialect.word(value)
  if (typeof value !== 'object' || value === undefined) return JSON.stringify(value)
  const inner = `${indent}  `
  const [open, parts, close] = Array.isArray(value)
    ? (['[', value.map((one) => literal(one, dialect, inner)), ']'] as const)
    : ([
        '{',
        Object.entries(value).map(([name, one]) => `${dialect.name(name)}: ${literal(one, dialect, inner)}`),
        '}',
      ] as const)
  const line = `${open}${open === '{' ? ' ' : ''}${parts.join(', ')}${open === '{' ? ' ' : ''}${close}`
  if (parts.length === 0) return open + close
  if (line.length + indent.length <= SHORT && !line.includes('\n')) return line
  return `${open}\n${parts.map((part) => `${inner}${part},\n`).join('')}${indent}${close}`
}
