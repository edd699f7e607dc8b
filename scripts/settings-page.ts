/** Generates documents from the table of settings: a page for people, and a JSON Schema for editors. */
import { DEFAULTS, settingsSchema } from '../src/config/settings.ts'

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

Environment variables override the configuration file, which overrides the defaults. The file is \`./parley.config.json\`, unless
\`PARLEY_CONFIG\` or \`--config\` selects another. If it contains an unknown key or an invalid value, the server does not start,
and reports every problem with its line.

Objects are merged with the defaults key by key; arrays replace them. An entry under \`models\` replaces the default entry of that
name; \`"gpt-5": null\` removes it. Defaults that refer to a removed model or upstream are removed as well. If your file has
upstreams but not \`openai\`, that default is removed.

The table shows the defaults of the tiers \`user_free\`, \`user_go\`, \`user_pro\` and \`user_max\`, in this order. You can add
your own: \`"tiers": { "gold": { "based_on": "user_pro", "max_batch_jobs": 100 } }\`. If you remove one, its accounts cannot use
any model until you move them to another tier (\`parley accounts tier\`).

For completion in an editor, start the file with \`"$schema": "./node_modules/parley/parley.schema.json"\` (in a clone: \`"./parley.schema.json"\`).

## Environment

| variable | meaning | default |
|---|---|---|
| \`HOST\`, \`PORT\` | see \`host\` and \`port\` | \`127.0.0.1\`, \`8080\` |
| \`DATABASE_URL\` | see \`database\` | \`sqlite:./data/parley.db\` |
| \`PARLEY_CONFIG\` | the configuration file | \`./parley.config.json\` if there is one |
| \`OPENAI_API_KEY\` | the API key of the upstream \`openai\` | none |
| \`OPENAI_BASE_URL\` | its base URL; a key is optional then | \`https://api.openai.com/v1\` |
| \`OPENAI_MAX_CONCURRENCY\` | its \`max_concurrency\` | as that setting |
| \`OPENAI_MODEL\` | the model on \`openai\` that answers every job, whatever model the caller names; callers can also name it | the model that the caller names |
| \`PARLEY_ADMIN_TOKEN\` | the [admin token](admin-api.md#tokens); give nodes on one Postgres the same | generated at the first start |
| \`PARLEY_SIMULATOR\` | see \`simulator\`: \`true\`, \`false\` or \`auto\` | \`auto\` |
| \`LOG_LEVEL\` | \`fatal\`, \`error\`, \`warn\`, \`info\`, \`debug\`, \`trace\`, \`silent\` | \`info\` |

\`DATABASE_URL_FILE\`, \`OPENAI_API_KEY_FILE\` and \`PARLEY_ADMIN_TOKEN_FILE\` name files that contain the value instead, such as mounted secrets. The server reads them
when it starts.

A misspelled \`PARLEY_\` or \`OPENAI_\` variable (one or two letters differ) is an error, unless your configuration file names it, OpenAI's clients read it, or
Kubernetes adds it.

**The simulator** answers if no model server is configured (neither \`upstreams\` nor \`OPENAI_API_KEY\`, \`OPENAI_BASE_URL\` or \`OPENAI_MODEL\`), the database is
SQLite, the address is loopback and \`trust_proxy\` is false. Any other setup without a model server does not start. In a test environment,
\`PARLEY_SIMULATOR=true\` replaces all model servers by the simulator. Its responses and callbacks carry \`x-parley-simulated: true\`.

## Configuration file

Numbers are whole (except seconds, weights and money) and at least 1, unless the table has another range. For a maximum, \`null\` means none, unless the table
gives another meaning. [Limits](limits.md) lists what happens beyond each maximum. \`parley accounts cap\` sets caps and quotas for one account.

| setting | meaning | default (range, other values) |
|---|---|---|
`

const EXAMPLE = `
## Examples

Two upstreams; Parley uses the second while the first is unavailable:

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

A server behind a gateway, with a private certificate, and no OpenAI models:

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

Headers and secret query parameters and body fields appear as \`***\` in the admin API and the dashboard, and never in logs or errors.
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

type Row = readonly [setting: string, meaning: string, values: string]

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
  const range = (node.anyOf ?? [node]).map(rangeOf).filter((one) => one !== '' && one !== shown)
  const cell = range.length === 0 ? shown : `${shown} (${range.join(', ')})`
  return [`\`${path}\``, node.description ?? '', cell]
}

/** Types without bounds, which the default shows, and the usual range, which the page states, need no text. */
function rangeOf(node: Node): string {
  if (node.const !== undefined) return `\`${JSON.stringify(node.const)}\``
  if (node.exclusiveMinimum !== undefined) return `> ${node.exclusiveMinimum}`
  if (node.minimum !== undefined)
    return node.maximum !== undefined
      ? `${node.minimum} to ${node.maximum}`
      : node.minimum === 1
        ? ''
        : `≥ ${node.minimum}`
  return ''
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
