/**
 * Renders the playground, which edits a request, sends it through the API for callers, and shows its jobs with their answers.
 */
import { html } from 'htm/preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { EffectiveSettings, Status } from '../contract.ts'
import { contentText, duration, pretty } from '../format.ts'
import { useLive } from '../live.ts'
import { announce } from '../parts/announce.ts'
import { CodeBlock } from '../parts/copy-and-save.ts'
import { Select } from '../parts/field.ts'
import { PageTitle, Panel } from '../parts/sections.ts'
import { apiError, useResource } from '../resource.ts'
import { address } from '../router.ts'
import { KeyPanel, type PlaygroundCaller, usePlaygroundCaller } from './caller.ts'
import {
  batchOf,
  checkSchema,
  type Draft,
  type DraftMessage,
  draftOf,
  EXAMPLES,
  jobOf,
  storeDraft,
  storedDraft,
} from './draft.ts'
import { BatchFields, MessageEditor } from './message-editor.ts'
import { LANGUAGES, type Language, programFor } from './programs.ts'
import { cancelOpen, isOpen, type WatchedJob, type Watching, watchBatch, watchSingle } from './watch.ts'

/** The default applies until the limits of the key are known. */
const DEFAULT_BATCH_LIMIT = 30

export function PlaygroundPage() {
  const caller = usePlaygroundCaller()
  const [stored, setDraft] = useState(storedDraft)
  const configured = useConfiguredModels()
  const [first] = configured
  // The default model, or the model of a stored draft, may not be configured.
  const draft =
    first === undefined || configured.includes(stored.model) ? stored : { ...stored, model: first }
  const [watching, setWatching] = useState<Watching | null>(null)
  const run = useRef<AbortController | null>(null)
  const change = (part: Partial<Draft>) => {
    const next = { ...draft, ...part }
    setDraft(next)
    storeDraft(next)
  }
  const stop = () => {
    run.current?.abort()
    run.current = null
    if (watching) setWatching({ ...watching, ended: true })
  }
  const cancel = () => {
    const { key } = caller
    if (key === null || watching === null) return
    cancelOpen(watching, key).catch((error: unknown) => announce(apiError(error).words, true))
  }
  useEffect(() => () => run.current?.abort(), [])
  const send = () => {
    const { key, me } = caller
    if (key === null || me === null) return announce('Choose an API key first.', true)
    run.current?.abort()
    const controller = new AbortController()
    run.current = controller
    const onChange = (now: Watching) => {
      setWatching(now)
      if (now.ended) announce(summaryOf(now), now.failure !== null, false)
    }
    const options = { key, me, signal: controller.signal, onChange }
    void (draft.mode === 'single' ? watchSingle(jobOf(draft), options) : watchBatch(batchOf(draft), options))
  }
  const isRunning = watching !== null && !watching.ended
  return html`<${PageTitle} title="Playground"><${Examples} draft=${draft} onChange=${change} /><//>
    ${caller.key === null ? html`<${KeyPanel} caller=${caller} />` : html`<${WhoseKey} caller=${caller} />`}
    <div class="playground">
      <div class="stack">
        <${Editor} draft=${draft} models=${modelsOf(configured, caller)} onChange=${change} caller=${caller} onSend=${send} isRunning=${isRunning} />
      </div>
      <div class="stack">
        <${Outcome} watching=${watching} onStop=${stop} onCancel=${cancel} />
        <${CodePanel} draft=${draft} />
      </div>
    </div>`
}

function summaryOf({ jobs, failure, ms }: Watching): string {
  if (failure) return failure.words
  const [job] = jobs
  if (jobs.length === 1 && job) return `The job is ${job.status}, after ${duration(ms)}.`
  const failed = jobs.filter(({ status }) => status === 'failed').length
  return `All ${jobs.length} jobs have finished, ${failed === 0 ? 'none failed' : `${failed} failed`}.`
}

interface EditorProps {
  readonly draft: Draft
  readonly models: readonly (readonly [string, string])[]
  readonly onChange: (part: Partial<Draft>) => void
  readonly caller: PlaygroundCaller
  readonly onSend: () => void
  readonly isRunning: boolean
}

