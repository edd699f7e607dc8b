/** The conversation that asks a model to correct an answer of the wrong form. */
import { type RawText, rawTextJson } from './job.ts'
import { formatParts } from './response-format.ts'

/**
 * The messages with the wrong answer, what is wrong with it, and the schema: by then it may be far above, or was only in
 * `response_format`, which models do not see on every server.
 *
 * @param formatJson the job's `response_format`
 */
export function repairRequest(
  messagesJson: string,
  formatJson: string,
  raw: RawText,
  errors: readonly string[],
): string {
  const list = errors.map((error) => `- ${error}`).join('\n')
  const format = formatParts(formatJson)
  const schema =
    format.kind === 'schema' ? `\n\nThe answer must satisfy this JSON Schema:\n\n${format.schemaJson}` : ''
  const request = `Your answer does not have the form that was asked for:\n${list}\nAnswer again, with the corrected JSON and nothing else.${schema}`
  const wrong = `{"role":"assistant","content":${rawTextJson(raw)}}`
  const asked = JSON.stringify({ role: 'user', content: request })
  return `${messagesJson.slice(0, -1)},${wrong},${asked}]`
}
