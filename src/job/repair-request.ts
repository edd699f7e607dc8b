/** The conversation that asks a model to correct an answer in the wrong format. */
import { type RawText, rawTextJson } from './job.ts'
import { formatParts } from './response-format.ts'

/**
 * The messages, the wrong answer, its errors, and the schema again: it may be far above, or only in `response_format`, which not
 * every server shows to the model.
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
  const request = `Your answer does not match the requested format:\n${list}\nAnswer again with only the corrected JSON.${schema}`
  const wrong = `{"role":"assistant","content":${rawTextJson(raw)}}`
  const asked = JSON.stringify({ role: 'user', content: request })
  return `${messagesJson.slice(0, -1)},${wrong},${asked}]`
}