function Editor({ draft, models, onChange, caller, onSend, isRunning }: EditorProps) {
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
    event.preventDefault()
    onSend()
  }
  const onSubmit = (event: Event) => {
    event.preventDefault()
    onSend()
  }
  const isBroken = draft.format === 'json' && checkSchema(draft.schema).words.startsWith('Not valid JSON')
  return html`<form onSubmit=${onSubmit} onKeyDown=${onKeyDown} class="stack">
    <${Panel} title="Messages">
      <${MessageEditor} messages=${draft.messages} onChange=${(messages: readonly DraftMessage[]) => onChange({ messages })} />
    <//>
    <${Panel} title="Request">
      <div class="stack">
        <${Select} label="Model" value=${draft.model} options=${models} onChange=${(model: string) => onChange({ model })} />
        <${Choice} label="Answer" value=${draft.format} options=${['text', 'json']} onChange=${(format: Draft['format']) => onChange({ format })} />
        ${draft.format === 'json' && html`<${SchemaEditor} schema=${draft.schema} onChange=${(schema: string) => onChange({ schema })} />`}
        <${Choice} label="Send" value=${draft.mode} options=${['single', 'batch']} onChange=${(mode: Draft['mode']) => onChange({ mode })} />
        ${draft.mode === 'batch' && html`<${BatchFields} draft=${draft} onChange=${onChange} most=${caller.me?.limits.max_batch_jobs ?? DEFAULT_BATCH_LIMIT} />`}
        <div class="send-line">
          <button type="submit" class="button primary" disabled=${isBroken || isRunning}>${isRunning ? 'Running…' : 'Send'}</button>
          <span class="hint">${isBroken ? 'The schema is not valid JSON.' : 'or Ctrl + Enter'}</span>
        </div>
      </div>
    <//>
  </form>`
}

/** Returns an empty list until the models are loaded. */
function useConfiguredModels(): readonly string[] {
  const settings = useResource<EffectiveSettings>('/settings')
  return Object.keys((settings.data?.settings.models as object | undefined) ?? {})
}

function modelsOf(
  configured: readonly string[],
  { me }: PlaygroundCaller,
): readonly (readonly [string, string])[] {
  const all = configured.length > 0 ? configured : (me?.models ?? ['gpt-auto'])
  return all.map((model) => [
    model,
    me && !me.models.includes(model) ? `${model} (not with ${me.tier})` : model,
  ])
}

interface ChoiceProps<T extends string> {
  readonly label: string
  readonly value: T
  readonly options: readonly T[]
  readonly onChange: (value: T) => void
}

function Choice<T extends string>({ label, value, options, onChange }: ChoiceProps<T>) {
  return html`<fieldset class="choice">
    <legend>${label}</legend>
    <div class="segments">
      ${options.map(
        (one) => html`<label key=${one}>
        <input type="radio" name=${label} value=${one} checked=${one === value} onChange=${() => onChange(one)} /><span>${one}</span>
      </label>`,
      )}
    </div>
  </fieldset>`
}

function Examples({
  draft,
  onChange,
}: {
  readonly draft: Draft
  readonly onChange: (part: Partial<Draft>) => void
}) {
  const { overview } = useLive()
  const shown = EXAMPLES.filter(({ simulated }) => !simulated || overview?.simulated)
  const choose = (event: Event) => {
    const select = event.target as HTMLSelectElement
    const example = shown.find(({ name }) => name === select.value)
    if (example) onChange(draftOf(example, draft.model))
    // The select element is reset, so that the same example can be chosen again.
    select.value = ''
  }
  return html`<select aria-label="Fill in an example" onChange=${choose}>
    <option value="">Examples…</option>
    ${shown.map(({ name }) => html`<option key=${name} value=${name}>${name}</option>`)}
  </select>`
}

function WhoseKey({ caller: { me, forget } }: { readonly caller: PlaygroundCaller }) {
  return html`<p class="about-node">
    ${me ? html`<span>Key of <strong>${me.account}</strong></span><span>${me.tier}</span>` : html`<span>Checking the key…</span>`}
    <button type="button" class="quiet-button" onClick=${forget}>Use another key</button>
  </p>`
}

interface SchemaEditorProps {
  readonly schema: string
  readonly onChange: (schema: string) => void
}

/** Announcing the result of the check after each key would be too frequent, so a pause must come first. */
const TYPING_PAUSE_MS = 500

function SchemaEditor({ schema, onChange }: SchemaEditorProps) {
  const id = useId()
  const verdict = checkSchema(schema)
  const [announced, setAnnounced] = useState('')
  useEffect(() => {
    const timer = setTimeout(() => setAnnounced(verdict.words), TYPING_PAUSE_MS)
    return () => clearTimeout(timer)
  }, [verdict.words])
  return html`<div class="field">
    <div class="label-line">
      <label for=${id}>Schema</label>
      <button type="button" class="quiet-button" disabled=${schema.trim() === ''} onClick=${() => onChange(pretty(schema))}>Format</button>
    </div>
    <textarea id=${id} class="mono code-area" rows="10" spellcheck="false" autocapitalize="off" value=${schema}
      aria-invalid=${verdict.kind === 'fault' ? 'true' : undefined} aria-describedby=${`${id}-verdict`}
      placeholder='{ "type": "object", … }' onInput=${(event: Event) => onChange((event.target as HTMLTextAreaElement).value)}></textarea>
    <p id=${`${id}-verdict`} class=${`verdict is-${verdict.kind}`}>${verdict.words}</p>
    <p class="visually-hidden" role="status">${announced}</p>
  </div>`
}

