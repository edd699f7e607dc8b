/** The conversation, the answer and the receipt of a job. They are loaded on request only, because each access is logged. */
import { html } from 'htm/preact'
import { useState } from 'preact/hooks'
import { type ApiError, admin } from '../api.ts'
import type { JobContent, JobDetails, Message } from '../contract.ts'
import { CodeBlock } from '../parts/code-block.ts'
import { Panel } from '../parts/panel.ts'
import { apiError } from '../resource.ts'
import { contentText } from './content-text.ts'
import { Receipt } from './receipt.ts'

export function Content({ job }: { readonly job: JobDetails }) {
  const [content, setContent] = useState<JobContent | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [busy, setBusy] = useState(false)
  const show = async () => {
    setBusy(true)
    try {
      setContent(await admin<JobContent>(`/jobs/${job.job_id}/content`))
      setError(null)
    } catch (problem) {
      setError(apiError(problem))
    }
    setBusy(false)
  }
  if (!content) {
    return html`<${Panel} title="Conversation, answer, receipt">
      <div class="locked">
        <p>The contents belong to the account <strong>${job.account}</strong>. They are shown only on request.</p>
        <button type="button" class="button primary" disabled=${busy} onClick=${show}>Show contents (this access is logged)</button>
        ${error && html`<p class="field-error" role="alert">${error.words}</p>`}
      </div>
    <//>`
  }
  return html`<div class="stack">
    <${Panel} title="Conversation" actions=${html`<button type="button" class="quiet-button" onClick=${() => setContent(null)}>Hide contents</button>`}>
      <${Conversation} messages=${content.messages} />
      ${
        content.response_format.schema !== undefined &&
        html`<details><summary>Requested schema</summary>
        <${CodeBlock} text=${JSON.stringify(content.response_format.schema, null, 2)} what="the schema" /></details>`
      }
    <//>
    <${Panel} title=${content.error ? 'Error' : 'Answer'}><${Answer} content=${content} /><//>
    <${Panel} title="Receipt"><${Receipt} content=${content} job=${job} /><//>
  </div>`
}

function Conversation({ messages }: { readonly messages: readonly Message[] }) {
  return html`<ol class="conversation">
    ${messages.map(
      ({ role, content }, index) => html`<li key=${index} class=${`said-by-${role}`}>
        <span class="role">${role}</span>
        <p class="said">${content === '' ? html`<span class="muted">(empty)</span>` : content}</p>
      </li>`,
    )}
  </ol>`
}

function Answer({ content: { result, error } }: { readonly content: JobContent }) {
  if (error) {
    return html`<p><span class="code-word">${error.code}</span> ${error.message}</p>
      ${error.upstream_message && html`<p class="muted">The model server responded${error.upstream_status ? ` (${error.upstream_status})` : ''}: ${error.upstream_message}</p>`}
      ${error.errors && html`<ul class="faults">${error.errors.map((fault) => html`<li>${fault}</li>`)}</ul>`}
      ${error.raw_text !== undefined && html`<h3>The last answer of the model, unmodified</h3><${CodeBlock} text=${error.raw_text} what="the raw answer" />`}`
  }
  if (!result) return html`<p class="muted">No answer yet.</p>`
  return html`<${CodeBlock} text=${contentText(result.response_content)} what="the answer" />`
}
