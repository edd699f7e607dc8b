/** Generates documents from the table of settings: a page for people, and a JSON Schema for editors. */
import { DEFAULTS, settingsSchema } from './settings.ts'

interface Node {
  readonly type?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, Node>>
  readonly patternProperties?: Readonly<Record<string, Node>>
  readonly anyOf?: readonly Node[]
  readonly items?: Node
  readonly const?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
}

const INTRODUCTION = `# Settings

Environment variables override the configuration file, which overrides the defaults. The file is \`./parley.config.json\`,
or the one that \`PARLEY_CONFIG\` or \`--config\` names. If it contains an unknown key or an invalid value, the server
does not start and reports every problem at once, with its path, the reason, file and line.

Objects are merged with the defaults key by key; arrays replace them. Keys that an upstream does not set take the defaults
of \`upstreams.NAME\`. An entry under \`models\` replaces the default entry of that name, and \`null\` removes it:
\`"gpt-5": null\`. Whatever depends on a removed model or upstream is removed as well, also from \`auto\` and from tiers. If your
file does not configure OpenAI, the upstream \`openai\` is removed. A name that the file itself refers to must exist.

The tiers are \`user_free\`, \`user_go\`, \`user_pro\` and \`user_max\`; the table shows their defaults in this order. You can add
tiers: \`"tiers": { "gold": { "based_on": "user_pro", "max_batch_jobs": 100 } }\`. If you remove one again, its accounts can use no
model until you give them another tier (\`parley accounts tier\`).

For completion and validation in an editor, start the file with \`"$schema": "./node_modules/parley/parley.schema.json"\` (or the path of that file in a clone).

## Environment

| variable | meaning | default |
|---|---|---|
| \`HOST\`, \`PORT\` | the address to listen on, \`::\` for all addresses, or \`unix:/path\`; port 0 picks a free port | \`127.0.0.1\`, \`8080\` |
| \`DATABASE_URL\` | \`sqlite:PATH\` or \`postgres://…\` | \`sqlite:./data/parley.db\` |
| \`PARLEY_CONFIG\` | the configuration file | \`./parley.config.json\` if there is one |
| \`OPENAI_API_KEY\` | the API key of the upstream \`openai\` | none |
| \`OPENAI_BASE_URL\` | its base URL; can be used without a key | \`https://api.openai.com/v1\` |
| \`OPENAI_MAX_CONCURRENCY\` | its maximum concurrent calls (\`upstreams.openai.max_concurrency\`) | starts at 8, grows to at most \`jobs.concurrency\` |
| \`OPENAI_MODEL\` | the model of the upstream \`openai\` that serves every public name; callers may also use its own name | the model of the same name |
| \`PARLEY_ADMIN_TOKEN\` | grants access to the admin API and the dashboard; give nodes on one Postgres the same token | generated at the first start and stored, readable only by its owner, in \`DATABASE-FILE.admin-token\`; with Postgres, in \`./data/parley.admin-token\`, for this node only |
| \`PARLEY_SIMULATOR\` | whether the simulator answers: \`true\`, \`false\` or \`auto\` (\`simulator\`) | \`auto\` |
| \`LOG_LEVEL\` | \`fatal\`, \`error\`, \`warn\`, \`info\`, \`debug\`, \`trace\`, \`silent\` | \`info\` |

Instead of \`DATABASE_URL\`, \`OPENAI_API_KEY\` and \`PARLEY_ADMIN_TOKEN\`, you can set \`DATABASE_URL_FILE\`, \`OPENAI_API_KEY_FILE\` and \`PARLEY_ADMIN_TOKEN_FILE\` to the
path of a file that contains the value, such as a mounted secret. Line breaks at its end are ignored. Setting both variables is an error. The files
are read at the start only.

A misspelled variable is an error: a name that begins with \`PARLEY_\` or \`OPENAI_\` and differs from a known one by one or two letters. Variables that your
configuration file names, that OpenAI's clients read, or that Kubernetes adds, are known.

**The simulator** answers if no model server is configured (neither \`upstreams\` nor \`OPENAI_API_KEY\`, \`OPENAI_BASE_URL\` or \`OPENAI_MODEL\`), but only on
SQLite, on a loopback address and without \`trust_proxy\`. Otherwise the server does not start without a model. In a test environment, set
\`PARLEY_SIMULATOR=true\`: then the simulator answers instead of the model servers. Its responses and callbacks carry \`x-parley-simulated: true\`.

## Configuration file

| setting | meaning | range | default |
|---|---|---|---|
`