function CodePanel({ draft }: { readonly draft: Draft }) {
  const id = useId()
  const [language, setLanguage] = useState<Language>('curl')
  const onKeyDown = (event: KeyboardEvent) => {
    const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
    if (by === 0) return
    const next = LANGUAGES[(LANGUAGES.indexOf(language) + by + LANGUAGES.length) % LANGUAGES.length] ?? 'curl'
    setLanguage(next)
    document.getElementById(`${id}-${next}`)?.focus()
  }
  return html`<${Panel} title="The request as code">
    <div class="segments" role="tablist" aria-label="Language" onKeyDown=${onKeyDown}>
      ${LANGUAGES.map(
        (
          one,
        ) => html`<button type="button" role="tab" key=${one} id=${`${id}-${one}`} aria-controls=${`${id}-panel`}
        aria-selected=${one === language ? 'true' : 'false'} tabindex=${one === language ? 0 : -1} onClick=${() => setLanguage(one)}>${one}</button>`,
      )}
    </div>
    <div role="tabpanel" id=${`${id}-panel`} aria-labelledby=${`${id}-${language}`}>
      <${CodeBlock} text=${programFor(language, draft, location.origin)} what=${`the ${language} program`} />
    </div>
  <//>`
}

interface OutcomeProps {
  readonly watching: Watching | null
  readonly onStop: () => void
  readonly onCancel: () => void
}

function Outcome({ watching, onStop, onCancel }: OutcomeProps) {
  if (!watching) {
    return html`<${Panel} title="Answer"><p class="muted">Send the request to see its statuses here: <em>pending</em>, <em>assigned</em>,
      then <em>completed</em> or <em>failed</em>.</p><//>`
  }
  const { jobs, failure, ended } = watching
  const open = jobs.filter((job) => isOpen(job) && job.jobId !== null).length
  const actions =
    !ended &&
    html`${open > 0 && html`<button type="button" class="quiet-button" onClick=${onCancel}>Cancel ${open === 1 ? 'the job' : `${open} jobs`}</button>`}
      <button type="button" class="quiet-button" onClick=${onStop}>Stop watching</button>`
  return html`<${Panel} title=${jobs.length === 1 ? 'Answer' : `Answers (${jobs.filter((job) => !isOpen(job)).length} of ${jobs.length})`} actions=${actions}>
    ${
      failure &&
      html`<div class="fault" role="alert"><p><strong>${failure.message}</strong>${failure.details ? html`<br /><span class="breaks">${failure.details}</span>` : ''}</p></div>`
    }
    ${(!failure || jobs.some(({ jobId }) => jobId !== null)) && html`<ol class="outcomes">${jobs.map((job, index) => html`<${Job} key=${index} job=${job} />`)}</ol>`}
  <//>`
}

function Job({ job }: { readonly job: WatchedJob }) {
  const { jobId, content, error, cacheHit } = job
  return html`<li class="outcome">
    <${Steps} job=${job} />
    ${job.status === 'completed' && html`<${CodeBlock} text=${contentText(content)} what="the answer" />`}
    ${
      error &&
      html`<div class="fault"><p><span class="code-word">${error.code}</span> ${error.message}${error.upstream_message ? ` ${error.upstream_message}` : ''}</p>
      ${error.errors && html`<ul class="faults">${error.errors.map((one) => html`<li>${one}</li>`)}</ul>`}</div>`
    }
    <p class="outcome-foot">
      ${jobId !== null && html`<a href=${address(['jobs', jobId])}>Timeline and receipt</a>`}
      ${cacheHit && html`<span class="badge good">from the cache</span>`}
    </p>
  </li>`
}

function Steps({ job }: { readonly job: WatchedJob }) {
  const last = job.status === 'failed' ? 'failed' : 'completed'
  const steps: readonly Status[] = ['pending', 'assigned', last]
  const reached = job.status === 'sent' ? -1 : steps.indexOf(job.status)
  return html`<ol class="steps" aria-label="Status">
    ${steps.map((step, index) => {
      const at = job.seen[step]
      const state = index < reached ? 'is-past' : index === reached ? 'is-here' : 'is-ahead'
      return html`<li key=${step} class=${`step ${state} is-${step}`} aria-current=${index === reached ? 'step' : undefined}>
        <span class="step-name">${step}</span>
        <span class="step-at">${at === undefined ? (index < reached ? 'passed' : '') : `after ${duration(at)}`}</span>
      </li>`
    })}
  </ol>`
}
