/** Renders the page of the effective settings, which is read-only. */
import { html } from 'htm/preact'
import type { EffectiveSettings } from './contract.ts'
import { CopyButton } from './parts/copy-and-save.ts'
import { Facts, PageTitle, Panel } from './parts/sections.ts'
import { StateOf, useResource } from './resource.ts'

export function SettingsPage() {
  const settings = useResource<EffectiveSettings>('/settings')
  const { data } = settings
  return html`<${PageTitle} title="Settings">
      ${data && html`<${CopyButton} text=${JSON.stringify(data.settings, null, 2)} what="the settings" />`}
    <//>
    <p class="hint lead">The settings of this node, read-only. Environment variables override the configuration file, which overrides the
      defaults. Secrets are not shown.</p>
    ${settings.error || !data ? html`<${StateOf} of=${settings} what="the settings" />` : null}
    ${
      data &&
      html`<${Facts} facts=${[['File', data.file ?? 'none'], ['Database', html`<span class="breaks">${data.database}</span>`]]} />
      <${Sections} settings=${data.settings} />`
    }`
}

function Sections({ settings }: { readonly settings: EffectiveSettings['settings'] }) {
  const entries = Object.entries(settings).filter(([name]) => name !== '$schema')
  const plain = entries.filter(([, value]) => !isObject(value))
  const nested = entries.filter((entry): entry is [string, object] => isObject(entry[1]))
  return html`<div class="columns settings">
    <${Panel} title="General"><${Values} entries=${plain} /><//>
    ${nested.map(([name, value]) => html`<${Panel} key=${name} title=${name}><${Values} entries=${flat(value)} /><//>`)}
  </div>`
}

type Entries = readonly (readonly [path: string, value: unknown])[]

function Values({ entries }: { readonly entries: Entries }) {
  return html`<table class="settings-table">
    <thead class="visually-hidden"><tr><th scope="col">Setting</th><th scope="col">Value</th></tr></thead>
    <tbody>
      ${entries.map(([path, value]) => html`<tr key=${path}><th scope="row"><code class="breaks">${breakable(path)}</code></th><td><code class="breaks">${textOf(value)}</code></td></tr>`)}
      ${entries.length === 0 && html`<tr><td colspan="2" class="muted">None.</td></tr>`}
    </tbody>
  </table>`
}

/** Lines may break after dots and underscores, so that words are not broken on narrow screens. */
function breakable(path: string) {
  return path.split(/(?<=[._])/).map((part) => html`<wbr />${part}`)
}

/** The names of nested settings are joined with dots, as in the documentation. */
function flat(value: object, path = ''): Entries {
  return Object.entries(value).flatMap(([name, inner]) => {
    const here = path === '' ? name : `${path}.${name}`
    return isObject(inner) ? flat(inner, here) : [[here, inner] as const]
  })
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Formats an object on one line, such as `upstream: openai, model: gpt-5`. */
function lineOf(value: unknown): string {
  if (!isObject(value)) return textOf(value)
  const parts = Object.entries(value).map(([name, inner]) => `${name}: ${textOf(inner)}`)
  return parts.join(', ')
}

/** Plain values of a list share a line. Each object gets its own line. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) return JSON.stringify(value)
  if (value.length === 0) return 'none'
  return value.some(isObject) ? value.map(lineOf).join('\n') : value.join(', ')
}