const EXAMPLE = `
## Examples

One local model server, without a key, for every public model name:

\`\`\`sh
OPENAI_BASE_URL=http://127.0.0.1:11434/v1 OPENAI_MODEL=llama3.2 npm start
\`\`\`

Two upstreams; the second is tried when the first fails with a retryable error:

\`\`\`json
{
  "upstreams": {
    "openai": {},
    "backup": { "base_url": "https://models.example.com/v1", "api_key_env": "BACKUP_KEY", "roles": "developer_as_system" }
  },
  "models": {
    "gpt-5": { "targets": [
      { "upstream": "openai", "model": "gpt-5" },
      { "upstream": "backup", "model": "large" }
    ] }
  }
}
\`\`\`

Your own server behind a gateway, with a private certificate, and no OpenAI models:

\`\`\`json
{
  "upstreams": {
    "own": {
      "base_url": "https://models.example.com/v1",
      "api_key_env": null,
      "headers": { "x-api-key": { "env": "GATEWAY_KEY" } },
      "query": { "api-version": "2024-10-21" },
      "body": { "max_tokens": 2000, "temperature": 0.2 },
      "ca_file": "./ca.pem"
    }
  },
  "models": { "small": { "targets": [{ "upstream": "own", "model": "qwen2.5-7b" }] } }
}
\`\`\`

The admin API and the dashboard show headers, and secret parameters and fields, as \`***\`. Logs and errors do not contain them.
`

/** Returns the text of docs/settings.md. */
export function settingsPage(): string {
  const rows = rowsOf(settingsSchema as unknown as Node, '', [DEFAULTS])
  return INTRODUCTION + rows.map((row) => `| ${row.join(' | ')} |\n`).join('') + EXAMPLE
}

/** Returns the text of parley.schema.json. */
export function settingsJsonSchema(): string {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Parley',
    ...settingsSchema,
  }
  const inFile = { ...schema, properties: withRemovals(schema.properties) }
  return `${JSON.stringify(withoutRequired(inFile), null, 2)}\n`
}

/** In a file, null removes an entry of these settings. */
function withRemovals({ models, upstreams, ...others }: typeof settingsSchema.properties): object {
  const removable = (entries: { readonly patternProperties: Readonly<Record<string, object>> }) => ({
    ...entries,
    patternProperties: Object.fromEntries(
      Object.entries(entries.patternProperties).map(([pattern, entry]) => [
        pattern,
        { anyOf: [entry, { type: 'null', description: 'Removes the default entry of this name.' }] },
      ]),
    ),
  })
  return { ...others, upstreams: removable(upstreams), models: removable(models) }
}

type Row = readonly [setting: string, meaning: string, range: string, fallback: string]

/** @param defaults the default entries that the placeholder for a name stands for: all tiers, one model, one upstream */
function rowsOf(node: Node, path: string, defaults: readonly unknown[]): Row[] {
  const inner = node.properties ?? {}
  const named = Object.values(node.patternProperties ?? {})[0]
  if (named) {
    const entries = defaults.flatMap((one) => Object.values(one ?? {}))
    return rowsOf(named, `${path}.NAME`, Object.keys(inner).length > 0 ? entries : entries.slice(0, 1))
  }
  if (Object.keys(inner).length === 0) return [row(node, path, defaults)]
  return Object.entries(inner).flatMap(([key, child]) => {
    const values = defaults.map((one) => (one as Record<string, unknown> | undefined)?.[key])
    return rowsOf(child, path === '' ? key : `${path}.${key}`, values)
  })
}

function row(node: Node, path: string, defaults: readonly unknown[]): Row {
  const values = defaults.map((one) => (one === undefined ? 'none' : `\`${JSON.stringify(one)}\``))
  const shown = new Set(values).size > 1 ? values.join(', ') : (values[0] ?? 'none')
  return [`\`${path}\``, node.description ?? '', rangeOf(node), shown]
}

function rangeOf(node: Node): string {
  if (node.anyOf) return node.anyOf.map(rangeOf).join(' or ')
  if (node.const !== undefined) return `\`${JSON.stringify(node.const)}\``
  const from = node.minimum ?? node.exclusiveMinimum
  const above = node.exclusiveMinimum !== undefined && node.minimum === undefined
  if (from === undefined) return node.type ?? 'any JSON'
  const least = above ? `above ${from}` : `${from} or more`
  return node.maximum === undefined ? `${node.type}, ${least}` : `${node.type}, ${from} to ${node.maximum}`
}

/** In a file, every key is optional, because each has a default. */
function withoutRequired(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutRequired)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(
    ([key, inner]) => !(key === 'required' && Array.isArray(inner)),
  )
  return Object.fromEntries(entries.map(([key, inner]) => [key, withoutRequired(inner)]))
}
